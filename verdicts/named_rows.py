"""Rows that are known by a name: made where they are not there, found with one question where they are."""

from collections.abc import Iterable

from django.db import connection
from django.db.models import Exists, OuterRef

from rules.ruleset import Ruleset
from verdicts.models import Attempt, Cluster, Node, RulesetText, RulesetVersion, Verdict, Workload
from verdicts.rulebook import ruleset_text


def cluster_named(name: str) -> Cluster:
    """A cluster, made when it is first named."""
    found = Cluster.objects.filter(name=name).first()
    if found is None:
        Cluster.objects.bulk_create([Cluster(name=name)], ignore_conflicts=True)
        found = Cluster.objects.get(name=name)
    return found


def workload_named(cluster: Cluster, account: str, name: str) -> Workload:
    """A workload of an account, made when it is first named."""
    key = {"cluster": cluster, "account": account, "name": name}
    found = Workload.objects.filter(**key).first()
    if found is None:
        Workload.objects.bulk_create([Workload(**key)], ignore_conflicts=True)
        found = Workload.objects.get(**key)
    return found


def nodes_named(cluster: Cluster, names: Iterable[str]) -> list[Node]:
    """The cluster's nodes of these names; those that are made are sorted, or two writers could deadlock."""
    wanted = sorted(set(names))
    if not wanted:
        return []
    found = list(Node.objects.filter(cluster=cluster, name__in=wanted))
    if len(found) < len(wanted):
        missing = set(wanted) - {node.name for node in found}
        fresh = [Node(cluster=cluster, name=name) for name in sorted(missing)]
        Node.objects.bulk_create(fresh, ignore_conflicts=True)
        found = list(Node.objects.filter(cluster=cluster, name__in=wanted))
    return found


def set_nodes(owner: Attempt | Verdict, cluster: Cluster, names: Iterable[str]) -> None:
    """Say which nodes an attempt or a verdict that has none yet is about. Most are known: then it is one statement."""
    wanted = sorted(set(names))
    if not wanted:
        return
    model = type(owner)
    place, column = model.nodes.through._meta.db_table, f"{model._meta.model_name}_id"  # noqa: SLF001
    with connection.cursor() as cursor:
        for known in (False, True):
            cursor.execute(
                f"""
                INSERT INTO {place} ({column}, node_id)
                SELECT %s, id FROM verdicts_node WHERE cluster_id = %s AND name = ANY(%s) ON CONFLICT DO NOTHING
                """,  # noqa: S608 - the table's own names
                [owner.pk, cluster.pk, wanted],
            )
            if known or cursor.rowcount == len(wanted):
                return
            nodes_named(cluster, wanted)


def ruleset_version(ruleset: Ruleset) -> RulesetVersion:
    """The row of a ruleset, made when it is first used; its text is kept with it."""
    has_text = Exists(RulesetText.objects.filter(version=OuterRef("pk")))
    rows = RulesetVersion.objects.annotate(has_text=has_text).filter(digest=ruleset.digest)
    found = rows.first()
    if found is None:
        fresh = RulesetVersion(digest=ruleset.digest, rules=len(ruleset.rules), layers=list(ruleset.layers))
        RulesetVersion.objects.bulk_create([fresh], ignore_conflicts=True)
        found = rows.get()
    if not found.has_text:
        ruleset_text.keep(found, ruleset)
    return found
