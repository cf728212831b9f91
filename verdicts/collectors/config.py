"""The file that says which clusters there are and where their attempts and evidence are found.

TOML, named by INQUEST_CLUSTERS_FILE, read once when a process starts. Addresses of systems come from here and
from nowhere else; secrets are in files or environment variables that it names.
"""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec

from rules.words import Source
from verdicts.collectors.kinds import DiscoveryKind, SourceKind
from verdicts.collectors.progress_settings import LogFeed, ProgressKind
from verdicts.collectors.source import DiscoverySettings, SourceSettings


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
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        clusters = msgspec.convert(plain, Clusters)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_place(str(error), plain)}") from error
    for problem in _problems(clusters):
        raise ConfigError(f"{path}: {problem}")
    return clusters


def _problems(clusters: Clusters) -> Iterator[str]:
    """What the types cannot see, each with its key."""
    yield from _twice("cluster", [cluster.name for cluster in clusters.cluster])
    for cluster in clusters.cluster:
        place = f"cluster {cluster.name!r}"
        yield from (f"{place}: {said}" for said in _twice("source", [s.name for s in cluster.source]))
        yield from (f"{place}: {said}" for said in _twice("discovery", [d.name for d in cluster.discovery]))
        yield from (f"{place}: {said}" for said in _twice("progress", [p.name for p in cluster.progress]))
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


def _twice(what: str, names: list[str]) -> Iterator[str]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{what}: the name {name!r} is there twice"


def _place(message: str, plain: dict[str, Any]) -> str:
    """msgspec's message with its path as the file's keys, and the name of the cluster and source it is in."""
    said, _, path = message.partition(" - at `$")
    keys = path.rstrip("`").lstrip(".")
    names, value = [], plain
    for key in keys.replace("[", ".[").split("."):
        try:
            value = value[int(key[1:-1])] if key.startswith("[") else value[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError, ValueError):
            break
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            names.append(value["name"])
    where = f" (in {' / '.join(names)})" if names else ""
    if keys.endswith(".kind") or "missing required field `kind`" in said:
        kinds = DISCOVERY_KINDS if ".discovery[" in keys else PROGRESS_KINDS if ".progress[" in keys else SOURCE_KINDS
        said += f"; a kind is one of {', '.join(kinds)}"
    return f"{keys or 'the file'}{where}: {said}"
