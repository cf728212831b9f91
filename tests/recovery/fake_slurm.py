"""A Slurm that takes what the actuator sends, and can misbehave: apply and time out, apply late, refuse, be away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from recovery.actuators.base import MaybeApplied, NotApplied, Refused, Unseen
from recovery.actuators.slurm_job import SlurmJob
from verdicts.collectors.slurm_records import NodeState

SUBMIT = 1_796_000_000


def a_job(**changes: Any) -> SlurmJob:
    said: dict[str, Any] = {
        "id": "4711",
        "state": "RUNNING",
        "reason": "None",
        "submit": SUBMIT,
        "restarts": 0,
        "held": False,
        "excluded": frozenset(),
        "required": frozenset(),
        "requeue": True,
        "batch": True,
        "heterogeneous": False,
        "partition": "train",
        "admin_comment": "",
        "nodes": "gpu-[01-02]",
    }
    return SlurmJob(**(said | changes))


class Killed(BaseException):
    """The dispatcher died here: nothing of its own may catch this."""


@dataclass
class FakeSlurm:
    """What is at the scheduler. `sent` has every call that reached it.

    `fates` names for the first calls of a verb what becomes of them: "lost" (never arrives, and the caller hears
    nothing), "timeout" (applied, and the caller hears nothing), "late" (applied at the next `tick`), "down" (refused
    to connect), "no" (refused), "dies_before" and "dies_after" (the caller is killed).
    """

    record: SlurmJob | None = field(default_factory=a_job)
    states: dict[str, NodeState] = field(default_factory=dict)
    parts: dict[str, frozenset[str]] = field(default_factory=dict)
    sent: list[tuple[str, ...]] = field(default_factory=list)
    fates: dict[str, list[str]] = field(default_factory=dict)
    unseen: int = 0
    effects: dict[str, int] = field(default_factory=dict)
    late: list[Callable[[], None]] = field(default_factory=list)
    before_call: Callable[[str], None] = lambda _: None
    after_look: Callable[[], None] = lambda: None

    # What the actuator asks

    def version(self) -> str:
        return "22.05"

    def partitions(self) -> dict[str, frozenset[str]]:
        if self.unseen:
            self.unseen -= 1
            raise Unseen("no answer")
        return self.parts

    def job(self, job_id: str) -> SlurmJob | None:
        if self.unseen:
            self.unseen -= 1
            raise Unseen("no answer")
        seen = self.record if self.record is not None and self.record.id == job_id else None
        self.after_look()
        return seen

    def nodes(self, names: Sequence[str]) -> list[NodeState]:
        if self.unseen:
            self.unseen -= 1
            raise Unseen("no answer")
        return [self.states[name] for name in names or self.states if name in self.states]

    def scontrol(self, *arguments: str) -> None:
        verb = arguments[0]
        if verb == "update":
            verb = (
                arguments[-1].partition("=")[0] if arguments[1].startswith("jobid=") else arguments[2].partition("=")[2]
            )
        self._send(verb, arguments, lambda: self._apply(arguments))

    def cancel(self, job_id: str) -> None:
        self._send("cancel", ("cancel", job_id), lambda: self._end("CANCELLED"))

    # What becomes of it

    def _send(self, verb: str, arguments: tuple[str, ...], apply: Callable[[], None]) -> None:
        self.before_call(verb)
        fate = (self.fates.get(verb) or ["ok"]).pop(0)
        if fate == "dies_before":
            raise Killed
        if fate == "down":
            raise NotApplied("connect failure")
        if fate == "no":
            raise Refused(f"{verb}: Access denied")
        self.sent.append(arguments)
        if fate == "late":
            self.late.append(apply)
        elif fate != "lost":
            apply()
        if fate == "dies_after":
            raise Killed
        if fate in ("lost", "timeout", "late"):
            raise MaybeApplied("no answer within 20 s")

    def tick(self) -> None:
        """What was late arrives."""
        for apply in self.late:
            apply()
        self.late.clear()

    def _count(self, what: str) -> None:
        self.effects[what] = self.effects.get(what, 0) + 1

    def _change(self, **changes: Any) -> None:
        assert self.record is not None
        self.record = msgspec.structs.replace(self.record, **changes)

    def _end(self, state: str) -> None:
        self._count("cancel")
        self._change(state=state)

    def _apply(self, arguments: tuple[str, ...]) -> None:
        job = self.record
        match arguments:
            case ("requeuehold", _):
                assert job is not None
                if job.state == "PENDING":
                    raise Refused("Job is pending execution")
                self._count("requeue")
                self._change(
                    state="PENDING", reason="JobHeldUser", held=True, restarts=job.restarts + 1, submit=job.submit + 100
                )
            case ("release", _):
                self._change(held=False, reason="None")
            case ("hold", _):
                self._change(held=True, reason="JobHeldAdmin")
            case ("update", _, comment) if comment.startswith("admincomment="):
                self._change(admin_comment=comment.partition("=")[2])
            case ("update", _, nodes) if nodes.startswith("excnodelist="):
                assert job is not None
                if job.state != "PENDING":
                    raise Refused("Job is no longer pending execution")
                wanted = frozenset(filter(None, nodes.partition("=")[2].split(",")))
                if wanted > job.excluded:
                    self._count("exclude")
                self._change(excluded=wanted)
            case ("update", names, "state=drain", reason):
                self._count("drain")
                for name in names.partition("=")[2].split(","):
                    self.states[name] = NodeState(name, "IDLE+DRAIN", reason.partition("=")[2])
            case ("update", names, "state=undrain"):
                self._count("undrain")
                for name in names.partition("=")[2].split(","):
                    self.states[name] = NodeState(name, "IDLE")
            case _:
                raise AssertionError(arguments)

    def start(self) -> None:
        """The scheduler starts the job, if it may."""
        if self.record is not None and self.record.state == "PENDING" and not self.record.held:
            self._change(state="RUNNING", nodes="gpu-03")
