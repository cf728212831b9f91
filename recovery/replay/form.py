"""What an address asks of the list of replays and of the attempts of one, and what a form or a call asks for."""

from collections.abc import Mapping
from typing import Any

import msgspec
from django.db.models import Q, QuerySet

from recovery.models import Replay, ReplayItem
from recovery.replay import find, rulesets, wording
from recovery.replay.ablate import Ablation, checked
from recovery.replay.begin import Wish
from recovery.replay.judge import JUDGEABLE
from recovery.replay.words import Again, ItemOutcome, Judgement, ReplayKind, ReplayState
from rules.attempt import InputError
from rules.words import Source
from verdicts.listing.filter_form import filters_of
from verdicts.listing.form import ListForm
from verdicts.listing.read import PAGING
from verdicts.storable import storable_text

OTHERWISE, ALL, UNJUDGED = "otherwise", "all", "unjudged"
_JUDGED = {Judgement.NONE: "nobody yet", Judgement.ACCEPTED: "accepted", Judgement.REJECTED: "rejected"}


class ReplaysForm(ListForm):
    """Replays, the newest first."""

    labels = {"kind": "Tried", "state": "State", "ruleset": "Ruleset", "by": "Begun by", "after": "Begun after"}
    labels |= {"before": "Begun before"}
    sets = {
        "kind": [(word.value, wording.KINDS[word]) for word in ReplayKind],
        "state": [(word.value, wording.STATES[word].text) for word in ReplayState],
    }
    texts = ("ruleset", "by")
    times = ("after", "before")

    def rows(self) -> QuerySet[Replay]:
        """The replays asked for; none where the address cannot be understood."""
        rows = find.replays()
        if self.errors:
            return rows.none()
        for name in self.sets:
            if values := self.values(name):
                rows = rows.filter(**{f"{name}__in": values})
        if ruleset := self.value("ruleset"):
            rows = rows.filter(ruleset__digest__startswith=ruleset.lower())
        if by := self.value("by"):
            rows = rows.filter(actor__in=[by, f"user:{by}", f"system:{by}"])
        if (after := self.moment("after")) is not None:
            rows = rows.filter(created_at__gte=after)
        if (before := self.moment("before")) is not None:
            rows = rows.filter(created_at__lt=before)
        return rows


class ItemsForm(ListForm):
    """The attempts of a replay: by default those that did not come out the same."""

    labels = {"show": "Show", "outcome": "Outcome", "judged": "Judged", "weight": "Weight", "again": "Once more"}
    labels |= {"rule": "Rule", "move": "How it moved", "job": "Job", "cluster": "Cluster", "attempt": "Attempt"}
    sets = {
        "outcome": [(word.value or "waiting", wording.OUTCOMES[word].text) for word in ItemOutcome],
        "judged": [(word.value or "none", _JUDGED[word]) for word in Judgement],
        "again": [(word.value or "unasked", wording.AGAIN[word]) for word in Again],
    }
    choices: Mapping[str, list[tuple[str, str]]] = {
        "show": [
            (OTHERWISE, "what did not come out the same"),
            (UNJUDGED, "what waits for a judgement"),
            (ALL, "all attempts"),
        ],
        "weight": [("", "all"), ("weighty", "what changes what is acted on"), ("light", "what changes words alone")],
    }
    texts = ("rule", "move", "job", "cluster")

    @property
    def narrows(self) -> bool:
        """Whether anything but what is usual is asked for."""
        return any(name not in ("page", "limit", "offset", "format") for name in self.data)

    def rows(self, replay: Replay) -> QuerySet[ReplayItem]:
        """The attempts asked for; none where the address cannot be understood."""
        rows = find.items(replay)
        if self.errors:
            return rows.none()
        show = self.value("show") or (ALL if self.values("outcome") or self.values("again") else OTHERWISE)
        if show == OTHERWISE:
            alike = Q(outcome__in=[ItemOutcome.SAME.value, ItemOutcome.WAITING.value], why="")
            rows = rows.exclude(alike & ~Q(again=Again.DIFFERS.value))
        elif show == UNJUDGED:
            rows = rows.filter(JUDGEABLE, judged="")
        for name, nothing in (("outcome", "waiting"), ("judged", "none"), ("again", "unasked")):
            if values := self.values(name):
                rows = rows.filter(**{f"{name}__in": ["" if value == nothing else value for value in values]})
        if weight := self.value("weight"):
            rows = rows.filter(outcome=ItemOutcome.CHANGED.value, weighty=weight == "weighty")
        if rule := self.value("rule"):
            rows = rows.filter(rules__contains=[rule])
        for name, field in (("move", "move"), ("job", "attempt__job_id"), ("cluster", "attempt__cluster__name")):
            if value := self.value(name):
                rows = rows.filter(**{field: value})
        return rows


def wish_of(said: Mapping[str, Any]) -> Wish:
    """What a form or a call asks for. Raises InputError that names the field.

    `kind` is rules, own or ablation; `ruleset` a digest or how it begins, or nothing for the rules in force;
    `query` the filters of the list of verdicts, or the list's whole address.
    """
    kind = str(said.get("kind") or ReplayKind.RULES.value)
    if kind not in set(ReplayKind):
        raise InputError(f"kind: one of {', '.join(ReplayKind)}")
    ruleset = ablation = None
    if kind == ReplayKind.RULES:
        digest = str(said.get("ruleset") or "").strip()
        ruleset = rulesets.keep_used(digest) if digest else rulesets.keep_current()
    elif kind == ReplayKind.ABLATION:
        ablation = _ablation(said)
    return Wish(
        ruleset=ruleset,
        ablation=ablation,
        query=query_of(str(said.get("query") or "")),
        reason=str(said.get("reason") or ""),
    )


def query_of(text: str) -> str:
    """The filters of an address that people copy as a whole, or of what stands behind its question mark.

    Raises InputError where they are none of the list's.
    """
    text = storable_text(text).strip().partition("#")[0]
    query = text.partition("?")[2] if "?" in text else text
    return filters_of(query, "query", without=(*PAGING, "order")).data.urlencode()


def _ablation(said: Mapping[str, Any]) -> Ablation:
    fields: dict[str, Any] = {}
    for name in ("without", "delay", "source"):
        if word := str(said.get(name) or ""):
            if word not in set(Source):
                raise InputError(f"{name}: {word!r} is no source")
            fields[name] = Source(word)
    for name in ("line", "node", "at"):
        if text := storable_text(str(said.get(name) or "")).strip():
            fields[name] = text
    if seconds := str(said.get("seconds") or "").strip():
        try:
            fields["seconds"] = float(seconds)
        except ValueError:
            raise InputError(f"seconds: {seconds!r} is no number") from None
    try:
        return checked(msgspec.convert(fields, Ablation))
    except msgspec.ValidationError as error:
        raise InputError(f"ablation: {error}") from error
