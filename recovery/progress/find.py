"""Reading what is known of progress and what was detected, for pages and API alike."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from recovery.models import Anomaly, Blindness, ProgressReading, RankProgress
from recovery.progress import record
from verdicts.models import Attempt
from verdicts.own import own

#: Ranks that are shown of one attempt.
MOST_RANKS = 200


def anomalies() -> QuerySet[Anomaly]:
    """Anomalies with what a list shows of them."""
    return Anomaly.objects.select_related("attempt__cluster", "attempt__workload").defer("attempt__body")


def watched() -> dict[str, tuple[int, int]]:
    """For each cluster, how many attempts run and of how many of these hangs would not be seen."""
    rows = Attempt.objects.filter(own(), ended_at__isnull=True, started_at__isnull=False).order_by()
    counted = rows.values_list("cluster__name").annotate(running=Count("pk"), blind=Count("blindness"))
    return {cluster: (running, blind) for cluster, running, blind in counted}


def ranks_of(attempt_id: UUID) -> QuerySet[RankProgress]:
    """The newest signs of an attempt's ranks, those that are least far first."""
    return RankProgress.objects.filter(attempt=attempt_id).order_by("step", "collective", "rank", "via")


def readings_of(attempt_id: UUID) -> QuerySet[ProgressReading]:
    """How far each feed was read for an attempt."""
    return ProgressReading.objects.filter(attempt=attempt_id).select_related("feed").order_by("feed__name")


def told(attempt_id: UUID) -> dict[str, Any]:
    """All that is known of how far an attempt is, for page and API."""
    latest = record.latest(attempt_id)
    ranks = ranks_of(attempt_id)
    return {
        "attempt": attempt_id,
        "step_min": latest.step_min if latest else None,
        "step_max": latest.step_max if latest else None,
        "checkpoint_step": latest.checkpoint_step if latest else None,
        "at": latest.at if latest else None,
        "observed_at": latest.observed_at if latest else None,
        "ranks_known": latest.ranks if latest else 0,
        "blindness": Blindness.objects.filter(attempt=attempt_id).first(),
        "feeds": list(readings_of(attempt_id)),
        "ranks": list(ranks[:MOST_RANKS]),
    }


#: The figures of a finding in words, in the order in which they are read; others come behind by their own words.
_FIGURES = {
    "state": "the scheduler's word",
    "symptom": "symptom",
    "fatal": "rules whose lines were seen",
    "movement": "movement is told by",
    "still_seconds": "stood still for, s",
    "allowed_seconds": "allowed, s",
    "allowed_because": "allowed because of",
    "moved_at": "last moved",
    "known_until": "known until",
    "log_wrote_at": "its log last had a line",
    "still_speaks": "it still sends signs",
    "phase": "phase",
    "behind_by": "behind by",
    "step_min": "least step",
    "step_max": "most step",
    "collective_min": "least collective",
    "collective_max": "most collective",
    "ranks_known": "ranks that tell",
    "pace moves": "movements that its pace rests on",
    "pace usual_seconds": "usual pause between movements, s",
    "pace deviation_seconds": "deviation of these pauses, s",
    "pace longest_seconds": "longest pause it recovered from, s",
    "pace step_seconds": "a step, s",
    "where": "what is slow",
    "gpus": "GPUs",
    "peers": "peers",
    "usual_seconds": "usual, s a step",
    "deviation_seconds": "deviation of the peers, s",
    "bound_seconds": "slow beyond, s a step",
    "window_seconds": "window, s",
    "least_paces": "times of each slow rank, at least",
}
_PLACES = {name: place for place, name in enumerate(_FIGURES)}
_TIMES = frozenset({"moved_at", "known_until", "log_wrote_at"})


def figures(evidence: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The figures of a finding for people, times as times; what is unknown is said so."""
    plain = sorted(_flat(evidence, ""), key=lambda pair: (_PLACES.get(pair[0], len(_PLACES)), pair[0]))
    return [(_FIGURES.get(name, name.replace("_", " ")), _readable(name, value)) for name, value in plain]


def _flat(evidence: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in evidence.items():
        key = f"{before} {name}".strip()
        if isinstance(value, Mapping):
            yield from _flat(value, key)
        elif value not in ("", []):
            yield key, value


def _readable(name: str, value: Any) -> Any:
    if name in _TIMES and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).replace(microsecond=0)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "unknown" if value is None else str(value)
