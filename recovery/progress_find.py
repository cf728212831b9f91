"""Reading what is known of progress and what was detected, for pages and API alike."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from recovery import progress
from recovery.models import Anomaly, Blindness, ProgressReading, RankProgress

#: Ranks that are shown of one attempt.
MOST_RANKS = 200


def anomalies() -> QuerySet[Anomaly]:
    """Anomalies with what a list shows of them."""
    return Anomaly.objects.select_related("attempt__cluster", "attempt__workload").defer("attempt__body")


def ranks_of(attempt_id: UUID) -> QuerySet[RankProgress]:
    """The newest signs of an attempt's ranks, those that are least far first."""
    return RankProgress.objects.filter(attempt=attempt_id).order_by("step", "collective", "rank", "via")


def readings_of(attempt_id: UUID) -> QuerySet[ProgressReading]:
    """How far each feed was read for an attempt."""
    return ProgressReading.objects.filter(attempt=attempt_id).select_related("feed").order_by("feed__name")


def told(attempt_id: UUID) -> dict[str, Any]:
    """All that is known of how far an attempt is, for page and API."""
    latest = progress.latest(attempt_id)
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


#: The figures of a finding in words; what is not here is named by its own word.
_FIGURES = {
    "still_seconds": "stood still for, s",
    "allowed_seconds": "allowed, s",
    "allowed_because": "because",
    "step_min": "least step",
    "step_max": "most step",
    "collective_min": "least collective",
    "collective_max": "most collective",
    "ranks_known": "ranks known",
    "still_speaks": "still sends signs",
    "behind_by": "behind by",
    "usual_seconds": "usual, s a step",
    "bound_seconds": "bound, s a step",
    "deviation_seconds": "deviation, s",
    "window_seconds": "window, s",
    "pace usual_seconds": "usual pause between movements, s",
    "pace longest_seconds": "longest pause it recovered from, s",
    "pace moves": "movements that its pace rests on",
}


def figures(evidence: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    """The figures of a finding for people: what is unknown is said so."""
    found: list[tuple[str, str]] = []
    for name, value in evidence.items():
        key = f"{before} {name}".strip()
        if isinstance(value, dict):
            found += figures(value, key)
            continue
        text = ", ".join(map(str, value)) if isinstance(value, list) else "unknown" if value is None else str(value)
        if text != "":
            found.append((_FIGURES.get(key, key.replace("_", " ")), text))
    return found
