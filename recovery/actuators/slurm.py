"""Slurm: requeue into hold, excluded nodes, a mark, release; cancel, hold; drain and undrain what is ours.

Looked at through slurmrestd where there is one, else by `squeue --json`; acted on by `scontrol` without a shell, for
most versions of slurmrestd can neither requeue nor exclude, and cancelled through slurmrestd where there is one. The
mark stands in the job's AdminComment, which leaves the user's own comment alone, and in a drained node's Reason.
"""

from typing import Any, ClassVar

from recovery.actuators import slurm_job, slurm_ways
from recovery.actuators.base import Actuator, ActuatorSettings, Aim, Look, Refused
from recovery.actuators.slurm_job import SlurmJob
from recovery.words import ActionKind
from rules.attempt import natural
from verdicts.collectors.server import Server
from verdicts.collectors.slurm_commands import Commands
from verdicts.collectors.slurm_records import NodeState

#: The labelled steps of each action, and those that give back what was half done.
STEPS = {
    ActionKind.RESTART: ("requeue_hold", "mark", "release"),
    ActionKind.RESTART_EXCLUDING: ("requeue_hold", "mark", "exclude", "release"),
    ActionKind.STOP: ("mark", "cancel"),
    ActionKind.HOLD: ("mark", "hold"),
    ActionKind.DRAIN: ("drain",),
    ActionKind.UNDRAIN: ("undrain",),
    ActionKind.LIFT_EXCLUSION: ("include", "undrain"),
}
UNDO = {
    ActionKind.RESTART: ("release",),
    ActionKind.RESTART_EXCLUDING: ("include", "release"),
    ActionKind.HOLD: ("release",),
    ActionKind.DRAIN: ("undrain",),
}
#: States of a node on which a job runs, or may still.
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING"})
#: States in which no job starts on a node. One that is powered down to save power is not among them: it is woken up.
_NO_USE = _DRAINED | {
    "DOWN",
    "FAIL",
    "FAILED",
    "FAILING",
    "FUTURE",
    "MAINT",
    "MAINTENANCE",
    "NOT_RESPONDING",
    "NO_RESPOND",
}


class Slurm(Actuator):
    """One cluster's Slurm."""

    kind: ClassVar[str] = "slurm"

    def __init__(
        self,
        ways: slurm_ways.Ways,
        *,
        can: frozenset[ActionKind],
        partitions: frozenset[str],
        settle: float,
        deadline: float,
    ) -> None:
        super().__init__(can=can & STEPS.keys(), settle=settle, deadline=deadline)
        self._ways, self._partitions = ways, partitions

    def steps(self, action: ActionKind) -> tuple[str, ...]:
        return STEPS[action]

    def undo(self, action: ActionKind) -> tuple[str, ...]:
        return UNDO.get(action, ())

    def probe(self) -> str:
        return f"Slurm {self._ways.version()}"

    def partitions(self) -> dict[str, frozenset[str]]:
        return self._ways.partitions()

    def down(self) -> frozenset[str]:
        return frozenset(node.name for node in self._ways.nodes(()) if no_use(node.state))

    # Looking

    def look(self, aim: Aim) -> Look:
        steps = {*self.steps(aim.action), *self.undo(aim.action)}
        looks = []
        if steps - {"drain", "undrain"}:
            looks.append(slurm_job.look(aim, self._ways.job(aim.job_id), self._partitions))
        if steps & {"drain", "undrain"}:
            looks.append(node_look(aim, self._ways.nodes(aim.nodes)))
        return looks[0] if len(looks) == 1 else _both(*looks)

    # Acting

    def do(self, step: str, aim: Aim, seen: Look) -> None:
        job = aim.job_id
        match step:
            case "requeue_hold":
                self._ways.scontrol("requeuehold", job)
            case "mark":
                said = " ".join(part for part in (str(seen.facts["admin_comment"]), aim.mark) if part)
                self._ways.scontrol("update", f"jobid={job}", f"admincomment={said}")
            case "exclude":
                # An exclusion that was lifted while the job ran is out of the list now that it can be changed.
                self._exclude(job, set(seen.facts["excluded"]) - aim.ended | set(aim.nodes))
            case "include":
                self._exclude(job, set(seen.facts["excluded"]) - (set(aim.nodes) - aim.kept))
            case "release":
                self._ways.scontrol("release", job)
            case "hold":
                self._ways.scontrol("hold", job)
            case "cancel":
                self._ways.cancel(job)
            case "drain":
                names = ",".join(seen.facts["to_drain"])
                self._ways.scontrol(
                    "update", f"nodename={names}", "state=drain", f"reason={aim.mark} {aim.reason}".rstrip()
                )
            case "undrain":
                self._ways.scontrol("update", f"nodename={','.join(seen.facts['ours'])}", "state=undrain")
            case _:
                raise Refused(f"{step} is no step of Slurm")

    def _exclude(self, job: str, nodes: set[str]) -> None:
        self._ways.scontrol("update", f"jobid={job}", f"excnodelist={','.join(sorted(nodes, key=natural))}")


def no_use(state: str) -> bool:
    """Whether no job can start on a node in this state, such as "IDLE+DRAIN" or "DOWN*" (which does not respond)."""
    words = state.upper().split("+")
    return any(word.endswith("*") or word.rstrip("*~#!%$@^-") in _NO_USE for word in words)


def node_look(aim: Aim, nodes: list[NodeState]) -> Look:
    """What the nodes' states say of a drain, or of giving one back. Pure.

    Somebody else's drain counts as drained and is never ours; a node on which a job runs is not drained before it ends.
    """
    marks = aim.undoes | {aim.mark}
    there = {node.name: node for node in nodes if node.name in aim.nodes}
    words = {name: frozenset(node.state.rstrip("*~#!%$@^-").split("+")) for name, node in there.items()}
    drained = {name for name in there if words[name] & _DRAINED}
    ours = sorted(name for name in drained if marks & set(there[name].reason.replace(":", " ").split()))
    busy = sorted(name for name in there if words[name] & _BUSY and name not in drained)
    missing = sorted(set(aim.nodes) - there.keys())
    facts: dict[str, Any] = {
        "nodes": {name: f"{node.state} {node.reason}".strip() for name, node in sorted(there.items())},
        "ours": ours,
        "to_drain": sorted(there.keys() - drained),
    }
    done = set()
    if not missing and drained == set(aim.nodes):
        done.add("drain")
    if not ours:
        done.add("undrain")
    lost = f"Slurm knows no node {', '.join(missing)}" if missing and aim.action is ActionKind.DRAIN else ""
    waits = aim.action is ActionKind.DRAIN and busy and "drain" not in done
    return Look(
        done=frozenset(done),
        settled=not waits,
        lost=lost,
        said=f"jobs run on {', '.join(busy)}: no node is drained under a running job" if waits else "",
        facts=facts,
    )


def _both(job: Look, nodes: Look) -> Look:
    """One look at a job and at nodes."""
    return Look(
        done=job.done | nodes.done,
        settled=job.settled and nodes.settled,
        lost=job.lost or nodes.lost,
        held=job.held,
        said="; ".join(part for part in (job.said, nodes.said) if part),
        facts={**job.facts, **nodes.facts},
    )


class SlurmSettings(ActuatorSettings, tag="slurm", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """slurmrestd (`server`), and where Slurm's commands are. The commands are needed for all but cancelling.

    The account that the dispatcher runs as needs Slurm's operator level: it updates and requeues other people's jobs.
    """

    server: Server | None = None
    commands: Commands = Commands()

    def check(self) -> None:
        if self.server is not None:
            self.server.check()
        self.commands.check()

    def actuator(self) -> Actuator:
        ways = slurm_ways.Ways(self.server, self.commands)
        return Slurm(
            ways, can=self.may, partitions=frozenset(self.partitions), settle=self.settle, deadline=self.deadline
        )


__all__ = ["Slurm", "SlurmJob", "SlurmSettings", "no_use", "node_look"]
