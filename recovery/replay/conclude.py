"""One attempt of a replay: what its stored evidence would lead to, and how that differs from what stands.

Where other rules conclude the same as the stored verdict, nothing else has to be asked. Where they do not, the verdict
is concluded again with its own rules first: what the engine or later evidence changed must not be blamed on a rule.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from recovery.models import Replay, ReplayItem
from recovery.replay import blame, rulesets
from recovery.replay.ablate import Ablation, Given, Unanswerable, ablated
from recovery.replay.compare import gist, moved, same
from recovery.replay.words import Again, ItemOutcome, ReplayKind
from rules.engine import ATTEMPT_REF, attribute
from rules.ruleset import Ruleset
from rules.verdict import ENGINE, canonical_json
from verdicts.evidence import Evidence, load_evidence
from verdicts.keeping import Kept
from verdicts.models import Attempt, Verdict

Body = dict[str, Any]
NO_VERDICT = "it has no verdict to stand beside"
GONE = "its evidence is not there any more"
#: What has to be there, by class: the lines, and what the verdict quotes of them, or its bytes cannot be compared.
_NEEDED = {Kept.LINES: "its lines", Kept.QUOTES: "what its verdict quoted"}
EXPIRED = tuple(f"{kept.value}_expired_at" for kept in _NEEDED)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a replay asks of each attempt; read once for many."""

    kind: ReplayKind
    ruleset: Ruleset | None = None
    ablation: Ablation | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of one attempt, as the columns of its row."""

    outcome: ItemOutcome
    again: Again = Again.UNASKED
    why: str = ""
    columns: dict[str, Any] = field(default_factory=dict)


def question_of(replay: Replay) -> Question:
    """What a replay asks. Raises NoRuleset where the candidate's text cannot be used."""
    return Question(
        kind=ReplayKind(replay.kind),
        ruleset=rulesets.candidate(replay.ruleset_id) if replay.ruleset_id else None,
        ablation=msgspec.convert(replay.ablation, Ablation) if replay.ablation else None,
    )


def answer(question: Question, item: ReplayItem) -> Answer:
    """Conclude for one attempt. Whatever the engine raises is raised."""
    rows = Verdict.objects.select_related("ruleset").defer("body", "coverage")
    verdict = rows.filter(pk=item.verdict_id).first() if item.verdict_id else None
    if verdict is None:
        return Answer(outcome=ItemOutcome.UNREPLAYABLE, why=NO_VERDICT)
    attempt = Attempt.objects.only("cut", *EXPIRED).get(pk=item.attempt_id)
    if gone := expired(attempt):
        return Answer(outcome=ItemOutcome.UNREPLAYABLE, why=gone)
    stored: Body = msgspec.json.decode(verdict.body_json)
    evidence = load_evidence(item.attempt_id)
    if gone := missing(stored, evidence):
        return Answer(outcome=ItemOutcome.UNREPLAYABLE, why=gone)
    case = _Case(verdict, stored, evidence)
    part = cut(attempt)
    found = case.ablated(question.ablation) if question.ablation else case.under(question.ruleset)
    return found if found.why or not part else Answer(**{**vars(found), "why": part})


def missing(stored: Body, evidence: Evidence) -> str:
    """Which evidence of a verdict is not there any more; empty where all of it is."""
    there = Counter[str]()
    for observation in evidence.observations:
        there[observation.source.value] += observation.count
    lost = []
    for cell in stored.get("coverage") or []:
        # The attempt's own record is a source's evidence too, and has no row.
        delivered = (cell.get("delivered") or 0) - (ATTEMPT_REF in (cell.get("files") or []))
        if delivered > there[cell["source"]]:
            lost.append(f"{cell['source']}: {delivered:,} records then, {there[cell['source']]:,} now")
    return f"{GONE}: {'; '.join(lost)}" if lost else ""


def expired(attempt: Attempt) -> str:
    """Which classes of an attempt's evidence expired, of those that a conclusion needs; empty where none did."""
    gone = [(kept, at) for kept in _NEEDED if (at := getattr(attempt, f"{kept.value}_expired_at")) is not None]
    return "; ".join(f"{_NEEDED[kept]} expired on {at:%Y-%m-%d}" for kept, at in gone)


def cut(attempt: Attempt) -> str:
    """What was never kept of an attempt's evidence; empty where all was."""
    if not attempt.cut:
        return ""
    said = ", ".join(f"{number:,} of {source}" for source, number in sorted(attempt.cut.items()))
    return f"never kept whole: {said} were refused; what rules would find there nobody can say"


class _Case:
    """A verdict with its evidence, concluded as often as need be."""

    def __init__(self, verdict: Verdict, stored: Body, evidence: Evidence) -> None:
        self._verdict, self._stored = verdict, stored
        self._late = evidence.generation != verdict.generation
        self._given = Given(evidence.attempt, evidence.observations, evidence.reports)

    def under(self, other: Ruleset | None) -> Answer:
        """Compare with what other rules conclude; without any, with what its own rules conclude once more."""
        if other is None or other.digest == self._verdict.ruleset.digest:
            return self._once_more()
        after = self._body(other)
        if same(self._stored, after):
            return Answer(outcome=ItemOutcome.SAME)
        own = rulesets.own(self._verdict.ruleset_id)
        if own is None:
            return self._changed(self._stored, after, Again.NO_RULES)
        before, again = self._own(own)
        if same(before, after):
            return Answer(outcome=ItemOutcome.SAME, again=again, columns={"said": moved(self._stored, before).said})
        found = blame.blamed(own, other, before, after, self._given.observations, self._body)
        return self._changed(before, after, again, found)

    def ablated(self, ablation: Ablation) -> Answer:
        """Compare with what the same rules conclude from other evidence."""
        own = rulesets.own(self._verdict.ruleset_id)
        if own is None:
            return Answer(
                outcome=ItemOutcome.UNREPLAYABLE, again=Again.NO_RULES, why="the text of its rules was not kept"
            )
        before, again = self._own(own)
        try:
            given = ablated(self._given, ablation, frozenset(gist(before)["nodes"]))
        except Unanswerable as error:
            return Answer(outcome=ItemOutcome.UNREPLAYABLE, again=again, why=str(error))
        after = self._body(own, given)
        if not _told(before, after):
            return Answer(outcome=ItemOutcome.SAME, again=again)
        return self._changed(before, after, again)

    def _once_more(self) -> Answer:
        own = rulesets.own(self._verdict.ruleset_id)
        if own is None:
            return Answer(
                outcome=ItemOutcome.UNREPLAYABLE, again=Again.NO_RULES, why="the text of its rules was not kept"
            )
        before, again = self._own(own)
        if again is Again.SAME:
            return Answer(outcome=ItemOutcome.SAME, again=again)
        if same(self._stored, before):
            return Answer(outcome=ItemOutcome.SAME, again=again, columns={"said": ["The bytes differ, no field does."]})
        return self._changed(self._stored, before, again)

    def _own(self, own: Ruleset) -> tuple[Body, Again]:
        """What its own rules conclude now, and whether that is what is stored, byte for byte."""
        raw = canonical_json(attribute(*self._evidence(self._given), own, mode=self._verdict.mode))
        if raw == self._verdict.body_json.encode():
            return self._stored, Again.SAME
        body: Body = msgspec.json.decode(raw)
        if self._late:
            return body, Again.EVIDENCE
        return body, Again.ENGINE if self._verdict.engine != ENGINE else Again.DIFFERS

    def _body(self, rules: Ruleset, given: Given | None = None) -> Body:
        concluded = attribute(*self._evidence(given or self._given), rules, mode=self._verdict.mode)
        body: Body = msgspec.json.decode(canonical_json(concluded))
        return body

    @staticmethod
    def _evidence(given: Given) -> tuple[Any, Any, Any]:
        return given.attempt, given.observations, given.reports

    @staticmethod
    def _changed(before: Body, after: Body, again: Again, found: blame.Blamed | None = None) -> Answer:
        change = moved(before, after)
        return Answer(
            outcome=ItemOutcome.CHANGED,
            again=again,
            columns={
                "weighty": change.weighty,
                "stronger": change.stronger,
                "domain_before": before.get("attributed_domain") or "",
                "domain_after": after.get("attributed_domain") or "",
                "move": change.move[:80],
                "rules": [name[:255] for name in found.rules[:50]] if found else [],
                "tried": found.tried if found else True,
                "said": change.said,
                "before": gist(before),
                "after": gist(after),
            },
        )


def _told(before: Body, after: Body) -> bool:
    """Whether other evidence led to another conclusion: that its coverage is told otherwise is what was asked for."""
    change = moved(before, after)
    return change.weighty
