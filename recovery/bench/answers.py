"""Ways to answer a failed job in a made-up fleet that need no policy: never exclude, and always, by whom one asks.

`ours.py` has the way of this project.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from recovery.bench.faults import Fault, Fleet, Said, Verdicts, first_error, verdict
from recovery.facts import Restarted

#: Hours from a verdict to its answer, where nobody is asked.
AT_ONCE = 1 / 60
#: Restarts without progress after which the ways without a budget of their own leave a job to people.
FUTILE = 5

#: Who is blamed for a fault that ended a job: fault, the job's nodes, rates, chance, what was said of it before.
Judge = Callable[[Fault, tuple[int, ...], Verdicts, random.Random, Said | None], Said]


@dataclass
class Job:
    """A training run of a fixed size that wants to run all the time. Times are hours since the beginning."""

    number: int
    size: int
    nodes: tuple[int, ...]
    state: str = "running"
    ready: float = 0.0  # when its last start is over and steps are made
    stopped: float = 0.0  # since when it waits for what it waits for now
    gained: float = 0.0  # when it last ended with a later checkpoint than it had begun with
    epoch: int = 0
    crashes: int = 0
    futile: int = 0
    bug: Any = None
    history: list[Restarted] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """What is done: restart after `delay` hours without `exclude`, leave it to people, or ask again after `delay`."""

    delay: float
    exclude: tuple[int, ...] = ()
    to_people: bool = False
    again: bool = False
    by: int = 0  # which policy


class World(Protocol):
    """What a way to answer may know: how large the fleet is, and which nodes are excluded, since when and for whom."""

    fleet: Fleet
    away: dict[int, tuple[float, int]]


class Way(Protocol):
    """One way to answer. `judge` says who is blamed, `told` returns nodes that people are called for at once.

    `answer` is asked at `at` about a failure that was seen at `since`. `keeps_away` is for how many hours.
    """

    name: str
    judge: Judge
    keeps_away: float

    def told(self, job: Job, said: Said, at: float) -> frozenset[int]: ...

    def answer(self, world: World, job: Job, said: Said, since: float, at: float) -> Answer: ...

    def still(self, world: World, job: Job, said: Said, answer: Answer, at: float) -> Sequence[int]: ...

    def acted(self, nodes: Sequence[int], job: Job, said: Said, answer: Answer, at: float) -> None: ...


class Never:
    """Restart on the same nodes, five times without progress at most."""

    name = "never exclude"
    judge: Judge = staticmethod(verdict)

    def __init__(self, fleet: Fleet):
        self.keeps_away = fleet.keeps_away

    def told(self, job: Job, said: Said, at: float) -> frozenset[int]:
        """Nobody is called before a job is stuck."""
        return frozenset()

    def answer(self, world: World, job: Job, said: Said, since: float, at: float) -> Answer:
        """As above."""
        return Answer(AT_ONCE, to_people=job.futile >= FUTILE)

    def still(self, world: World, job: Job, said: Said, answer: Answer, at: float) -> Sequence[int]:
        """What was decided is done."""
        return answer.exclude

    def acted(self, nodes: Sequence[int], job: Job, said: Said, answer: Answer, at: float) -> None:
        """Nothing is remembered."""


class Always(Never):
    """Exclude the nodes that are blamed, every time, as long as nine nodes in ten are there.

    Blamed is the node that the earliest error comes from: nothing but logs is needed for that.
    """

    name = "always, node of the first error"
    judge: Judge = staticmethod(first_error)

    def answer(self, world: World, job: Job, said: Said, since: float, at: float) -> Answer:
        """As above."""
        blamed = self.blamed(said) if len(world.away) < world.fleet.nodes // 10 else ()
        return Answer(AT_ONCE, blamed, to_people=job.futile >= FUTILE)

    def blamed(self, said: Said) -> tuple[int, ...]:
        """The nodes to exclude."""
        return said.nodes


class AlwaysNamed(Always):
    """Blamed is the node that our verdict names first, however strong it is and whatever is shared."""

    name = "always, node of our verdict"
    judge: Judge = staticmethod(verdict)

    def blamed(self, said: Said) -> tuple[int, ...]:
        """One node: the first that is named."""
        return said.nodes[:1]


class AlwaysAll(Always):
    """Blamed is every node that our verdict names."""

    name = "always, all nodes of our verdict"
    judge: Judge = staticmethod(verdict)
