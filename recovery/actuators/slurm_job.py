"""What Slurm says of a job, in the words of the steps. Pure.

A job keeps its id over requeues: the submit time and the restart count say which attempt it is at. Slurm counts a
requeue at once and renews the submit time when the nodes are cleaned up; in between it is not settled.
"""

import re
from typing import Any

import msgspec

from recovery.actuators.base import Aim, Look, Unseen
from recovery.words import ActionKind
from rules.attempt import expand_hostlist, natural
from verdicts.collectors.slurm_json import refusal
from verdicts.collectors.slurm_records import UNSETTLED
from verdicts.collectors.slurm_values import hosts, moment, number, optional, state, words

#: Reasons for which a job waits until it is released.
_HELD = re.compile(r"JobHeld\w*|JobHoldMaxRequeue|.*held state.*", re.IGNORECASE)
#: States in which it has nodes.
_ON = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "STAGE_OUT", "STOPPED", "SIGNALING", "RESIZING"})
_WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})


class SlurmJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the controller has it, as far as acting on it needs."""

    id: str
    state: str
    reason: str
    submit: int
    restarts: int
    held: bool
    excluded: frozenset[str]
    required: frozenset[str]
    requeue: bool
    batch: bool
    heterogeneous: bool
    partition: str
    admin_comment: str
    nodes: str


class _Live(msgspec.Struct):
    job_id: Any = 0
    array_job_id: Any = 0
    array_task_id: Any = None
    het_job_id: Any = 0
    job_state: Any = ""
    state_reason: Any = ""
    submit_time: Any = 0
    restart_cnt: Any = 0
    priority: Any = None
    excluded_nodes: Any = ""
    required_nodes: Any = ""
    requeue: Any = True
    batch_flag: Any = True
    partition: Any = ""
    admin_comment: Any = ""
    nodes: Any = ""


class _Answer(msgspec.Struct):
    jobs: list[_Live] = []
    errors: list[Any] = []


def read(raw: bytes, job_id: str) -> SlurmJob | None:
    """The job of that id in an answer of slurmrestd or of `squeue --json`; None where there is none. Raises Unseen."""
    try:
        answer = msgspec.json.decode(raw.decode("utf-8", "replace"), type=_Answer)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise Unseen(f"Slurm's JSON cannot be read: {error}") from error
    if told := refusal(answer.errors):
        raise Unseen(told)
    found = [_job(row, job_id) for row in answer.jobs if job_id in _names(row)]
    if len(found) > 1:
        # Of a heterogeneous job each component comes by itself.
        return msgspec.structs.replace(found[0], heterogeneous=True)
    return found[0] if found else None


def _names(row: _Live) -> set[str]:
    """What a row may be called. An array's number alone means all of its tasks, which no plan is about."""
    array, task, leader = number(row.array_job_id), optional(row.array_task_id), number(row.het_job_id)
    if array:
        return {f"{array}_{task}"} if task is not None else set()
    return {str(leader or number(row.job_id))}


def _job(row: _Live, job_id: str) -> SlurmJob:
    told, reason = state(row.job_state), words(row.state_reason)
    priority = optional(row.priority)
    return SlurmJob(
        id=job_id,
        state=told,
        reason=reason,
        submit=moment(row.submit_time),
        restarts=number(row.restart_cnt),
        held=priority == 0 and _HELD.fullmatch(reason) is not None,
        excluded=_nodes(row.excluded_nodes),
        required=_nodes(row.required_nodes),
        requeue=bool(row.requeue),
        batch=bool(row.batch_flag),
        heterogeneous=bool(number(row.het_job_id)),
        partition=words(row.partition),
        admin_comment=words(row.admin_comment),
        nodes=hosts(row.nodes),
    )


def _nodes(value: Any) -> frozenset[str]:
    """A list of nodes: one text in the older versions, a list of texts in the newer."""
    parts = value if isinstance(value, list) else [value]
    try:
        return frozenset(node for part in parts if (text := hosts(part)) for node in expand_hostlist(text))
    except ValueError as error:
        raise Unseen(f"a list of nodes cannot be read: {error}") from error


def look(aim: Aim, job: SlurmJob | None, partitions: frozenset[str]) -> Look:
    """What a job's record says of the steps of an action."""
    if job is None:
        return _gone(aim)
    facts = {
        "state": job.state,
        "reason": job.reason,
        "submit": job.submit,
        "restarts": job.restarts,
        "held": job.held,
        "excluded": sorted(job.excluded, key=natural),
        "admin_comment": job.admin_comment,
        "nodes_of_job": job.nodes,
    }
    marked = aim.mark in job.admin_comment.split()
    done = {step for step, there in (("mark", marked), ("hold", job.held), ("release", not job.held)) if there}
    if aim.action is ActionKind.LIFT_EXCLUSION:
        included = _included(aim, job)
        said = "" if "include" not in included else f"nothing to change at the job, which is {job.state}"
        return Look(done=frozenset(done | included), held=job.held, said=said, facts=facts)
    if lost := _elsewhere(aim, job, marked=marked) or _never(aim, job, partitions):
        # What is not at our attempt, or never was ours, is nothing that we could give back.
        return Look(done=frozenset({*done, "release", "include"}), lost=lost, held=job.held, facts=facts)
    planned = _planned(aim, job)
    if aim.action in (ActionKind.RESTART, ActionKind.RESTART_EXCLUDING):
        return _restart(aim, job, facts, planned=planned, marked=marked)
    over = job.state not in _ON and job.state not in _WAITING
    if aim.action is ActionKind.STOP:
        return Look(
            done=frozenset({"mark", "cancel"} if over else done - {"release"}),
            settled=job.state != "COMPLETING",
            held=job.held,
            facts=facts,
        )
    return Look(
        done=frozenset(done), lost="it has ended: there is nothing to hold" if over else "", held=job.held, facts=facts
    )


def _gone(aim: Aim) -> Look:
    """A job that the controller has forgotten, which happens some minutes after its end."""
    if aim.action is ActionKind.STOP:
        return Look(done=frozenset({"mark", "cancel"}), said="Slurm no longer knows the job", facts={"state": "gone"})
    lost = "" if aim.action is ActionKind.LIFT_EXCLUSION else "Slurm no longer knows the job"
    return Look(done=frozenset({"include", "release"}), lost=lost, facts={"state": "gone"})


def _submit(aim: Aim) -> int:
    return int(aim.submitted.timestamp()) if aim.submitted else 0


def _planned(aim: Aim, job: SlurmJob) -> bool:
    return job.submit == _submit(aim) and job.restarts == aim.restart_count


def _elsewhere(aim: Aim, job: SlurmJob, *, marked: bool) -> str:
    """Why a job is at no attempt that we may touch, "" where it is at the plan's or at the one that we began."""
    if aim.submitted is None:
        return "the plan does not say when the job was submitted: it could be another under the same number"
    if _planned(aim, job):
        return ""
    restarting = aim.action in (ActionKind.RESTART, ActionKind.RESTART_EXCLUDING)
    following = job.restarts == aim.restart_count + 1 and job.submit >= _submit(aim)
    if restarting and following and (aim.begun or marked):
        return ""
    if job.submit < _submit(aim) or job.restarts < aim.restart_count:
        return "another job has this number now"
    return f"it is at restart {job.restarts} already, and the plan is about restart {aim.restart_count}"


def _never(aim: Aim, job: SlurmJob, partitions: frozenset[str]) -> str:
    """Why a job is none for this action."""
    if job.heterogeneous:
        return "it is a heterogeneous job, which is left to people"
    if partitions and job.partition not in partitions:
        return f"partition {job.partition} is none of those that may be acted on"
    if aim.action not in (ActionKind.RESTART, ActionKind.RESTART_EXCLUDING):
        return ""
    if not job.batch:
        return "it is no batch job: only these can be requeued"
    if not job.requeue:
        return "it may not be requeued (--no-requeue)"
    if job.held and _planned(aim, job):
        return "somebody holds it"
    if asked := sorted(job.required & set(aim.nodes), key=natural):
        return f"it asks for {', '.join(asked)} by name"
    return ""


def _restart(aim: Aim, job: SlurmJob, facts: dict[str, Any], *, planned: bool, marked: bool) -> Look:
    if planned:
        # Nothing of it is done, and there is nothing to give back.
        return Look(done=frozenset({"include", "release"}), **_settled(job), held=job.held, facts=facts)
    done = {"requeue_hold"}
    excluded = set(aim.nodes) <= job.excluded
    if marked:
        done.add("mark")
    if excluded:
        done.add("exclude")
    if not set(aim.nodes) - aim.kept & job.excluded or not job.held:
        done.add("include")
    lost = ""
    if not job.held:
        done.add("release")
        if not marked or not excluded:
            lost = "somebody released it before its nodes were excluded and our mark was set"
    return Look(done=frozenset(done), **_settled(job), lost=lost, held=job.held, facts=facts)


def _included(aim: Aim, job: SlurmJob) -> set[str]:
    """Whether a lifted exclusion has nothing left to do at the job: only what waits has its excluded nodes changed."""
    ours = bool(aim.undoes & set(job.admin_comment.split()))
    return set() if ours and job.state == "PENDING" and job.excluded & set(aim.nodes) else {"include"}


def _settled(job: SlurmJob) -> dict[str, Any]:
    settled = job.state not in UNSETTLED or (job.state == "REQUEUE_HOLD" and not job.nodes)
    return {"settled": settled, "said": "" if settled else "its nodes are being cleaned up"}
