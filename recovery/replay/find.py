"""Reads of replays: the list, progress, what changed and why, for pages, API and the command alike."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.db.models import Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import QueryDict
from django.utils import timezone

from recovery.models import Replay, ReplayItem
from recovery.replay.ablate import Ablation
from recovery.replay.judge import JUDGEABLE
from recovery.replay.words import Again, ItemOutcome, Judgement, ReplayKind, ReplayState

_CHANGED = Q(outcome=ItemOutcome.CHANGED.value)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How far a replay is, and what it found so far."""

    total: int
    waiting: int
    same: int
    changed: int
    weighty: int
    unreplayable: int
    failed: int
    part: int  # replayed from evidence that was never kept whole
    differs: int  # came out otherwise under their own rules, and nothing explains it
    accepted: int
    rejected: int
    unjudged: int
    stronger: int
    first_at: datetime | None
    last_at: datetime | None

    @property
    def done(self) -> int:
        """Attempts that were looked at."""
        return self.total - self.waiting

    @property
    def percent(self) -> int:
        """The same of a hundred, rounded down: 100 is all."""
        return 100 * self.done // self.total if self.total else 0


@dataclass(frozen=True, kw_only=True)
class Group:
    """Changes for one reason: the rules that made them, and how the conclusion moved."""

    move: str
    rules: list[str]
    tried: bool
    weighty: bool
    attempts: int
    accepted: int
    rejected: int
    first: int  # the number of the first of them

    @property
    def by(self) -> str:
        """The rules as words."""
        if not self.rules:
            return ""
        return (", " if self.tried else " or ").join(self.rules)


def replays() -> QuerySet[Replay]:
    """All replays with how far they are, the newest first."""
    of_one = ReplayItem.objects.filter(replay=OuterRef("pk")).order_by().values("replay")
    number = of_one.annotate(number=Count("pk")).values("number")
    # Counted for those that are shown: of one that is done nothing waits.
    waiting = Coalesce(Subquery(number.filter(outcome=ItemOutcome.WAITING.value)), 0)
    weighty = Coalesce(Subquery(number.filter(outcome=ItemOutcome.CHANGED.value, weighty=True)), 0)
    rows = Replay.objects.select_related("ruleset").defer("ruleset__packed")
    return rows.annotate(done=F("total") - waiting, weighty=weighty).order_by("-created_at", "id")


def counts(replay: Replay) -> Counts:
    """How far a replay is."""
    changed, judgeable = _CHANGED, JUDGEABLE
    found = replay.items.aggregate(
        waiting=Count("pk", filter=Q(outcome=ItemOutcome.WAITING.value)),
        same=Count("pk", filter=Q(outcome=ItemOutcome.SAME.value)),
        changed=Count("pk", filter=changed),
        weighty=Count("pk", filter=changed & Q(weighty=True)),
        unreplayable=Count("pk", filter=Q(outcome=ItemOutcome.UNREPLAYABLE.value)),
        failed=Count("pk", filter=Q(outcome=ItemOutcome.FAILED.value)),
        part=Count("pk", filter=Q(outcome__in=[ItemOutcome.SAME.value, ItemOutcome.CHANGED.value]) & ~Q(why="")),
        differs=Count("pk", filter=Q(again=Again.DIFFERS.value)),
        accepted=Count("pk", filter=judgeable & Q(judged=Judgement.ACCEPTED.value)),
        rejected=Count("pk", filter=judgeable & Q(judged=Judgement.REJECTED.value)),
        unjudged=Count("pk", filter=judgeable & Q(judged="")),
        stronger=Count("pk", filter=changed & Q(stronger=True)),
        first_at=Min("done_at"),
        last_at=Max("done_at"),
    )
    return Counts(total=replay.total, **found)


def groups(replay: Replay) -> list[Group]:
    """What changed, grouped by reason; what weighs more comes first, then what is more frequent."""
    rows = (
        replay.items.filter(_CHANGED)
        .order_by()
        .values("move", "rules", "tried", "weighty")
        .annotate(
            first=Min("number"),
            attempts=Count("pk"),
            accepted=Count("pk", filter=Q(judged=Judgement.ACCEPTED.value)),
            rejected=Count("pk", filter=Q(judged=Judgement.REJECTED.value)),
        )
    )
    found = [Group(**row) for row in rows]
    return sorted(found, key=lambda one: (not one.weighty, -one.attempts, one.rules, one.move))


def of_group(replay: Replay, group: Group) -> list[int]:
    """The numbers of a group's attempts."""
    rows = replay.items.filter(
        _CHANGED, move=group.move, rules=group.rules, tried=group.tried, weighty=group.weighty
    ).order_by("number")
    return list(rows.values_list("number", flat=True))


def reasons(replay: Replay) -> list[dict[str, Any]]:
    """Why attempts could not be replayed, or not whole, or failed, and how many for each reason."""
    rows = (
        replay.items.exclude(why="")
        .order_by()
        .values("outcome", "why")
        .annotate(attempts=Count("pk"))
        .order_by("-attempts", "why")[:100]
    )
    return [dict(row) for row in rows]


def items(replay: Replay) -> QuerySet[ReplayItem]:
    """The attempts of a replay in their order, with what a table shows of each."""
    return (
        ReplayItem.objects.filter(replay=replay)
        .select_related("attempt__cluster", "attempt__workload", "verdict", "judged_by")
        .defer("verdict__body", "verdict__body_json", "attempt__body")
        .order_by("number")
    )


def asked(replay: Replay) -> str:
    """What a replay asks, as a sentence."""
    if replay.kind == ReplayKind.RULES:
        return f"What would ruleset {str(replay.ruleset_id)[:12]} conclude?"
    if replay.kind == ReplayKind.OWN:
        return "Does every verdict come out of its own rules again, byte for byte?"
    return f"What would be concluded {msgspec.convert(replay.ablation, Ablation)}?"


def chosen(replay: Replay) -> list[tuple[str, str]]:
    """The filters that named its attempts."""
    return [(name, value) for name, values in QueryDict(replay.query).lists() for value in map(str, values)]


def rate(replay: Replay, found: Counts) -> float | None:
    """Attempts a second, as long as it ran without a pause; None where that is not known."""
    if found.first_at is None or found.last_at is None or found.done < 2:
        return None
    end = timezone.now() if replay.state == ReplayState.RUNNING else found.last_at
    seconds = (end - found.first_at).total_seconds()
    return found.done / seconds if seconds > 0 else None
