"""Slurm's commands answering from a table, in this process, honouring what of their arguments counts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from verdicts.collectors.ask import Budget
from verdicts.collectors.slurm_commands import Commands, refusal
from verdicts.collectors.slurm_text import FIELDS, NEWER

PROGRAMS = ("squeue", "sacct", "scontrol", "sacctmgr", "sinfo")
_fakes: dict[str, FakeSlurm] = {}


class FakeCommands(Commands, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commands in a folder that stands for a fake."""

    def run(self, program: str, *arguments: str, budget: Budget) -> bytes:
        said = _fakes[self.folder].answer(program, *arguments)
        budget.take(len(said))
        return said


@dataclass
class FakeSlurm:
    """A Slurm's tables. `away` has what a command complains of, `raw` what it prints whatever it is asked."""

    folder: Path
    accounting: list[dict[str, Any]] = field(default_factory=list)
    controller: list[dict[str, Any]] = field(default_factory=list)
    nodes: str = ""
    events: str = ""
    topology: str = ""
    away: dict[str, str] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)
    fields: list[str] = field(default_factory=lambda: [name for name in FIELDS if name not in NEWER])
    called: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in PROGRAMS:
            (self.folder / name).touch(0o755)

    @property
    def commands(self) -> Commands:
        """The commands, which answer what the tables say then."""
        _fakes[str(self.folder)] = self
        return FakeCommands(folder=str(self.folder))

    def calls(self, name: str) -> list[tuple[str, ...]]:
        """The arguments with which a command was called."""
        return [call[1:] for call in self.called if call[0] == name]

    def answer(self, name: str, *arguments: str) -> bytes:
        """What a command says. Raises SourceError."""
        self.called.append((name, *arguments))
        if name in self.away:
            raise refusal(name, 1, self.away[name].encode())
        if name in self.raw:
            return self.raw[name].encode()
        options = dict(a[2:].partition("=")[::2] for a in arguments if a.startswith("--"))
        if name == "squeue" and "json" in options:
            return json.dumps({"errors": [], "jobs": self.controller}).encode()
        if name == "squeue":
            return self._columns(options).encode()
        if name == "sacct":
            return " ".join(self.fields).encode() if "helpformat" in options else self._rows(options).encode()
        if name == "scontrol":
            return (self.topology if "topology" in arguments else self.nodes).encode()
        return self.events.encode() if name == "sacctmgr" else b"slurm 22.05.8"

    def _columns(self, options: dict[str, str]) -> str:
        """The controller's jobs in columns. Raises SourceError for a job that it does not have."""
        jobs = [job for job in self.controller if options.get("jobs", str(job["job_id"])) == str(job["job_id"])]
        if "jobs" in options and not jobs:
            raise refusal("squeue", 1, b"slurm_load_jobs error: Invalid job id specified")
        said = ""
        for job in jobs:
            if "Format" in options:
                numbers = [job[one] for one in ("job_id", "submit_time", "job_state", "restart_cnt", "exit_code")]
                said += " ".join(str(one).ljust(14) for one in (*numbers, 0)) + "\n"
            else:
                between = options["format"][2:].partition("%j")[0]
                names = "job_id name user_name account partition job_state submit_time start_time end_time nodes"
                cells = [*(str(job[one]) for one in names.split()), job["state_reason"], job.get("comment", "(null)")]
                said += "".join(cell + between for cell in cells) + "\n"
        return said

    def _rows(self, options: dict[str, str]) -> str:
        """The rows of the jobs that are named, else of those that ran in the window, as `sacct` chooses them."""
        ids = options["jobs"].split(",") if "jobs" in options else None
        begin, end = _seconds(options["starttime"]), _seconds(options.get("endtime", "9999-01-01T00:00:00"))
        said = ""
        for row in self.accounting:
            job = row["JobID"].split(".")[0].split("+")[0]
            start, over = _moment(row["Start"], row["Submit"]), _moment(row["End"], float("inf"))
            if "." in row["JobID"] and "allocations" in options:
                continue
            if (job in ids) if ids is not None else (start <= end and over >= begin):
                cells = (str(row.get(column, "")) for column in options["format"].split(","))
                said += "".join(cell + options["delimiter"] for cell in cells) + "\n"
        return said


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text + "+00:00").timestamp()


def _moment(value: int | str, otherwise: float) -> float:
    return otherwise if value in ("Unknown", "None") else float(value)


def a_row(job: str, *, submit: int, start: int | str = "", end: int | str = "Unknown", **other: Any) -> dict[str, Any]:
    """A row of accounting: it started at once, and runs."""
    row = {
        "JobID": job, "JobName": "train", "Cluster": "ml", "User": "ada", "Account": "research", "Partition": "train",
        "State": "RUNNING", "ExitCode": "0:0", "DerivedExitCode": "0:0", "Submit": submit,
        "Start": start if start != "" else submit, "End": end, "NodeList": "gpu-[01-02]", "Reason": "None",
    }  # fmt: skip
    return row | other


def a_live(job: int, *, submit: int, start: int = 0, end: int = 0, **other: Any) -> dict[str, Any]:
    """A job as the controller has it: it started at once, and runs."""
    told = {
        "job_id": job, "array_job_id": 0, "array_task_id": None, "het_job_id": 0, "het_job_offset": 0, "cluster": "ml",
        "name": "train", "user_name": "ada", "user_id": 1001, "account": "research", "partition": "train",
        "job_state": "RUNNING", "state_reason": "None", "submit_time": submit, "start_time": start or submit,
        "end_time": end or submit + 86_400, "restart_cnt": 0, "nodes": "gpu-[01-02]", "exit_code": 0,
    }  # fmt: skip
    return told | other
