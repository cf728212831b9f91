"""What Slurm's commands print, read: rows of `sacct`, columns of `squeue`, lines of `scontrol` and `sacctmgr`."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rules.attempt import expand_hostlist
from verdicts.collectors.ask import SourceError
from verdicts.collectors.slurm_records import UNSETTLED, Job, NodeState, Step
from verdicts.collectors.slurm_values import exit_code, hosts, moment, number, state, words

FIELDS = (
    "JobID", "JobName", "Cluster", "User", "Account", "Partition", "State", "ExitCode", "DerivedExitCode", "Submit",
    "Start", "End", "NodeList", "Reason", "Comment", "AdminComment", "SystemComment", "Restarts", "FailedNode",
)  # fmt: skip
#: Fields that only newer versions have.
NEWER = frozenset({"Restarts", "FailedNode"})
COLUMNS = {
    "JobID": "%i", "JobName": "%j", "User": "%u", "Account": "%a", "Partition": "%P", "State": "%T", "Submit": "%V",
    "Start": "%S", "End": "%e", "NodeList": "%N", "Reason": "%r", "Comment": "%k",
}  # fmt: skip
#: Columns that hold nothing but numbers: these may be cut at a width.
NUMBERS = "JobArrayID:64,SubmitTime:24,State:24,RestartCnt:12,exit_code:14,DerivedEC:14"
EVENT = "format=nodename,timestart,timeend,state,user,reason"

#: "4711", a task "4711_3", a component "4711+1", with a step ".batch"; what waits in an array is "4711_[5-9%2]".
_ID = re.compile(r"(?P<id>[0-9]+(?:_(?:[0-9]+|\[[0-9,%:-]*(?:\.\.\.)?\]))?)(?:\+(?P<part>[0-9]+))?(?:\.(?P<step>.+))?")
_NODE = re.compile(r"NodeName=(?P<name>\S+) ")
_STATE = re.compile(r" State=(?P<state>\S+) ")
_BOOT = re.compile(r" BootTime=(?P<boot>[0-9]+) ")
_LEAF = re.compile(r"SwitchName=(?P<name>\S+) Level=0 .*\bNodes=(?P<nodes>\S+)")
_REASON = re.compile(r" Reason=(?P<reason>.*?)(?: \[(?P<by>[^\[\]@]*)@(?P<since>[0-9]+)\])?(?: Comment=.*)?$")


def rows(raw: bytes, between: str, fields: int) -> Iterator[list[str]]:
    """The rows of an output in which every field ends with the delimiter. Raises SourceError when it was cut off."""
    parts = raw.decode("utf-8", "backslashreplace").split(between)
    if parts.pop().strip() or len(parts) % fields:
        raise SourceError(f"the answer was cut off after {len(raw)} bytes")
    for at in range(0, len(parts), fields):
        yield [parts[at].lstrip("\n"), *parts[at + 1 : at + fields]]


def jobs_in_rows(raw: bytes, between: str, fields: Sequence[str]) -> list[Job]:
    """The jobs of `sacct`, with the steps that follow each. Raises SourceError."""
    found: list[Job] = []
    steps: list[Step] = []
    for row in rows(raw, between, len(fields)):
        told = dict(zip(fields, row, strict=True))
        match = _ID.fullmatch(told["JobID"].strip())
        if match is None:
            continue
        if match["step"]:
            steps.append(_step(match["step"], told))
            continue
        _close(found, steps)
        found.append(_job(match, told))
    _close(found, steps)
    return found


def jobs_in_columns(raw: bytes, between: str) -> list[Job]:
    """The controller's jobs, as `squeue` prints them: without restarts and exit codes. Raises SourceError."""
    found = []
    for row in rows(raw, between, len(COLUMNS)):
        told = dict(zip(COLUMNS, row, strict=True))
        if match := _ID.fullmatch(told["JobID"].strip()):
            found.append(replace(_job(match, told), live=True))
    return found


def with_numbers(jobs: list[Job], raw: bytes) -> list[Job]:
    """The jobs with their restarts and exit codes, as `squeue` prints them in the columns of NUMBERS."""
    told = {}
    for line in raw.decode("utf-8", "replace").split("\n"):
        match line.split():
            case [name, submit, word, restarts, code, derived] if restarts.isdecimal():
                settled = int(restarts) if word not in UNSETTLED else None
                told[name, number(submit)] = (settled, exit_code(number(code)), exit_code(number(derived)))
    found = []
    for job in jobs:
        name = job.id if job.component is None else f"{job.id}+{job.component}"
        if (numbers := told.get((name, job.submit))) is not None:
            found.append(replace(job, restarts=numbers[0], exit_code=numbers[1], derived=numbers[2]))
        else:
            found.append(job)
    return found


def _close(found: list[Job], steps: list[Step]) -> None:
    if found and steps:
        found[-1] = replace(found[-1], steps=tuple(steps))
    steps.clear()


def _job(match: re.Match[str], told: Mapping[str, str]) -> Job:
    restarts = told.get("Restarts", "").strip()
    return Job(
        id=match["id"],
        component=int(match["part"]) if match["part"] else None,
        cluster=words(told.get("Cluster", "")),
        name=words(told["JobName"]),
        user=words(told["User"]),
        account=words(told["Account"]),
        partition=words(told["Partition"]),
        state=state(told["State"]),
        submit=moment(told["Submit"]),
        start=moment(told["Start"]),
        end=moment(told["End"]),
        restarts=int(restarts) if restarts.isdecimal() else None,
        nodes=hosts(told["NodeList"]),
        exit_code=exit_code(told.get("ExitCode", "")),
        derived=exit_code(told.get("DerivedExitCode", "")),
        reason=words(told["Reason"]),
        comment=words(told["Comment"]),
        admin_comment=words(told.get("AdminComment", "")),
        system_comment=words(told.get("SystemComment", "")),
        failed_node=words(told.get("FailedNode", "")),
    )


def _step(name: str, told: Mapping[str, str]) -> Step:
    return Step(
        id=words(name),
        name=words(told["JobName"]),
        state=state(told["State"]),
        exit_code=exit_code(told["ExitCode"]),
        nodes=hosts(told["NodeList"]),
        start=moment(told["Start"]),
        end=moment(told["End"]),
    )


def nodes(raw: bytes) -> Iterator[NodeState]:
    """The lines of `scontrol --oneliner show node`."""
    for line in raw.decode("utf-8", "replace").split("\n"):
        name, told = _NODE.match(line), _STATE.search(line)
        if name is None or told is None:
            continue
        boot, reason = _BOOT.search(line), _REASON.search(line.rstrip())
        yield NodeState(
            name=words(name["name"]),
            state=words(told["state"]),
            reason=words(reason["reason"]) if reason else "",
            by=words(reason["by"]) if reason and reason["by"] else "",
            since=moment(reason["since"]) if reason and reason["since"] else 0,
            boot=moment(boot["boot"]) if boot else 0,
        )


def switches(raw: bytes) -> dict[str, frozenset[str]]:
    """The nodes below each leaf switch, of `scontrol show topology`; a list that cannot be read is left out."""
    found = {}
    for line in raw.decode("utf-8", "replace").split("\n"):
        if match := _LEAF.match(line.strip()):
            with contextlib.suppress(ValueError):
                found[words(match["name"])] = frozenset(expand_hostlist(hosts(match["nodes"])))
    return found


def partitions(raw: bytes) -> dict[str, frozenset[str]]:
    """The nodes of each partition, of `sinfo` with one line "PARTITION|NODES" or more for each. Raises ValueError."""
    found: dict[str, set[str]] = {}
    for line in raw.decode("utf-8", "replace").split("\n"):
        name, between, nodes = line.strip().rpartition("|")
        if between and words(name):
            found.setdefault(words(name), set()).update(expand_hostlist(hosts(nodes)))
    return {name: frozenset(nodes) for name, nodes in found.items()}


def events(raw: bytes) -> Iterator[NodeState]:
    """The rows of `sacctmgr --parsable2 show event` with the columns of EVENT."""
    for line in raw.decode("utf-8", "replace").split("\n"):
        name, since, until, told, by, reason = [*line.split("|", 5), "", "", "", "", "", ""][:6]
        if name and told:
            yield NodeState(
                name=words(name),
                state=words(told),
                reason=words(reason),
                by=words(by.partition("(")[0]),
                since=moment(since),
                until=moment(until),
            )
