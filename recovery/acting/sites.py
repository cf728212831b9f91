"""The file that says which schedulers may be acted on, and how: INQUEST_RECOVERY_FILE.

TOML, read once when the dispatcher's process starts. No other process needs it or the credentials that it names:
pages and workers know of a way to a scheduler only what the dispatcher wrote into `ActuatorState`.
"""

import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, get_args

import msgspec
from django.conf import settings
from django.db.models.functions import Now

from recovery.actuators.base import Actuator, Unseen
from recovery.actuators.kinds import ActuatorKind
from recovery.models import ActuatorState
from verdicts.clusters import cluster_row
from verdicts.redaction import clean_text
from verdicts.settings_file import read_settings, twice
from verdicts.storable import storable_text

log = logging.getLogger(__name__)

KINDS = sorted(str(kind.__struct_config__.tag) for kind in get_args(ActuatorKind))


class SiteError(ValueError):
    """The file cannot be used; the message names the file and the key."""


class Site(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster, by the name that it has in the clusters file, and the way to its scheduler."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    actuator: ActuatorKind


class Sites(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    cluster: list[Site] = []

    def named(self, name: str) -> Site | None:
        """The cluster of that name."""
        return next((site for site in self.cluster if site.name == name), None)


def read_sites(path: Path) -> Sites:
    """Read and check the file. Raises SiteError naming the file and the key."""
    return read_settings(path, Sites, wrong=SiteError, problems=_problems, kinds=lambda _: KINDS)


def _problems(sites: Sites) -> Iterator[str]:
    """What the types cannot see, each with its key."""
    yield from twice("cluster", [site.name for site in sites.cluster])
    for site in sites.cluster:
        try:
            site.actuator.check()
        except ValueError as error:
            yield f"cluster {site.name!r}: actuator: {error}"


@cache
def current_sites() -> Sites:
    """What this process may act on: a changed file takes effect when it is restarted. Raises SiteError."""
    path = settings.INQUEST_RECOVERY_FILE
    return read_sites(Path(path)) if path else Sites()


@cache
def actuator(cluster: str) -> Actuator | None:
    """The way to a cluster's scheduler; None where this site names none."""
    site = current_sites().named(cluster)
    return site.actuator.actuator() if site is not None else None


def tell() -> int:
    """Look at every scheduler and write down what is to be known of the way to it; says how many were reached."""
    reached = 0
    for site in current_sites().cluster:
        way = actuator(site.name)
        assert way is not None
        try:
            said, reachable = way.probe(), True
        except Unseen as error:
            said, reachable = str(error), False
            log.warning("the scheduler of %s cannot be looked at: %s", site.name, clean_text(said))
        parts, down = _partitions(way, site.name) if reachable else ({}, [])
        reached += reachable
        ActuatorState.objects.update_or_create(
            cluster=cluster_row(site.name),
            defaults={
                "kind": site.actuator.kind,
                "seen_at": Now(),
                "reachable": reachable,
                "said": storable_text(clean_text(said))[:2000],
                "can": sorted(action.value for action in way.can),
                # What is not told this time is kept with its time: whoever reads it sees how old it is.
                **({"partitions": parts, "down": down, "partitions_at": Now()} if parts else {}),
            },
        )
    names = [site.name for site in current_sites().cluster]
    # What the file names no more cannot be acted on any more.
    ActuatorState.objects.exclude(cluster__name__in=names).delete()
    return reached


def _partitions(way: Actuator, cluster: str) -> tuple[dict[str, str], list[str]]:
    """The nodes of each partition, names with commas between them, and those that are down; none where not known."""
    try:
        told, down = way.partitions(), way.down()
    except Unseen as error:
        log.warning("the partitions of %s are not known: %s", cluster, clean_text(str(error)))
        return {}, []
    parts = {storable_text(name): storable_text(",".join(sorted(nodes))) for name, nodes in sorted(told.items())}
    return parts, sorted(map(storable_text, down))
