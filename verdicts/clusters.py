"""The clusters file of this process."""

from functools import cache
from pathlib import Path

from django.conf import settings

from verdicts.collectors.config import Clusters, read_clusters
from verdicts.models import Cluster


@cache
def current_clusters() -> Clusters:
    """What INQUEST_CLUSTERS_FILE says; nothing where it is not set. Raises ConfigError."""
    path = settings.INQUEST_CLUSTERS_FILE
    return read_clusters(Path(path)) if path else Clusters()


@cache
def cluster_row(name: str) -> Cluster:
    """The row of a cluster, made when it is first asked for; rows of clusters are never removed."""
    Cluster.objects.bulk_create([Cluster(name=name)], ignore_conflicts=True)
    return Cluster.objects.get(name=name)
