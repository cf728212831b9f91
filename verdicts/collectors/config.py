"""The file that says which clusters there are and where their attempts and evidence are found.

TOML, named by INQUEST_CLUSTERS_FILE, read once when a process starts. Addresses of systems come from here and
from nowhere else; secrets are in files or environment variables that it names.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec

from rules.words import Source
from verdicts.collectors.kinds import DiscoveryKind, SourceKind
from verdicts.collectors.progress_settings import LogFeed, ProgressKind
from verdicts.collectors.source import DiscoverySettings, SourceSettings
from verdicts.settings_file import read_settings, twice


def _tags(union: Any) -> list[str]:
    """The kinds of a union of settings."""
    return sorted(str(kind.__struct_config__.tag) for kind in get_args(union) or (union,))


SOURCE_KINDS, DISCOVERY_KINDS, PROGRESS_KINDS = _tags(SourceKind), _tags(DiscoveryKind), _tags(ProgressKind)

Seconds = Annotated[float, msgspec.Meta(ge=0, le=7 * 86_400)]


class ConfigError(ValueError):
    """The file cannot be used; the message names the file and the key."""


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster.

    `settle` is the pause between an attempt's end and the look at its evidence, `deadline` the time within which
    all sources together must have answered: the verdict comes then, with what is there. After `fast_after` a
    first verdict is given from what came so far. `successes` says whether the evidence of attempts that succeeded is
    collected too. An attempt that the scheduler no longer lists and whose end it does not tell is given up as unknown
    after `vanish_after`.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    settle: Seconds = 5.0
    deadline: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 60.0
    fast_after: Seconds = 15.0
    vanish_after: Seconds = 300.0
    successes: bool = False
    discovery: list[DiscoveryKind] = []
    source: list[SourceKind] = []
    progress: list[ProgressKind] = []

    def named(self, name: str) -> SourceKind | None:
        """The source of that name."""
        return next((source for source in self.source if source.name == name), None)


class Clusters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    cluster: list[ClusterSettings] = []

    def named(self, name: str) -> ClusterSettings | None:
        """The cluster of that name."""
        return next((cluster for cluster in self.cluster if cluster.name == name), None)

    def sources(self) -> Iterator[tuple[ClusterSettings, SourceKind]]:
        """Every source with its cluster."""
        for cluster in self.cluster:
            for source in cluster.source:
                yield cluster, source


def read_clusters(path: Path) -> Clusters:
    """Read and check the file. Raises ConfigError naming the file and the key."""
    return read_settings(path, Clusters, wrong=ConfigError, problems=_problems, kinds=_kinds)


def _kinds(keys: str) -> list[str]:
    return DISCOVERY_KINDS if ".discovery[" in keys else PROGRESS_KINDS if ".progress[" in keys else SOURCE_KINDS


def _problems(clusters: Clusters) -> Iterator[str]:
    """What the types cannot see, each with its key."""
    yield from twice("cluster", [cluster.name for cluster in clusters.cluster])
    for cluster in clusters.cluster:
        place = f"cluster {cluster.name!r}"
        yield from (f"{place}: {said}" for said in twice("source", [s.name for s in cluster.source]))
        yield from (f"{place}: {said}" for said in twice("discovery", [d.name for d in cluster.discovery]))
        yield from (f"{place}: {said}" for said in twice("progress", [p.name for p in cluster.progress]))
        for feed in cluster.progress:
            if isinstance(feed, LogFeed) and getattr(cluster.named(feed.source), "source", None) is not Source.APPLOG:
                yield f"{place}: progress {feed.name!r}: source: {feed.source!r} is no source of applog of this cluster"
        for source in cluster.source:
            if source.source not in source.gives:
                words = ", ".join(sorted(source.gives))
                yield f"{place}: source {source.name!r}: source: this kind gives {words}, not {source.source}"
            if source.seconds > cluster.deadline:
                yield (
                    f"{place}: source {source.name!r}: seconds: {source.seconds:g} is longer than the cluster's"
                    f" deadline of {cluster.deadline:g}"
                )
        parts: list[SourceSettings | DiscoverySettings | ProgressKind]
        parts = [*cluster.source, *cluster.discovery, *cluster.progress]
        for part in parts:
            try:
                part.check()
            except ValueError as error:
                yield f"{place}: {part.name!r}: {error}"
            yield from (f"{place}: {part.name!r}: {said}" for said in _missing_secrets(part))


def _missing_secrets(part: msgspec.Struct) -> Iterator[str]:
    """Files and variables that a server's settings name and that are not there."""
    server = getattr(part, "server", None)
    for field in ("token_file", "password_file", "ca_file"):
        if (path := getattr(server, field, "")) and not os.access(path, os.R_OK):
            yield f"server.{field}: {path} cannot be read"
    for field in ("token_env", "password_env"):
        if (name := getattr(server, field, "")) and not os.environ.get(name):
            yield f"server.{field}: the environment variable {name} is not set"
