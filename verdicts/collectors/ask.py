"""What a collector is asked for, and how much it may take."""

import time
from dataclasses import dataclass, field
from datetime import datetime

from rules.attempt import Attempt
from rules.ruleset import Ruleset


class SourceError(Exception):
    """Nothing more can be had from a source; the message says why and what to do, and holds no secret."""


class BudgetSpent(SourceError):
    """The time or the bytes that one collection of a source may take are used up."""


class Unreachable(SourceError):
    """The source did not answer at all: refused, not resolved, no reply in time. Counts towards leaving it alone."""


@dataclass
class Budget:
    """The time and the bytes that are left. `deadline` is of `time.monotonic()`."""

    deadline: float
    bytes_left: int
    seconds: float
    taken: int = field(default=0, init=False)

    @classmethod
    def of(cls, *, seconds: float, megabytes: int) -> "Budget":
        """A budget that begins now."""
        return cls(time.monotonic() + seconds, megabytes << 20, seconds)

    def left(self) -> float:
        """Seconds left. Raises BudgetSpent when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise BudgetSpent(f"not finished within its {self.seconds:g} s")
        return left

    def take(self, size: int) -> None:
        """Count bytes that came over the wire. Raises BudgetSpent beyond what is allowed, and when the time is up."""
        self.taken += size
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise BudgetSpent(f"more than {(self.taken + self.bytes_left) >> 20} MiB; the rest was not read")
        self.left()


@dataclass(frozen=True)
class Ask:
    """One source for one attempt. `begin` and `end` are aware UTC: the attempt's window, widened for what led to it.

    `nodes` are the attempt's nodes, in natural order; a source that knows none of them has nothing to say
    of them, which is not the same as being healthy.
    """

    cluster: str
    attempt: Attempt
    begin: datetime
    end: datetime
    nodes: tuple[str, ...]
    budget: Budget
    ruleset: Ruleset
