"""The report of a replay as plain data and as text: every changed conclusion, grouped by reason."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Q

from recovery.models import Replay, ReplayItem
from recovery.replay import find, gate
from recovery.replay.words import Again, ItemOutcome
from rules.verdict import plain_text

#: Attempts named for a reason on a terminal; the page and --json have all.
NAMED = 20


def row(item: ReplayItem) -> dict[str, Any]:
    """One attempt of a replay as data."""
    return {
        "number": item.number,
        "attempt": str(item.attempt_id),
        "verdict": str(item.verdict_id) if item.verdict_id else None,
        "cluster": item.attempt.cluster.name,
        "job_id": item.attempt.job_id,
        "restart_count": item.attempt.restart_count,
        "outcome": item.outcome or "waiting",
        "reproducible": item.again or None,
        "weighty": item.weighty,
        "stronger": item.stronger,
        "move": item.move,
        "rules": list(item.rules),
        "rules_alone": item.tried,
        "said": item.said,
        "before": item.before,
        "after": item.after,
        "why": item.why,
        "judged": item.judged,
        "judged_by": item.judged_by.get_username() if item.judged_by else None,
        "judged_at": item.judged_at.isoformat() if item.judged_at else None,
        "judged_why": item.judged_why,
    }


def whole(replay: Replay) -> dict[str, Any]:
    """The report as data, with every attempt that did not come out the same."""
    counts = find.counts(replay)
    same = Q(outcome=ItemOutcome.SAME.value, why="") & ~Q(again=Again.DIFFERS.value)
    told = find.items(replay).exclude(same).exclude(outcome=ItemOutcome.WAITING.value)
    return {
        "replay": str(replay.pk),
        "kind": replay.kind,
        "asked": find.asked(replay),
        "ruleset": replay.ruleset_id,
        "ablation": replay.ablation,
        "query": replay.query,
        "state": replay.state,
        "counts": {name: getattr(counts, name) for name in _COUNTED},
        "groups": [
            {
                "move": one.move,
                "rules": one.rules,
                "rules_alone": one.tried,
                "weighty": one.weighty,
                "attempts": one.attempts,
            }
            for one in find.groups(replay)
        ],
        "gate": [
            {
                "policy": one.scope.policy.name,
                "cluster": one.scope.cluster,
                "domain": one.scope.domain,
                "passes": one.passes,
                "said": one.said,
            }
            for one in gate.gates_of(replay)
        ],
        "items": [row(item) for item in told],
    }


_COUNTED = (
    *("total", "waiting", "same", "changed", "weighty", "unreplayable", "failed", "part", "differs"),
    *("accepted", "rejected", "unjudged", "stronger"),
)


def lines(replay: Replay) -> Iterator[str]:
    """The report for a terminal."""
    counts = find.counts(replay)
    yield f"replay   {replay.pk}  {replay.state}"
    yield f"asked    {plain_text(find.asked(replay))}"
    yield (
        f"attempts {counts.total:,}: {counts.same:,} the same, {counts.changed:,} otherwise "
        f"({counts.weighty:,} of weight), {counts.unreplayable:,} cannot be replayed, {counts.failed:,} failed"
        + (f", {counts.waiting:,} not looked at" if counts.waiting else "")
    )
    changed = find.items(replay).filter(outcome=ItemOutcome.CHANGED.value)
    for group in find.groups(replay):
        yield ""
        by = f" by {group.by}" if group.rules else ""
        yield f"{group.move}{by} ({group.attempts:,}{'' if group.weighty else ', of no weight'})"
        of_group = changed.filter(move=group.move, rules=group.rules, weighty=group.weighty, tried=group.tried)
        for item in of_group[:NAMED]:
            yield f"  {item.attempt_id}  {plain_text(_named(item))}"
            yield from (f"      {plain_text(said)}" for said in item.said[:6])
        if group.attempts > NAMED:
            yield f"  and {group.attempts - NAMED:,} more: --json names all"
    yield from _findings(replay, counts)
    for one in gate.gates_of(replay):
        word = "passes" if one.passes else "does not pass"
        yield f"gate     {one.scope}: {word}. {plain_text(one.said)}"


def _findings(replay: Replay, counts: find.Counts) -> Iterator[str]:
    if counts.differs:
        yield ""
        yield f"NOT REPRODUCIBLE: {counts.differs:,} verdicts do not come out of their own rules and evidence again"
        for item in find.items(replay).filter(again=Again.DIFFERS.value)[:NAMED]:
            yield f"  {item.attempt_id}  {plain_text(_named(item))}"
    if replay.ablation and counts.stronger:
        yield ""
        yield f"STRONGER with other evidence: {counts.stronger:,}; less or later evidence should never do that"
    reasons = find.reasons(replay)
    if reasons:
        yield ""
        yield "cannot be replayed, or not whole:"
        for reason in reasons[:NAMED]:
            yield f"  {reason['attempts']:,} {reason['outcome']}: {plain_text(reason['why'])}"


def _named(item: ReplayItem) -> str:
    again = f" ({item.attempt.restart_count})" if item.attempt.restart_count else ""
    return f"job {item.attempt.job_id}{again} on {item.attempt.cluster.name or 'no cluster named'}"
