"""Reads of retention: what expires when, what is stored, which holds stand; cheap at a million attempts."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db import connection
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Coalesce, TruncWeek
from django.utils import timezone

from recovery.models import Hold, LedgerContent
from recovery.models.retention import STANDING
from recovery.retention.due import BEGAN, cutoff, days_of, left, terms_of
from verdicts.keeping import HOLDS, OF_ATTEMPTS, TITLES, Kept
from verdicts.listing.form import id_of
from verdicts.models import Attempt, Tombstone, Workload

#: Weeks ahead that are counted, and how far each is.
WEEKS, MOST_COUNTED = 8, 10_000
#: The tables that hold a class.
TABLES: Mapping[Kept, tuple[str, ...]] = {
    Kept.LINES: ("verdicts_observation", "verdicts_batch"),
    Kept.QUOTES: ("verdicts_verdict", "verdicts_unrecognisedline", "verdicts_collectorreport"),
    Kept.PROGRESS: ("recovery_rankprogress", "recovery_progresssample", "recovery_progressreading"),
    Kept.WORDS: ("recovery_ledgercontent", "verdicts_comment", "verdicts_review", "recovery_decision"),
}


@dataclass(frozen=True)
class Size:
    """What the tables of a class take up, with their indexes, and the database's own estimate of their rows.

    `rows` is None where the database has not looked yet.
    """

    rows: int | None
    bytes: int


@dataclass(frozen=True)
class Week:
    """How many attempts (or words) are due in a week; `more` says that counting stopped."""

    begins: date
    number: int
    more: bool


@dataclass(frozen=True)
class Class:
    """A class as its page shows it. `days` 0 is for ever; `late` is what is due already."""

    kept: Kept
    days: int
    size: Size
    late: Week
    weeks: list[Week]

    @property
    def title(self) -> str:
        """Its name."""
        return TITLES[self.kept]

    @property
    def holds(self) -> str:
        """What is in it."""
        return HOLDS[self.kept]


def classes(now: datetime | None = None) -> list[Class]:
    """Each class: for how long it is kept, what it takes up, what of it is due in which week."""
    now = now or timezone.now()
    sizes = _sizes()
    found = []
    for kept in Kept:
        late, *weeks = _weeks(kept, now)
        size = _together(sizes.get(table, Size(None, 0)) for table in TABLES[kept])
        found.append(Class(kept, days_of(kept), size, late, weeks))
    return found


def _sizes() -> dict[str, Size]:
    """The tables as the database itself keeps count of them: nothing is read."""
    names = [table for tables in TABLES.values() for table in tables]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT relname, reltuples::bigint, pg_total_relation_size(oid) FROM pg_class
            WHERE relkind IN ('r', 'p') AND relname = ANY (%s) AND pg_table_is_visible(oid)
            """,
            [names],
        )
        return {name: Size(rows if rows >= 0 else None, size) for name, rows, size in cursor.fetchall()}


def _together(sizes: Iterator[Size]) -> Size:
    held = list(sizes)
    known = [one.rows for one in held if one.rows is not None]
    return Size(sum(known) if known else None, sum(one.bytes for one in held))


def _weeks(kept: Kept, now: datetime) -> Iterator[Week]:
    """What is due already, then this week and those after it."""
    monday = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday -= timedelta(days=monday.weekday())
    bounds = [now, *(monday + timedelta(weeks=number) for number in range(1, WEEKS + 1))]
    days = timedelta(days=days_of(kept))
    if not days:
        yield from (Week(at.date(), 0, more=False) for at in bounds)
        return
    if kept is Kept.WORDS:
        yield from _weeks_of_words(bounds, days)
        return
    rows = left(kept)
    yield _counted(now, rows.filter(since__lt=now - days))
    for begin, end in pairwise(bounds):
        yield _counted(begin, rows.filter(since__gte=begin - days, since__lt=end - days))


def _counted(begins: datetime, rows: QuerySet[Any]) -> Week:
    number = seen(rows)
    return Week(begins.date(), min(number, MOST_COUNTED), number > MOST_COUNTED)


def seen(rows: QuerySet[Any]) -> int:
    """How many of what is left of a class there are, or one more than are counted.

    In the index's order, though no order is wanted: the database takes what is due for many where it is few, since most
    of what is so old is gone, and would read the whole table for it.
    """
    return rows.order_by("since", "id").values("pk")[: MOST_COUNTED + 1].count()


def _weeks_of_words(bounds: list[datetime], days: timedelta) -> Iterator[Week]:
    """Words are few; they are counted beside the ledger's chain, by when each was written."""
    kept = LedgerContent.objects.filter(erased_at__isnull=True, entry__at__lt=bounds[-1] - days)
    by_week = kept.annotate(week=TruncWeek("entry__at", tzinfo=UTC)).values_list("week").annotate(number=Count("pk"))
    counted: Counter[int] = Counter()
    for week, number in by_week.order_by():
        due = week + days
        counted[sum(bound <= due for bound in bounds)] += number
    for place, begin in enumerate(bounds):
        yield Week(begin.date(), counted[place], more=False)


@dataclass(frozen=True)
class Until:
    """Until when a class of an attempt is kept: `gone` is when it expired, `at` None for ever."""

    kept: Kept
    at: datetime | None
    gone: datetime | None


def until(attempt: Attempt) -> list[Until]:
    """Until when each class of an attempt is kept by its time, whatever stands in the way."""
    terms = {term.kept: term.at for term in terms_of(attempt)}
    return [Until(kept, terms.get(kept), getattr(attempt, f"{kept.value}_expired_at")) for kept in OF_ATTEMPTS]


# --- One attempt and its neighbours ---------------------------------------------------------------


def holds() -> QuerySet[Hold]:
    """Holds with what they are over and who has to do with them; those that stand and are overdue first."""
    return Hold.objects.select_related(
        "attempt__cluster", "workload__cluster", "cluster", "owner", "placed_by", "released_by"
    ).defer("attempt__body")


def overdue(today: date | None = None) -> QuerySet[Hold]:
    """The holds that stand and that somebody should have looked at by now."""
    return holds().filter(STANDING, review_on__lt=today or timezone.now().date())


def over(hold: Hold) -> QuerySet[Attempt]:
    """The attempts that a hold is over."""
    if hold.attempt_id is not None:
        return Attempt.objects.filter(pk=hold.attempt_id)
    if hold.workload_id is not None:
        return Attempt.objects.filter(workload=hold.workload_id)
    goes_on = Q(ended_at__isnull=True) | Q(ended_at__gte=hold.after)
    began = Attempt.objects.annotate(began=Coalesce(*BEGAN))
    return began.filter(goes_on, cluster=hold.cluster_id, began__lt=hold.before)


def reach(hold: Hold) -> tuple[int, int]:
    """How many attempts a hold is over, up to a cap, and of how many of them lines had expired before."""
    rows = over(hold).order_by()
    gone = rows.filter(lines_expired_at__isnull=False)
    return (rows.values("pk")[: MOST_COUNTED + 1].count(), gone.values("pk")[: MOST_COUNTED + 1].count())


def tombstones() -> QuerySet[Tombstone]:
    """What expired, the latest first."""
    return Tombstone.objects.select_related("attempt__cluster").defer("attempt__body").order_by("-at", "-id")


def workloads_named(name: str, cluster: str) -> QuerySet[Workload]:
    """The workloads of a name or an id; of one name there may be several, on several accounts or clusters."""
    pk = id_of(name)
    rows = Workload.objects.select_related("cluster").filter(Q(name=name) | Q(pk=pk) if pk else Q(name=name))
    return rows.filter(cluster__name=cluster) if cluster else rows


def earliest(attempt: Attempt, now: datetime) -> datetime | None:
    """When the first of what people wrote about an attempt is due; None where nobody wrote anything, or for ever."""
    before = cutoff(Kept.WORDS, now)
    if before is None:
        return None
    at = (
        LedgerContent.objects.filter(erased_at__isnull=True, entry__attempt=attempt.pk)
        .order_by("entry__at")
        .values_list("entry__at", flat=True)
        .first()
    )
    return at + timedelta(days=days_of(Kept.WORDS)) if at is not None else None
