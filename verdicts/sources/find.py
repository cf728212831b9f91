"""Reading what is configured and how it is: sources, discoveries, collections."""

from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Count, Prefetch, Q, QuerySet

from rules.words import Source
from verdicts.choices import SourceHealth
from verdicts.clusters import current_clusters
from verdicts.collectors.config import ClusterSettings
from verdicts.models import Collection, CollectionTask, Discovery, SourceState
from verdicts.sources.check import unconfigured


@dataclass(frozen=True)
class Shown:
    """A configured source and its row, None before it was first asked or checked."""

    cluster: str
    name: str
    kind: str
    source: str
    row: SourceState | None

    @property
    def health(self) -> str:
        """The word of the last check."""
        return self.row.health if self.row else SourceHealth.UNCHECKED.value


@dataclass
class ClusterShown:
    """A cluster as the page has it."""

    name: str
    sources: list[Shown] = field(default_factory=list)
    discoveries: list[Discovery] = field(default_factory=list)
    waiting_discoveries: list[str] = field(default_factory=list)
    unconfigured: list[Source] = field(default_factory=list)


def configured_sources() -> list[Shown]:
    """Every source of the clusters file with its row."""
    rows = {(row.cluster.name, row.name): row for row in SourceState.objects.select_related("cluster")}
    return [
        Shown(cluster.name, source.name, source.kind, source.source.value, rows.get((cluster.name, source.name)))
        for cluster, source in current_clusters().sources()
    ]


def clusters_shown() -> list[ClusterShown]:
    """The configured clusters with their sources and discoveries, in the file's order."""
    found = {cluster.name: _shown(cluster) for cluster in current_clusters().cluster}
    for source in configured_sources():
        found[source.cluster].sources.append(source)
    for row in discoveries():
        if row.cluster and row.cluster.name in found:
            shown = found[row.cluster.name]
            if row.name in shown.waiting_discoveries:
                shown.waiting_discoveries.remove(row.name)
                shown.discoveries.append(row)
    return list(found.values())


def _shown(cluster: ClusterSettings) -> ClusterShown:
    names = [discovery.name for discovery in cluster.discovery]
    return ClusterShown(cluster.name, waiting_discoveries=names, unconfigured=unconfigured(cluster))


def discoveries() -> QuerySet[Discovery]:
    """The rows of discoveries."""
    return Discovery.objects.select_related("cluster").order_by("cluster__name", "name")


def collections_of(attempt_id: UUID) -> QuerySet[Collection]:
    """The rounds of an attempt, the latest first, each with its tasks."""
    tasks = Prefetch("tasks", CollectionTask.objects.order_by("source", "name"))
    return Collection.objects.filter(attempt_id=attempt_id).order_by("-round").prefetch_related(tasks)


def blind() -> list[SourceState]:
    """Sources that are blind now, since the longest first."""
    names = {(cluster.name, source.name) for cluster, source in current_clusters().sources()}
    if not names:
        return []
    rows = SourceState.objects.filter(blind_since__isnull=False).select_related("cluster").order_by("blind_since")
    return [row for row in rows if (row.cluster.name, row.name) in names]


def failing() -> list[Discovery]:
    """Configured discoveries whose last look failed: no attempt of theirs is found."""
    names = {(cluster.name, one.name) for cluster in current_clusters().cluster for one in cluster.discovery}
    if not names:
        return []
    rows = discoveries().filter(failures__gt=0)
    return [row for row in rows if row.cluster and (row.cluster.name, row.name) in names]


@dataclass(frozen=True)
class Gathering:
    """How much is being collected: open rounds, and tasks that wait or are worked on."""

    rounds: int
    waiting: int
    running: int


def gathering() -> Gathering:
    """What is being collected now."""
    counts = CollectionTask.objects.open().aggregate(
        waiting=Count("pk", filter=Q(state="pending")), running=Count("pk", filter=Q(state="running"))
    )
    return Gathering(Collection.objects.filter(finished_at__isnull=True).count(), counts["waiting"], counts["running"])
