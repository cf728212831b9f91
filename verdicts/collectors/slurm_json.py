"""Slurm's JSON, read: slurmrestd's answers from v0.0.38 on, and what `--json` of its commands prints.

The versions differ in how they write a value (see `slurm_values`), hardly in where it stands. Whatever is not needed
is not even decoded; text that is no UTF-8, which Slurm passes on as users typed it, spoils only itself.
"""

import re
from typing import Any, TypeVar

import msgspec

from verdicts.collectors.ask import SourceError, Unreachable
from verdicts.collectors.slurm_records import UNSETTLED, Job, NodeState, Step
from verdicts.collectors.slurm_values import exit_code, hosts, moment, number, optional, state, words


class _Live(msgspec.Struct):
    """A job as the controller has it."""

    job_id: Any = 0
    array_job_id: Any = 0
    array_task_id: Any = None
    array_task_string: Any = ""
    het_job_id: Any = 0
    het_job_offset: Any = None
    cluster: Any = ""
    name: Any = ""
    user_name: Any = ""
    user_id: Any = None
    account: Any = ""
    partition: Any = ""
    job_state: Any = ""
    state_reason: Any = ""
    submit_time: Any = 0
    start_time: Any = 0
    end_time: Any = 0
    restart_cnt: Any = None
    nodes: Any = ""
    exit_code: Any = None
    derived_exit_code: Any = None
    comment: Any = ""
    admin_comment: Any = ""
    system_comment: Any = ""
    failed_node: Any = ""


class _Booked(msgspec.Struct):
    """A job as accounting has it."""

    job_id: Any = 0
    array: dict[str, Any] = {}
    het: dict[str, Any] = {}
    cluster: Any = ""
    name: Any = ""
    user: Any = ""
    account: Any = ""
    partition: Any = ""
    state: dict[str, Any] = {}
    time: dict[str, Any] = {}
    restart_cnt: Any = None
    nodes: Any = ""
    exit_code: Any = None
    derived_exit_code: Any = None
    comment: dict[str, Any] = {}
    failed_node: Any = ""
    kill_request_user: Any = ""
    steps: list[dict[str, Any]] = []


class _Node(msgspec.Struct):
    name: Any = ""
    state: Any = ""
    state_flags: Any = ()
    reason: Any = ""
    reason_set_by_user: Any = ""
    reason_changed_at: Any = 0
    boot_time: Any = 0
    partitions: Any = ()


class _Said(msgspec.Struct):
    """What every answer may hold beside what was asked for."""

    meta: dict[str, Any] = {}
    errors: list[Any] = []


class _LiveJobs(_Said):
    jobs: list[_Live] = []


class _BookedJobs(_Said):
    jobs: list[_Booked] = []


class _Nodes(_Said):
    nodes: list[_Node] = []


class _Diag(_Said):
    statistics: dict[str, Any] = {}


#: Slurm's numbers for "there is no such job" and "nothing found".
_NOTHING = frozenset({2017, 9003})
#: Words of slurmrestd for a daemon behind it that does not answer.
_AWAY = re.compile(r"connect|contact|communicat|unable to load|timed out|not responding|slurm_load_", re.IGNORECASE)


class Away(Unreachable):
    """A daemon behind slurmrestd does not answer, which is no fault of slurmrestd's."""


Answer = TypeVar("Answer", bound=_Said)


def _decoded(raw: bytes, kind: type[Answer]) -> Answer:
    """An answer. Raises SourceError, as Away where a daemon behind slurmrestd does not answer."""
    try:
        answer = msgspec.json.decode(raw.decode("utf-8", "replace"), type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise SourceError(f"Slurm's JSON cannot be read: {error}") from error
    told = refusal(answer.errors)
    if told:
        raise Away(told) if _AWAY.search(told) else SourceError(told)
    return answer


def refusal(errors: object) -> str:
    """Why, in the `errors` of an answer; "" where there are none, or where it only found nothing."""
    found = []
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict) and number(error.get("error_number", error.get("errno"))) not in _NOTHING:
            parts = (words(error.get("description")), words(error.get("error")), words(error.get("source")))
            found.append(": ".join(part for part in parts if part))
    return "; ".join(found)[:300]


def version(raw: bytes) -> str:
    """Slurm's version in any answer."""
    meta = _decoded(raw, _Said).meta
    said = meta.get("slurm", meta.get("Slurm"))
    return words(said.get("release")) if isinstance(said, dict) else ""


def controllers_clock(raw: bytes) -> int:
    """The controller's clock in its statistics."""
    return moment(_decoded(raw, _Diag).statistics.get("req_time"))


def controller_jobs(raw: bytes) -> list[Job]:
    """Jobs as the controller has them. Raises SourceError."""
    found = []
    for job in _decoded(raw, _LiveJobs).jobs:
        array, task, leader = number(job.array_job_id), optional(job.array_task_id), number(job.het_job_id)
        name = str(leader or number(job.job_id))
        told = state(job.job_state)
        if array:
            name = f"{array}_{task}" if task is not None else f"{array}_[{words(job.array_task_string)}]"
        found.append(
            Job(
                id=name,
                component=number(job.het_job_offset) if leader else None,
                cluster=words(job.cluster),
                name=words(job.name),
                user=words(job.user_name),
                uid=optional(job.user_id),
                account=words(job.account),
                partition=words(job.partition),
                state=told,
                submit=moment(job.submit_time),
                start=moment(job.start_time),
                end=moment(job.end_time),
                restarts=None if told in UNSETTLED else optional(job.restart_cnt),
                nodes=hosts(job.nodes),
                exit_code=exit_code(job.exit_code),
                derived=exit_code(job.derived_exit_code),
                reason=words(job.state_reason),
                comment=words(job.comment),
                admin_comment=words(job.admin_comment),
                system_comment=words(job.system_comment),
                failed_node=words(job.failed_node),
                live=True,
            )
        )
    return found


def accounted_jobs(raw: bytes, *, trusted: bool = True) -> list[Job]:
    """Jobs as accounting has them. Where exit codes are not to be trusted, "it ended well" of a failed job is unknown.

    Raises SourceError.
    """
    found = []
    for job in _decoded(raw, _BookedJobs).jobs:
        array, task = number(job.array.get("job_id")), optional(job.array.get("task_id"))
        leader, part = number(job.het.get("job_id")), optional(job.het.get("job_offset"))
        told = state(job.state.get("current"))
        if told == "CANCELLED" and (by := words(job.kill_request_user)):
            told = f"CANCELLED by {0 if by == 'root' else by}"
        code = exit_code(job.exit_code)
        found.append(
            Job(
                id=f"{array}_{task}" if array and task is not None else str(leader or number(job.job_id)),
                component=part if leader else None,
                cluster=words(job.cluster),
                name=words(job.name),
                user=words(job.user),
                account=words(job.account),
                partition=words(job.partition),
                state=told,
                submit=moment(job.time.get("submission")),
                start=moment(job.time.get("start")),
                end=moment(job.time.get("end")),
                restarts=optional(job.restart_cnt),
                nodes=hosts(job.nodes),
                exit_code="" if not trusted and code == "0:0" and told != "COMPLETED" else code,
                derived=exit_code(job.derived_exit_code),
                reason=words(job.state.get("reason")),
                comment=words(job.comment.get("job")),
                admin_comment=words(job.comment.get("administrator")),
                system_comment=words(job.comment.get("system")),
                failed_node=words(job.failed_node),
                steps=tuple(_step(step, trusted=trusted) for step in job.steps),
            )
        )
    return found


def _step(step: dict[str, Any], *, trusted: bool) -> Step:
    which, time, where = (step.get(key) or {} for key in ("step", "time", "nodes"))
    told, code = state(step.get("state")), exit_code(step.get("exit_code"))
    return Step(
        # Newer versions write the job's id before the step's.
        id=words(which.get("id")).rpartition(".")[2],
        name=words(which.get("name")),
        state=told,
        exit_code="" if not trusted and code == "0:0" and told != "COMPLETED" else code,
        nodes=hosts(where.get("range")),
        start=moment(time.get("start")),
        end=moment(time.get("end")),
    )


def nodes(raw: bytes) -> list[NodeState]:
    """The controller's records of nodes. Raises SourceError."""
    found = []
    for node in _decoded(raw, _Nodes).nodes:
        # v0.0.38: a state and its flags; later: a list of both.
        states = node.state if isinstance(node.state, list) else [node.state, *(node.state_flags or ())]
        found.append(
            NodeState(
                name=words(node.name),
                state="+".join(words(told).upper() for told in states if told),
                reason=words(node.reason),
                by=words(node.reason_set_by_user),
                since=moment(node.reason_changed_at),
                boot=moment(node.boot_time),
            )
        )
    return found


def partitions(raw: bytes) -> dict[str, frozenset[str]]:
    """The nodes of each partition, as the records of nodes tell. Raises SourceError."""
    found: dict[str, set[str]] = {}
    for node in _decoded(raw, _Nodes).nodes:
        named = node.partitions.split(",") if isinstance(node.partitions, str) else node.partitions or ()
        for name in filter(None, map(words, named)):
            found.setdefault(name, set()).add(words(node.name))
    return {name: frozenset(nodes) for name, nodes in found.items()}
