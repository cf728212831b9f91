"""The numbers of the overview. Each is counted by the filters of the list that it leads to, so that both agree."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.db.models import Count, Sum
from django.http import QueryDict

from rules.words import Domain, State
from verdicts.fleet.ports import Port
from verdicts.listing.filters import NOT_ANALYSED
from verdicts.listing.keyset import MOST_COUNTED, MOST_READ
from verdicts.listing.read import asked
from verdicts.models import Blame, Discovery, ListRow, SourceState, WeekTally
from verdicts.own import OWN_LIST, own
from verdicts.quality.shares import Share, share
from verdicts.sources import find as source_find

#: How an attempt ends that did not end as its people wanted.
FAILED = (
    State.FAILED,
    State.TIMED_OUT,
    State.NODE_FAILED,
    State.OUT_OF_MEMORY,
    State.HUNG,
    State.DEGRADED,
)
WEEKS = 12
OFFENDER_DAYS = 14
MOST_OFFENDERS, MOST_PORTS = 10, 5
_PLACE = ("cluster", "name", "port")
#: A machine that was blamed once had a fault; one that was blamed so often is a matter for repair.
OFFENDS_FROM = 2
RIGHT_DAYS = 30
MOST_BLIND = 20

Query = dict[str, str | list[str]]


@dataclass(frozen=True)
class Number:
    """A number and the list that it counts; `more` where there are more than were counted."""

    count: int
    query: str
    most: int = MOST_COUNTED

    @property
    def more(self) -> bool:
        """Whether there are more than the list counts."""
        return self.count > self.most

    @property
    def shown(self) -> int:
        """The number as list and overview show it."""
        return min(self.count, self.most)


@dataclass(frozen=True)
class Offender:
    """A machine, or an element that machines share, and how many failures it was blamed for."""

    cluster: str
    name: str
    number: Number


@dataclass(frozen=True)
class Week:
    """A week from its Monday: failures by domain and together."""

    start: datetime
    domains: dict[str, Number]
    total: Number


@dataclass(frozen=True)
class Overview:
    """Everything that the landing page shows."""

    now: datetime
    since: datetime
    ambiguous: Number
    unattributed: Number
    failed_attributions: Number
    degraded: Number
    not_analysed: Number
    today: list[tuple[str, Number]]
    today_total: Number
    weeks: list[Week]
    domains: list[str]
    nodes: list[Offender]
    shared: list[Offender]
    ports: list[Port]
    wrong: Number
    decided: Number
    wrongness: Share
    blind: list[SourceState]
    failing: list[Discovery]
    latest: datetime | None

    @property
    def quiet_since(self) -> datetime | None:
        """When the last attempt ended or became known, if that is before all that is counted by days here."""
        return self.latest if self.latest and self.latest < self.now - timedelta(days=7) else None


def _said(query: Query) -> str:
    # What came from another site is in the list, and in no figure.
    return urlencode(query | OWN_LIST, doseq=True)


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%MZ}"


def _failed(**more: str | list[str]) -> Query:
    return {"state": [state.value for state in FAILED], **more}


def _with(said: str, **more: str) -> str:
    """An address narrowed further."""
    return f"{said}&{urlencode(more)}"


# What an address asks for is worked out by the list's own filters, which takes longer than the statement itself; within
# an hour the overview asks for the same.
_Statement = tuple[str, tuple[Any, ...]]


@lru_cache(maxsize=64)
def _counting(said: str) -> _Statement:
    """What counts a list as that list counts itself."""
    return asked(QueryDict(said)).found().counted().query.sql_with_params()


@lru_cache(maxsize=8)
def _counting_domains(said: str) -> _Statement:
    """What counts a list of failures by domain: those have ended, so the time range is one part."""
    (part,) = asked(QueryDict(said)).found().parts
    return part.order_by().values_list("domain").annotate(Count("pk")).query.sql_with_params()


def counts(queries: Sequence[Query]) -> list[Number]:
    """The lengths of some lists, as those lists count themselves, in one query."""
    addresses = [_said(query) for query in queries]
    statements = [_counting(said) for said in addresses]
    parts = [f"(SELECT count(*) FROM ({sql}) AS counted)" for sql, _ in statements]  # noqa: S608 -- made by the ORM
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", [value for _, values in statements for value in values])
        found = cursor.fetchone()
    return [Number(number, said) for number, said in zip(found, addresses, strict=True)]


def _today(since: datetime) -> tuple[list[tuple[str, Number]], Number]:
    said = _said(_failed(after=_stamp(since)))
    with connection.cursor() as cursor:
        cursor.execute(*_counting_domains(said))
        domains = sorted(cursor.fetchall(), key=lambda pair: (-pair[1], pair[0]))
    told = [(word, Number(number, _with(said, domain=word))) for word, number in domains]
    return told, Number(sum(number for _, number in domains), said)


def _weeks(now: datetime) -> tuple[list[Week], list[str]]:
    monday = (now - timedelta(days=now.weekday())).replace(hour=0, minute=0, second=0, microsecond=0)
    first = monday - timedelta(weeks=WEEKS - 1)
    found: dict[date, Counter[str]] = defaultdict(Counter)
    # Not counted anew at each visit: the database keeps the tally of the list by week.
    tallied = WeekTally.objects.filter(week__range=(first.date(), monday.date()), state__in=FAILED)
    for week, domain, number in tallied.values_list("week", "domain").annotate(Sum("number")):
        if number:
            found[week][domain] = number
    totals = sum(found.values(), Counter[str]())
    domains = [word for word, _ in sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))]
    weeks = []
    for step in range(WEEKS):
        start = first + timedelta(weeks=step)
        said = _said(_failed(after=_stamp(start), before=_stamp(start + timedelta(weeks=1))))
        numbers = {word: Number(found[start.date()][word], _with(said, domain=word)) for word in domains}
        weeks.append(Week(start, numbers, Number(found[start.date()].total(), said)))
    return weeks, domains


def _offenders(now: datetime) -> tuple[list[Offender], list[Offender], list[Port]]:
    """Machines, elements that machines share, and ports, that were blamed for several failures of late."""
    since = now - timedelta(days=OFFENDER_DAYS)
    said = _said(_failed(after=_stamp(since)))
    blamed = Blame.objects.filter(happened_at__gte=since, state__in=FAILED).values_list(
        "kind", "cluster", "name", "port"
    )
    often = blamed.annotate(number=Count("pk")).filter(number__gte=OFFENDS_FROM).order_by("-number", *_PLACE)
    nodes, shared = (often.filter(kind=kind)[:MOST_OFFENDERS] for kind in ("node", "shared"))
    found = nodes.union(shared, often.filter(kind__in=("port_of_switch", "port_of_node"))[:MOST_PORTS], all=True)
    told: dict[str, list[Offender]] = {"node": [], "shared": []}
    ports = []
    for kind, cluster, name, port, number in sorted(found, key=lambda row: (-row[4], *row[1:4])):
        if kind in told:
            place = {kind: name, "cluster": cluster or "none"}
            told[kind].append(Offender(cluster, name, Number(number, _with(said, **place), MOST_READ)))
        else:
            ports.append(Port(cluster, kind.removeprefix("port_of_"), name, port, blamed=number))
    return told["node"], told["shared"], ports


def _latest() -> datetime | None:
    """When the last attempt ended, or became known where its end is not: the time that the list goes by."""
    rows = ListRow.objects.filter(own(), is_current=True).order_by("-happened_at")
    return rows.values_list("happened_at", flat=True).first()


def overview(now: datetime) -> Overview:
    """The overview as it is at a time; ranges begin at full hours, so that a link made from them is short."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    since, week = hour - timedelta(days=1), hour - timedelta(days=7)
    late = _stamp(hour - timedelta(days=RIGHT_DAYS))
    ambiguous, unattributed, failed, degraded, waiting, wrong, decided = counts(
        [
            {"domain": Domain.AMBIGUOUS.value, "review": "none", "after": _stamp(week)},
            {"domain": Domain.UNATTRIBUTED.value, "review": "none", "after": _stamp(week)},
            {"attribution": "failed"},
            _failed(coverage="degraded", review="none", after=_stamp(week)),
            {"domain": NOT_ANALYSED},
            {"review": "wrong", "after": late},
            {"review": "decided", "after": late},
        ]
    )
    today, today_total = _today(since)
    weeks, domains = _weeks(hour)
    nodes, shared, ports = _offenders(hour)
    return Overview(
        now=now,
        since=since,
        ambiguous=ambiguous,
        unattributed=unattributed,
        failed_attributions=failed,
        degraded=degraded,
        not_analysed=waiting,
        today=today,
        today_total=today_total,
        weeks=weeks,
        domains=domains,
        nodes=nodes,
        shared=shared,
        ports=ports,
        wrong=wrong,
        decided=decided,
        wrongness=share(min(wrong.count, decided.count), decided.count),
        blind=source_find.blind()[:MOST_BLIND],
        failing=source_find.failing()[:MOST_BLIND],
        latest=_latest(),
    )
