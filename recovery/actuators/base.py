"""What every way to a scheduler has in common: what it is told, what it sees, what can go wrong. No Django here.

An actuator never reports that something worked because it was sent: `look` says what is there, `do` sends one
labelled step. Which step comes next, and what an answer means, is `stepper.py`'s.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

import msgspec

from recovery.plan import wrong_nodes
from recovery.words import RELIEF, ActionKind

#: Every mark begins so: it is how a person at the scheduler sees whose doing something is.
MARK = re.compile(r"inquest-[0-9a-z-]{4,50}")
#: Nodes of one action; what a policy allows is far less.
MAX_NODES = 500


class ActError(Exception):
    """Something about a call or a look; the message is for people and holds no secret."""


class Unseen(ActError):
    """The scheduler could not be looked at: what is there is unknown."""


class NotApplied(ActError):
    """It was surely not done, and may be tried again a moment later."""


class MaybeApplied(ActError):
    """It may have been done or may still be: only a look tells, and it is never simply sent again."""


class Refused(ActError):
    """The scheduler said no, in its own words."""


class BadAim(ValueError):
    """The plan does not name exactly what is to be acted on."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What an actuator is told of a plan. `mark` is what it leaves at the scheduler, readable back.

    `begun` says that a call of this action was written down before: without it, a job that is not at the plan's
    attempt is never touched. `kept` are the nodes that the job excluded by itself before anything was done, `ended`
    those of exclusions that are over, `undoes` the marks of the actions whose doing is given back, `reason` a line
    for people at the scheduler.
    """

    action: ActionKind
    mark: str
    job_id: str
    submitted: datetime | None
    restart_count: int
    nodes: tuple[str, ...] = ()
    started: datetime | None = None
    begun: bool = False
    kept: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    undoes: frozenset[str] = frozenset()
    reason: str = ""

    def __post_init__(self) -> None:
        if not MARK.fullmatch(self.mark):
            raise BadAim(f"{self.mark!r} is no mark")
        if why := wrong_nodes(self.action, self.nodes):
            raise BadAim(why)
        if len(self.nodes) > MAX_NODES:
            raise BadAim(f"{len(self.nodes)} nodes are more than any action may take")
        if self.action in TOUCHES_JOB and not self.job_id:
            raise BadAim(f"{self.action} names no job")


TOUCHES_JOB = frozenset({ActionKind.RESTART, ActionKind.RESTART_EXCLUDING, ActionKind.STOP, ActionKind.HOLD})


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a fresh look shows, in the words of the steps.

    `done` are the labels, also of steps that give back, whose effect is there. `settled` is False while the scheduler
    is still at something. `lost` says why what is wanted can no longer be reached. `held` is whether the job is kept
    from starting. `said` explains a wait. `facts` are kept with the action as evidence.
    """

    done: frozenset[str]
    settled: bool = True
    lost: str = ""
    held: bool = False
    said: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Actuator:
    """A way to one cluster's scheduler. `settle` is how long, in seconds, what was sent may take to show, `deadline`
    within how many seconds of its first call an action must end.
    """

    kind: ClassVar[str] = ""

    def __init__(self, *, can: frozenset[ActionKind], settle: float, deadline: float) -> None:
        self.can, self.settle, self.deadline = can, settle, deadline

    def steps(self, action: ActionKind) -> tuple[str, ...]:
        """The labelled steps of an action, in order."""
        raise NotImplementedError

    def undo(self, action: ActionKind) -> tuple[str, ...]:
        """The steps that give back what an action has half done, in order; they are relief."""
        raise NotImplementedError

    def look(self, aim: Aim) -> Look:
        """What is there now. Raises Unseen."""
        raise NotImplementedError

    def do(self, step: str, aim: Aim, seen: Look) -> None:
        """Send one step, once. Raises NotApplied, MaybeApplied, Refused."""
        raise NotImplementedError

    def probe(self) -> str:
        """A line about the other side, such as its version. Raises Unseen."""
        raise NotImplementedError

    def partitions(self) -> dict[str, frozenset[str]]:
        """All nodes of each partition, none where the other side has no such thing. Raises Unseen."""
        return {}

    def down(self) -> frozenset[str]:
        """The nodes on which no job can start, none where the other side has no such thing. Raises Unseen."""
        return frozenset()


#: What may be done where the settings name nothing: containment of jobs. Nodes are touched only where a site says so.
JOBS_ONLY = (
    ActionKind.RESTART,
    ActionKind.RESTART_EXCLUDING,
    ActionKind.STOP,
    ActionKind.HOLD,
)


class ActuatorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What all kinds have. `actions` are those that may be done, `partitions` (queues, namespaces) those of the jobs;
    none means all. Within `deadline` seconds of its first call an action must have come to its end, or is given back.
    For `settle` seconds what was sent without an answer may still take effect.
    """

    actions: tuple[ActionKind, ...] = JOBS_ONLY
    partitions: tuple[str, ...] = ()
    deadline: Annotated[float, msgspec.Meta(ge=5, le=86_400)] = 300.0
    settle: Annotated[float, msgspec.Meta(ge=1, le=3_600)] = 30.0

    @property
    def kind(self) -> str:
        """The word that stands for this system in the file."""
        return str(self.__struct_config__.tag)

    @property
    def may(self) -> frozenset[ActionKind]:
        """The actions that may be done. What was taken may be given back in any case: only what is ours is touched."""
        return frozenset(self.actions) | RELIEF

    def check(self) -> None:
        """What the types cannot. Raises ValueError naming the key."""

    def actuator(self) -> Actuator:
        """The way to the scheduler that they describe."""
        raise NotImplementedError
