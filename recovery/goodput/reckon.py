"""What failures cost in GPU-hours and why, and what would have cost less. Pure: the site's own cases in, sums out.

A loss is counted where all of its parts are known: how many GPUs, and from when to when. What is not known is counted
as unknown, by number, and is in no sum.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from recovery.goodput.timings import Moments, Spread, spread, spreads

HOUR = 3600.0
#: What a loss is made of: trained and lost since the last checkpoint, held while it hung, held while it restored.
KINDS = ("replay", "hang", "restore")
#: Detection times and parts of the present interval that the counterfactuals are reckoned for.
FASTER = (60.0, 300.0)
SHORTER = (0.5, 0.25)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One attempt that failed. Seconds; None where not known.

    `replay` is what lies between its last checkpoint and where it stopped, `hang` from the last movement to its end
    where it was found to hang, `restore` from the start of the next attempt to its first new step.
    """

    attempt: str
    cluster: str
    cause: str
    gpus: int | None = None
    replay: float | None = None
    hang: float | None = None
    restore: float | None = None
    hung: bool = False
    detection: float | None = None  # from the event to its detection
    interval: float | None = None  # its own pause between two checkpoints


@dataclass(frozen=True, kw_only=True)
class Run:
    """How long an attempt with a known pause between checkpoints trained."""

    seconds: float
    interval: float


@dataclass
class Lost:
    """GPU-hours lost by one cause: by kind, of how many failures, and of how many a kind is not known."""

    cause: str
    failures: int = 0
    hours: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))
    known: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    unknown: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    @property
    def total(self) -> float:
        """All that is known to be lost."""
        return sum(self.hours.values())

    @property
    def any_known(self) -> bool:
        """Whether anything is known of what was lost: else nothing was counted, which is not zero."""
        return any(self.known.values())


def lost_by(failures: Iterable[Failure], key: Callable[[Failure], str]) -> list[Lost]:
    """What was lost, by cause or by cluster; the most first."""
    found: dict[str, Lost] = {}
    for one in failures:
        row = found.setdefault(key(one), Lost(key(one)))
        row.failures += 1
        for kind in KINDS:
            seconds = getattr(one, kind)
            if kind == "hang" and not one.hung:
                continue  # it did not hang: nothing to know
            if seconds is None or one.gpus is None:
                row.unknown[kind] += 1
            else:
                row.known[kind] += 1
                row.hours[kind] += one.gpus * seconds / HOUR
    return sorted(found.values(), key=lambda row: (-row.total, -row.failures, row.cause))


@dataclass(frozen=True)
class WhatIf:
    """What would have been saved. `n` cases rest on known figures, of `unknown` something is missing.

    `breaks_even` is how long one more checkpoint may stop training before all is spent that it saves.
    """

    what: str
    value: float
    saved: float
    n: int
    unknown: int
    changed: int
    breaks_even: float | None = None


def faster_detection(failures: Sequence[Failure], within: float) -> WhatIf:
    """What it would have saved to know of every hang `within` so many seconds: held GPUs let go sooner."""
    hung = [one for one in failures if one.hung]
    known = [(one.gpus, one.detection) for one in hung if one.gpus is not None and one.detection is not None]
    saves = [gpus * max(0.0, detection - within) / HOUR for gpus, detection in known]
    return WhatIf("detection", within, sum(saves), len(known), len(hung) - len(known), sum(save > 0 for save in saves))


def shorter_interval(failures: Sequence[Failure], runs: Sequence[Run], part: float) -> WhatIf:
    """What it would have saved to write checkpoints at `part` of each attempt's own interval.

    Those in between would have been written at its multiples, so that a failure loses what is left over of it. What
    the additional checkpoints cost is not known; said is how much each may cost until nothing is won.
    """
    saved, n, changed, gpu_weight = 0.0, 0, 0, 0
    for one in failures:
        if one.gpus is None or one.replay is None or one.interval is None or one.interval <= 0:
            continue
        n += 1
        gpu_weight += one.gpus
        save = one.gpus * (one.replay - one.replay % (part * one.interval)) / HOUR
        saved += save
        changed += save > 0
    more = sum(run.seconds / (part * run.interval) - run.seconds / run.interval for run in runs if run.interval > 0)
    even = saved * HOUR / (more * gpu_weight / n) if n and more > 0 and gpu_weight else None
    return WhatIf("interval", part, saved, n, len(failures) - n, changed, even)


@dataclass(frozen=True)
class Recovered:
    """One recovery: its moments, where, of what, and who did it ("automatic", "approved", "outside")."""

    moments: Moments
    cluster: str
    cause: str
    by: str


def times_by(
    cases: Iterable[Recovered], key: Callable[[Recovered], str]
) -> dict[str, tuple[int, dict[str, Spread | None]]]:
    """The distributions of each part and of the whole, by group, with how many cases each group has."""
    groups: dict[str, list[Moments]] = {}
    for case in cases:
        groups.setdefault(key(case), []).append(case.moments)
    return {name: (len(found), dict(spreads(found))) for name, found in sorted(groups.items())}


def detection_times(
    found: Iterable[tuple[datetime | None, datetime, datetime, datetime | None]],
) -> dict[str, Spread | None]:
    """How long each stage of detection took: event → observed → detected → proposed."""
    rows = list(found)
    return {
        "observed": spread((seen - event).total_seconds() if event else None for event, seen, _, _ in rows),
        "detected": spread((detected - seen).total_seconds() for _, seen, detected, _ in rows),
        "proposed": spread(
            (proposed - detected).total_seconds() if proposed else None for _, _, detected, proposed in rows
        ),
    }


def since_checkpoint(marks: Sequence[tuple[float, int]], moved: float | None) -> tuple[float | None, float | None]:
    """Seconds between the last checkpoint and the last movement, and the pause between checkpoints, by median.

    `marks` are when each checkpoint was first seen, with its step. What was trained before it was seen is in it or
    was done again: to the minute these are the same.
    """
    at = sorted(when for when, _ in marks)
    pauses = sorted(later - earlier for earlier, later in pairwise(at) if later > earlier)
    interval = pauses[len(pauses) // 2] if pauses else None
    return (max(0.0, moved - at[-1]) if at and moved is not None else None), interval
