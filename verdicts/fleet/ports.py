"""Switches and their ports, and the ports of nodes: what findings of standing verdicts say of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from verdicts.fleet.find import BLAMES, Again, Span, intervals
from verdicts.models import ListRow, NamedPort, Review
from verdicts.own import OWN_ROW, own

MOST_PORTS = 5_000
#: The list counts so many times that a port was named, the latest, and says since when.
MOST_NAMED = 10_000
MOST_HISTORY = 2_000
#: Where standing verdicts and the ports that they name meet.
_JOINED = f"""
    verdicts_namedport AS named JOIN verdicts_listrow AS row ON row.verdict_id = named.verdict_id
    WHERE row.is_current AND {OWN_ROW}
"""


@dataclass
class Port:
    """A port, or a whole switch where `port` is empty, and what the verdicts of a time say of it."""

    cluster: str
    of: str
    owner: str
    port: str
    verdicts: int = 0
    blamed: int = 0
    wrong: int = 0
    first: datetime | None = None
    last: datetime | None = None
    symptoms: list[str] = field(default_factory=list)


def latest_named(span: Span) -> datetime:
    """From when on ports were named at most so often as is counted; the begin of the time where that is all of it."""
    times = NamedPort.objects.filter(happened_at__gte=span.after, happened_at__lt=span.before)
    newest = times.order_by("-happened_at").values_list("happened_at", flat=True)
    last_two = list(newest[MOST_NAMED - 1 : MOST_NAMED + 1])
    return last_two[0] if len(last_two) == 2 else span.after


def ports(span: Span, *, cluster: str = "", text: str = "", owner: str = "") -> list[Port]:
    """The ports that were named in a time, those most often held to be the cause first."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT row.cluster, named.of, named.owner, named.port, count(DISTINCT row.id),
                   count(DISTINCT row.id) FILTER (WHERE named.status = ANY (%s)),
                   count(DISTINCT row.id) FILTER (WHERE row.tags @> ARRAY['l:wrong']),
                   min(row.happened_at), max(row.happened_at), array_agg(DISTINCT named.symptom)
            FROM {_JOINED} AND named.happened_at >= %s AND named.happened_at < %s
                  AND (%s = '' OR row.cluster = %s) AND (%s = '' OR named.owner = %s)
                  AND strpos(lower(named.owner || ' ' || named.port), %s) > 0
            GROUP BY 1, 2, 3, 4
            ORDER BY 6 DESC, 5 DESC, 9 DESC, 1, 3, 4
            LIMIT {MOST_PORTS}
            """,  # noqa: S608 -- made of constants
            [list(BLAMES), span.after, span.before, cluster, cluster, owner, owner, text.casefold()],
        )
        return [Port(*row) for row in cursor.fetchall()]


# --- One port -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sighting:
    """A symptom that a standing verdict saw at the port."""

    verdict: UUID
    at: datetime
    symptom: str
    blamed: bool


@dataclass(frozen=True)
class Seen:
    """A symptom at the port over a time."""

    symptom: str
    verdicts: int
    blamed: int
    first: datetime
    last: datetime


def named(cluster: str, owner: str, port: str) -> QuerySet[NamedPort]:
    """The rows of one port, in one cluster or in any."""
    rows = NamedPort.objects.filter(own("verdict__attempt"), owner=owner, port=port, verdict__is_current=True)
    return rows.filter(verdict__attempt__cluster__name=cluster) if cluster else rows


def sightings(cluster: str, owner: str, port: str) -> list[Sighting]:
    """What standing verdicts saw at a port, the newest first."""
    rows = named(cluster, owner, port).order_by("-verdict__happened_at", "-id")
    found = rows.values_list("verdict_id", "verdict__happened_at", "symptom", "status")[:MOST_HISTORY]
    return [Sighting(verdict, at, symptom, status in BLAMES) for verdict, at, symptom, status in found]


def by_symptom(seen: Sequence[Sighting]) -> list[Seen]:
    """The symptoms of some sightings, those most often held to be the cause first."""
    told: dict[str, list[Sighting]] = {}
    for one in seen:
        told.setdefault(one.symptom, []).append(one)
    found = [
        Seen(
            symptom,
            len({one.verdict for one in ones}),
            len({one.verdict for one in ones if one.blamed}),
            min(one.at for one in ones),
            max(one.at for one in ones),
        )
        for symptom, ones in told.items()
    ]
    return sorted(found, key=lambda one: (-one.blamed, -one.verdicts, one.symptom))


def again(seen: Sequence[Sighting]) -> list[Again]:
    """The symptoms that came more than once at the port, in different verdicts."""
    times: dict[str, dict[UUID, datetime]] = {}
    for one in reversed(seen):
        times.setdefault(one.symptom, {})[one.verdict] = one.at
    found = [intervals(symptom, sorted(at.values())) for symptom, at in times.items() if len(at) > 1]
    return sorted(found, key=lambda one: (-one.times, one.symptom))


def rows_of(cluster: str, owner: str, port: str) -> QuerySet[ListRow]:
    """The standing verdicts that name a port, the newest first."""
    ids = named(cluster, owner, port).values("verdict_id")
    return ListRow.objects.filter(own(), is_current=True, verdict_id__in=ids).order_by("-happened_at", "-id")


def nodes_with(rows: QuerySet[ListRow], most: int) -> list[tuple[str, str, int]]:
    """The nodes that these verdicts blame, by cluster and name, with how often."""
    counted = Counter(
        (cluster, node) for cluster, nodes in rows.values_list("cluster", "nodes")[:MOST_HISTORY] for node in nodes
    )
    return [(cluster, node, number) for (cluster, node), number in counted.most_common(most)]


def reviews_of(cluster: str, owner: str, port: str, most: int) -> list[Review]:
    """What people said of the verdicts that name a port."""
    ids = named(cluster, owner, port).values("verdict_id")
    standing = Review.objects.filter(replaced_at__isnull=True, verdict_id__in=ids)
    return list(standing.select_related("author", "verdict").defer("verdict__body", "verdict__body_json")[:most])
