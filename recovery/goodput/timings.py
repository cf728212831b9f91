"""Where the time between a failure and training that moves again went. Pure: moments in, seconds out.

The parts follow one another: detect (it happened → it was proposed), decide (→ the action was begun), act (→ the
scheduler had done it), queue (→ the job had its nodes again), restore (→ a step beyond the last checkpoint), replay
(→ as far as it had been before). A part whose ends are not both known is unknown, not nought.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

PARTS = ("detect", "decide", "act", "queue", "restore", "replay")


@dataclass(frozen=True, kw_only=True)
class Moments:
    """When each thing happened, None where it did not or is not known. `automatic` is whether no person decided."""

    failed: datetime | None = None
    observed: datetime | None = None
    detected: datetime | None = None
    proposed: datetime | None = None
    begun: datetime | None = None
    done: datetime | None = None
    restarted: datetime | None = None
    progressed: datetime | None = None
    caught_up: datetime | None = None
    automatic: bool = False

    @property
    def chain(self) -> tuple[datetime | None, ...]:
        """The ends of the parts, in order."""
        return (
            self.failed, self.proposed, self.begun, self.done, self.restarted, self.progressed, self.caught_up
        )  # fmt: skip


def parts(moments: Moments) -> dict[str, float | None]:
    """Seconds of each part. Clocks of several machines are in it: what would be negative is nought."""
    chain = moments.chain
    return {name: _between(chain[place], chain[place + 1]) for place, name in enumerate(PARTS)}


def to_goodput(moments: Moments) -> float | None:
    """Seconds from the failure to the step at which it stood, else, where replay is not known, to new progress."""
    return _between(moments.failed, moments.caught_up or moments.progressed)


def _between(first: datetime | None, then: datetime | None) -> float | None:
    return max(0.0, (then - first).total_seconds()) if first is not None and then is not None else None


@dataclass(frozen=True)
class Spread:
    """A distribution: of how many, and the seconds that half, nine tenths, 99 in a hundred and all stayed within."""

    n: int
    p50: float
    p90: float
    p99: float
    most: float


def spread(values: Iterable[float | None]) -> Spread | None:
    """The distribution of what is known; None where nothing is. Percentiles are values that occurred (nearest rank)."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    return Spread(len(known), _rank(known, 0.5), _rank(known, 0.9), _rank(known, 0.99), known[-1])


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spreads(cases: Iterable[Moments]) -> Mapping[str, Spread | None]:
    """The distribution of each part and of the whole ("total")."""
    found = list(cases)
    rows = [parts(one) for one in found]
    named = {name: spread(row[name] for row in rows) for name in PARTS}
    return named | {"total": spread(to_goodput(one) for one in found)}
