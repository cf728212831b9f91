"""What the fleet went through: nodes, GPUs and what nodes share, counted from the verdicts that stand.

A node is blamed when a standing verdict names it as affected. That is what a verdict says, not what is known: pages
show beside it how many of these verdicts a person called wrong.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, Max, Min, Q, QuerySet

from rules.words import Domain
from verdicts.choices import FindingStatus
from verdicts.models import Attempt, Blame, Finding, ListRow, Node, Review, Verdict
from verdicts.own import OWN_ROW, own

#: Verdicts that blame nobody.
BLAMELESS = (Domain.NO_FAILURE.value, "not_analysed")
#: A symptom that comes again on a node within this time was not dealt with.
AGAIN_WITHIN = timedelta(days=7)
MOST_NODES = 20_000
MOST_HISTORY = 1_000
#: Among so many of the attempts that were placed on a node last, its latest are looked for.
MOST_PLACED = 200
#: A page counts so many times that a node was blamed, the latest, and says since when.
MOST_BLAMES = 20_000
BLAMES = (FindingStatus.CAUSE.value, FindingStatus.CANDIDATE.value)


@dataclass(frozen=True)
class Span:
    """A time, from (with) to (without)."""

    after: datetime
    before: datetime

    @property
    def days(self) -> int:
        """Its length."""
        return (self.before - self.after).days


def latest_blames(span: Span, cluster: str = "") -> datetime:
    """From when on nodes were blamed at most so often as is counted; the begin of the time where that is all of it."""
    blames = Blame.objects.filter(kind="node", happened_at__gte=span.after, happened_at__lt=span.before)
    if cluster:
        blames = blames.filter(cluster=cluster)
    times = blames.order_by("-happened_at").values_list("happened_at", flat=True)
    last_two = list(times[MOST_BLAMES - 1 : MOST_BLAMES + 1])
    return last_two[0] if len(last_two) == 2 else span.after


@dataclass
class NodeRow:
    """A node and what standing verdicts of a time say of it."""

    cluster: str
    name: str
    failures: int = 0
    workloads: int = 0
    wrong: int = 0
    last: datetime | None = None
    domains: list[str] = field(default_factory=list)
    symptoms: list[tuple[str, int]] = field(default_factory=list)
    id: UUID | None = None


def _where(span: Span, *, cluster: str = "", domains: Sequence[str] = (), symptom: str = "") -> tuple[str, list[Any]]:
    """The standing verdicts of a time that blame somebody, as SQL on the list's table."""
    parts = ["row.is_current", OWN_ROW, "row.verdict_id IS NOT NULL", "row.happened_at >= %s", "row.happened_at < %s"]
    values: list[Any] = [span.after, span.before]
    parts.append("row.domain <> ALL (%s)")
    values.append(list(BLAMELESS))
    if cluster:
        parts.append("row.cluster = %s")
        values.append(cluster)
    if domains:
        parts.append("row.domain = ANY (%s)")
        values.append(list(domains))
    if symptom:
        parts.append("row.tags && %s")
        values.append([f"s:{symptom}:{status}" for status in BLAMES])
    return " AND ".join(parts), values


def blamed(span: Span, *, cluster: str = "", domains: Sequence[str] = (), symptom: str = "") -> list[NodeRow]:
    """The nodes that were blamed in a time, the most often blamed first."""
    where, values = _where(span, cluster=cluster, domains=domains, symptom=symptom)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT row.cluster, node, count(*), count(DISTINCT row.workload),
                   count(*) FILTER (WHERE row.tags @> ARRAY['l:wrong']), max(row.happened_at),
                   array_agg(DISTINCT row.domain)
            FROM verdicts_listrow AS row, unnest(row.nodes) AS node
            WHERE {where}
            GROUP BY row.cluster, node
            ORDER BY count(*) DESC, max(row.happened_at) DESC, row.cluster, node
            LIMIT {MOST_NODES}
            """,  # noqa: S608 -- made of constants
            values,
        )
        return [
            NodeRow(cluster, name, failures, workloads, wrong, last, sorted(domains))
            for cluster, name, failures, workloads, wrong, last, domains in cursor.fetchall()
        ]


def unblamed(rows: Iterable[NodeRow], *, cluster: str = "") -> list[NodeRow]:
    """The other nodes that are known to be this site's."""
    seen = {(row.cluster, row.name) for row in rows}
    known = Node.objects.own().order_by("cluster__name", "name").values_list("cluster__name", "name")
    if cluster:
        known = known.filter(cluster__name=cluster)
    return [NodeRow(*key) for key in known[:MOST_NODES] if key not in seen]


def identified(rows: Sequence[NodeRow]) -> None:
    """Give the rows of one page the ids of their nodes."""
    ids = ids_of({row.name for row in rows})
    for row in rows:
        row.id = ids.get((row.cluster, row.name))


def ids_of(names: Iterable[str]) -> dict[tuple[str, str], UUID]:
    """The nodes of some names, by cluster and name."""
    known = Node.objects.filter(name__in=list(names)).values_list("cluster__name", "name", "id")
    return {(cluster, name): pk for cluster, name, pk in known}


def symptoms_of(rows: Sequence[NodeRow], span: Span, **narrowed: Any) -> None:
    """Give rows the symptoms that they were blamed for, the most frequent first."""
    if not rows:
        return
    where, values = _where(span, **narrowed)
    names = sorted({row.name for row in rows})
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT row.cluster, node, split_part(tag, ':', 2), count(DISTINCT row.id)
            FROM verdicts_listrow AS row, unnest(row.nodes) AS node, unnest(row.tags) AS tag
            WHERE {where} AND node = ANY (%s) AND row.id IN (
                      SELECT blame.row FROM verdicts_blame AS blame
                      WHERE blame.kind = 'node' AND blame.happened_at >= %s AND blame.happened_at < %s
                            AND blame.name = ANY (%s)
                  )
                  AND tag LIKE 's:%%' AND split_part(tag, ':', 3) = ANY (%s)
            GROUP BY 1, 2, 3
            ORDER BY 4 DESC, 3
            """,  # noqa: S608 -- made of constants
            [*values, names, span.after, span.before, names, list(BLAMES)],
        )
        found = cursor.fetchall()
    by_node: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for cluster, name, symptom, number in found:
        by_node.setdefault((cluster, name), []).append((symptom, number))
    for row in rows:
        row.symptoms = by_node.get((row.cluster, row.name), [])


# --- One node -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Again:
    """A symptom that came again: how often within the time, and the shortest time between two."""

    symptom: str
    times: int
    soon: int
    shortest: timedelta | None
    last: datetime


@dataclass(frozen=True)
class Since:
    """What ran on a node since it was last blamed."""

    attempts: int
    failed: int


def rows_of(node: Node) -> QuerySet[ListRow]:
    """The standing verdicts that blame a node, the newest first."""
    return (
        ListRow.objects.filter(own(), is_current=True, verdict__isnull=False, nodes__contains=[node.name])
        .filter(cluster=node.cluster.name)
        .exclude(domain__in=BLAMELESS)
        .order_by("-happened_at", "-id")
    )


def history_of(node: Node) -> list[ListRow]:
    """The newest of them, with what is counted of each."""
    return list(rows_of(node).only("verdict_id", "happened_at", "domain", "strength", "tags")[:MOST_HISTORY])


def causes(row: ListRow) -> list[str]:
    """The symptoms that a row's verdict blames."""
    parts = (tag.split(":") for tag in row.tags if tag.startswith("s:"))
    return sorted({part[1] for part in parts if len(part) == 3 and part[2] in BLAMES})


def again(rows: Sequence[ListRow]) -> list[Again]:
    """What came more than once, of rows with the newest first."""
    times: dict[str, list[datetime]] = {}
    for row in reversed(rows):
        for symptom in causes(row):
            times.setdefault(symptom, []).append(row.happened_at)
    found = [intervals(symptom, at) for symptom, at in times.items()]
    return sorted(found, key=lambda one: (-one.times, one.symptom))


def intervals(symptom: str, at: Sequence[datetime]) -> Again:
    """A symptom by the times at which it came, the earliest first."""
    gaps = [later - earlier for earlier, later in pairwise(at)]
    soon = sum(1 for gap in gaps if gap <= AGAIN_WITHIN)
    return Again(symptom, len(at), soon, min(gaps, default=None), at[-1])


def since(node: Node, at: datetime) -> Since:
    """What ended on a node after a time."""
    ran = ListRow.objects.filter(own(), is_current=True, attempt__nodes=node, happened_at__gt=at)
    found = ran.aggregate(whole=Count("id"), failed=Count("id", filter=~Q(domain__in=BLAMELESS)))
    return Since(found["whole"], found["failed"])


def findings_on(node: Node, span: Span, *, gpu: str = "") -> list[dict[str, Any]]:
    """What was found on a node itself by symptom: as a cause, and in all."""
    found = _findings(node, span)
    if gpu:
        found = found.filter(gpu=gpu)
    rows = (
        found.values("symptom")
        .annotate(
            verdicts=Count("verdict", distinct=True),
            blamed=Count("verdict", distinct=True, filter=Q(status__in=BLAMES)),
            explained=Count("verdict", distinct=True, filter=Q(status=FindingStatus.DEMOTED.value)),
            first=Min("verdict__happened_at"),
            last=Max("verdict__happened_at"),
        )
        .order_by("-blamed", "-verdicts", "symptom")
    )
    return [dict(row) for row in rows]


def gpus_of(node: Node, span: Span) -> list[dict[str, Any]]:
    """The GPUs of a node that were named: by PCI address or UUID, as the logs call them."""
    rows = (
        _findings(node, span)
        .exclude(gpu="")
        .values("gpu")
        .annotate(
            verdicts=Count("verdict", distinct=True),
            blamed=Count("verdict", distinct=True, filter=Q(status__in=BLAMES)),
            symptoms=Count("symptom", distinct=True),
            first=Min("verdict__happened_at"),
            last=Max("verdict__happened_at"),
        )
        .order_by("-blamed", "-verdicts", "gpu")
    )
    return [dict(row) for row in rows]


def _findings(node: Node, span: Span) -> QuerySet[Finding]:
    return Finding.objects.filter(
        own("verdict__attempt"),
        node=node.name,
        verdict__is_current=True,
        verdict__attempt__cluster=node.cluster,
        verdict__happened_at__gte=span.after,
        verdict__happened_at__lt=span.before,
    )


def reviews_of(node: Node, most: int) -> list[Review]:
    """What people said of the verdicts that blame a node."""
    standing = Review.objects.filter(
        own("verdict__attempt"), replaced_at__isnull=True, verdict__is_current=True, verdict__nodes=node
    )
    return list(standing.select_related("author", "verdict").defer("verdict__body", "verdict__body_json")[:most])


def verdicts_of(rows: Sequence[ListRow]) -> dict[UUID, Verdict]:
    """The verdicts of some rows, without their bodies."""
    ids = [row.verdict_id for row in rows if row.verdict_id]
    return Verdict.objects.defer("body", "body_json").in_bulk(ids)


def links_of(rows: Sequence[ListRow], node: Node) -> list[tuple[str, int]]:
    """The links of a node that verdicts named, with how often."""
    counted: dict[str, int] = {}
    ids = [row.verdict_id for row in rows if row.verdict_id]
    for affected in Verdict.objects.filter(pk__in=ids).values_list("body__affected_nodes", flat=True):
        for one in affected or []:
            if one.get("name") == node.name:
                for link in one.get("links") or []:
                    counted[link] = counted.get(link, 0) + 1
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def latest_on(node: Node, most: int) -> list[Attempt]:
    """The attempts that ran on a node, the latest first, of those that were placed there last."""
    placed = Attempt.nodes.through.objects.filter(node=node).order_by("-pk").values("attempt")[:MOST_PLACED]
    return list(
        Attempt.objects.filter(own(), pk__in=placed)
        .select_related("workload")
        .defer("body")
        .order_by("-ended_at", "-id")[:most]
    )


def again_on_gpu(node: Node, gpu: str) -> list[Again]:
    """What a GPU was blamed for more than once, over all time."""
    blamed = Finding.objects.filter(
        own("verdict__attempt"),
        node=node.name,
        gpu=gpu,
        status__in=BLAMES,
        verdict__is_current=True,
        verdict__attempt__cluster=node.cluster,
    )
    times: dict[str, dict[UUID, datetime]] = {}
    rows = blamed.order_by("-verdict__happened_at").values_list("symptom", "verdict_id", "verdict__happened_at")
    for symptom, verdict, at in rows[:MOST_HISTORY]:
        times.setdefault(symptom, {})[verdict] = at
    found = [intervals(symptom, sorted(at.values())) for symptom, at in times.items() if len(at) > 1]
    return sorted(found, key=lambda one: (-one.times, one.symptom))


def rows_with_gpu(node: Node, gpu: str, most: int) -> list[ListRow]:
    """The standing verdicts with a finding on one GPU, the newest first."""
    named = Finding.objects.filter(node=node.name, gpu=gpu).values("verdict_id")
    rows = ListRow.objects.filter(own(), is_current=True, cluster=node.cluster.name, verdict_id__in=named)
    return list(rows.order_by("-happened_at", "-id")[:most])
