"""What nodes share: switches, racks, images and the like, as the attempts themselves described them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from rules.attempt import TOPOLOGY_KINDS
from verdicts.choices import Origin
from verdicts.fleet.find import BLAMELESS, NodeRow, Span
from verdicts.intervals import Share, share
from verdicts.models import ListRow
from verdicts.own import OWN_ROW, own

#: Topology is read from so many of the latest attempts that say any, which are looked for among so many: it changes
#: seldom, and is large.
MOST_DESCRIBED, MOST_LOOKED = 200, 2_000
MOST_COMPARED = 5_000
#: As the attempt's topology says it of its nodes; a job may run on several.
_DRIVERS = """(
    SELECT string_agg(version, ' and ' ORDER BY version)
    FROM jsonb_object_keys(attempt.body #> '{topology,driver}') AS version
)"""
#: By what attempts are compared: the parameter's value, its name, and the SQL of it.
COMPARED = {
    "image": ("Container image", "attempt.body ->> 'image'"),
    "driver": ("Driver version", _DRIVERS),
    "partition": ("Partition", 'attempt."partition"'),
    "cluster": ("Cluster", "row.cluster"),
    "workload": ("Workload", "row.workload"),
    "account": ("Account", "row.account"),
    "ruleset": ("Ruleset", "left(row.ruleset, 12)"),
}
KINDS = TOPOLOGY_KINDS


@dataclass
class Element:
    """Something that several nodes share."""

    cluster: str
    kind: str
    name: str
    nodes: list[str] = field(default_factory=list)
    failures: int = 0
    last: datetime | None = None
    #: Failures that blamed its nodes one by one, by node.
    members: dict[str, int] = field(default_factory=dict)

    @property
    def hit(self) -> int:
        """How many of its nodes were blamed."""
        return sum(1 for node in self.nodes if self.members.get(node))

    @property
    def listed(self) -> list[tuple[str, int]]:
        """Its nodes with how often each was blamed, the most often first."""
        return sorted(((node, self.members.get(node, 0)) for node in self.nodes), key=lambda one: (-one[1], one[0]))


def blamed_elements(span: Span, *, cluster: str = "") -> list[Element]:
    """The elements that standing verdicts hold to be the common cause."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT row.cluster, row.shared, count(*), max(row.happened_at)
            FROM verdicts_listrow AS row
            WHERE row.is_current AND {OWN_ROW} AND row.shared > '' AND row.happened_at >= %s AND row.happened_at < %s
                  AND (%s = '' OR row.cluster = %s)
            GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2
            """,  # noqa: S608 -- made of constants
            [span.after, span.before, cluster, cluster],
        )
        found = cursor.fetchall()
    elements = []
    for at, shared, number, last in found:
        kind, colon, name = shared.partition(":")
        if colon:
            elements.append(Element(at, kind, name, failures=number, last=last))
    return elements


def described(*, cluster: str = "", kind: str = "", name: str = "") -> list[Element]:
    """The elements that the latest attempts described, with their nodes."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT DISTINCT latest.cluster, kinds.key, elements.key, node
            FROM (
                SELECT cluster, topology
                FROM (
                    SELECT cluster.name AS cluster, attempt.body -> 'topology' AS topology
                    FROM verdicts_attempt AS attempt JOIN verdicts_cluster AS cluster ON cluster.id = attempt.cluster_id
                    WHERE (%s = '' OR cluster.name = %s) AND attempt.origin = '{Origin.OWN.value}'
                    ORDER BY attempt.ended_at DESC NULLS FIRST, attempt.created_at
                    LIMIT %s
                ) AS looked_at
                WHERE topology <> '{{}}'::jsonb
                LIMIT %s
            ) AS latest,
            jsonb_each(latest.topology) AS kinds, jsonb_each(kinds.value) AS elements,
            jsonb_array_elements_text(elements.value) AS node
            WHERE (%s = '' OR kinds.key = %s) AND (%s = '' OR elements.key = %s)
            ORDER BY 1, 2, 3, 4
            """,  # noqa: S608 -- made of constants
            [cluster, cluster, MOST_LOOKED, MOST_DESCRIBED, kind, kind, name, name],
        )
        found: dict[tuple[str, str, str], Element] = {}
        for at, of, element, node in cursor.fetchall():
            found.setdefault((at, of, element), Element(at, of, element)).nodes.append(node)
    return list(found.values())


def with_blame(elements: Sequence[Element], span: Span, nodes: Sequence[NodeRow], **narrowed: Any) -> list[Element]:
    """Elements with what was blamed: themselves, and their nodes one by one. The most suspicious first."""
    failures = {(row.cluster, row.name): row.failures for row in nodes}
    own = {(one.cluster, one.kind, one.name): one for one in blamed_elements(span, **narrowed)}
    known = {(one.cluster, one.kind, one.name): one for one in elements}
    for key, element in own.items():
        if key not in known:
            known[key] = element
    for key, element in known.items():
        if key in own:
            element.failures, element.last = own[key].failures, own[key].last
        element.members = {
            node: failures[element.cluster, node] for node in element.nodes if (element.cluster, node) in failures
        }
    return sorted(known.values(), key=lambda one: (-one.failures, -one.hit, one.cluster, one.kind, one.name))


def rows_of(kind: str, name: str, cluster: str) -> QuerySet[ListRow]:
    """The standing verdicts that hold an element to be the common cause, the newest first."""
    found = ListRow.objects.filter(own(), is_current=True, shared=f"{kind}:{name}"[:255])
    return (found.filter(cluster=cluster) if cluster else found).order_by("-happened_at", "-id")


@dataclass(frozen=True)
class Compared:
    """Attempts that have something in common: how many failed, and why."""

    value: str
    attempts: int
    failed: Share
    domains: list[tuple[str, int]]


def compared(by: str, span: Span, *, cluster: str = "") -> list[Compared]:
    """The latest attempts of a time by one of their properties, those with most attempts first."""
    expression = COMPARED[by][1]
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH row AS (
                SELECT * FROM verdicts_listrow AS row
                WHERE is_current AND {OWN_ROW} AND verdict_id IS NOT NULL AND happened_at >= %s AND happened_at < %s
                      AND (%s = '' OR cluster = %s)
                ORDER BY happened_at DESC, id DESC LIMIT {MOST_COMPARED}
            )
            SELECT COALESCE({expression}, ''), row.domain, count(*)
            FROM row JOIN verdicts_attempt AS attempt ON attempt.id = row.attempt_id
            GROUP BY 1, 2
            """,  # noqa: S608 -- made of constants
            [span.after, span.before, cluster, cluster],
        )
        counted: dict[str, dict[str, int]] = {}
        for value, domain, number in cursor.fetchall():
            counted.setdefault(value, {})[domain] = number
    found = []
    for value, domains in counted.items():
        whole = sum(domains.values())
        blame = {domain: number for domain, number in domains.items() if domain not in BLAMELESS}
        ordered = sorted(blame.items(), key=lambda one: (-one[1], one[0]))
        found.append(Compared(value, whole, share(sum(blame.values()), whole), ordered))
    return sorted(found, key=lambda one: (-one.attempts, one.value))
