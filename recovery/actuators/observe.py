"""The actuator of those who only want to see what would be done: it records, and nothing reaches a scheduler."""

from typing import ClassVar

from recovery.actuators.base import Actuator, ActuatorSettings, Aim, Look
from recovery.words import ActionKind


class Observe(Actuator):
    """Looks at nothing and does nothing; each action ends before an effect, with what it would have been."""

    kind: ClassVar[str] = "observe"

    def __init__(self) -> None:
        super().__init__(can=frozenset(ActionKind), settle=0.0, deadline=60.0)

    def steps(self, action: ActionKind) -> tuple[str, ...]:
        return ("record",)

    def undo(self, action: ActionKind) -> tuple[str, ...]:
        return ()

    def look(self, aim: Aim) -> Look:
        on = f" for {', '.join(aim.nodes)}" if aim.nodes else ""
        return Look(
            done=frozenset(),
            lost=f"this cluster is only observed: {aim.action} of job {aim.job_id}{on} was recorded, nothing was sent",
            facts={"would": aim.action.value, "job": aim.job_id, "nodes": list(aim.nodes)},
        )

    def do(self, step: str, aim: Aim, seen: Look) -> None:
        raise AssertionError("what is only observed is never acted on")

    def probe(self) -> str:
        return "observes only: nothing is sent"


class ObserveSettings(ActuatorSettings, tag="observe", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster whose scheduler is never called."""

    def actuator(self) -> Actuator:
        return Observe()
