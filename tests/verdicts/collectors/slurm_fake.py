"""Slurm's commands as small programs that answer from a table, honouring what of their arguments counts."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verdicts.collectors.slurm_commands import Commands
from verdicts.collectors.slurm_text import FIELDS, NEWER

PROGRAM = """#!{python} -IS
import datetime, json, pathlib, sys, time
here = pathlib.Path(__file__).parent
name, arguments = pathlib.Path(__file__).name, sys.argv[1:]
told = json.loads((here / "state.json").read_text())
with (here / "calls").open("a") as calls:
    calls.write(json.dumps([name, *arguments]) + "\\n")
if name in told["away"]:
    sys.stderr.write(told["away"][name])
    sys.exit(1)
if name in told["raw"]:
    sys.stdout.buffer.write(told["raw"][name].encode("latin-1"))
    sys.exit(0)
options = dict(a[2:].partition("=")[::2] for a in arguments if a.startswith("--"))
if name == "squeue":
    if "json" not in options:
        sys.exit("no columns here")
    print(json.dumps({{"errors": [], "jobs": told["controller"]}}))
elif name == "sacct" and "helpformat" in options:
    print(" ".join(told["fields"]))
elif name == "sacct":
    def seconds(text):
        return datetime.datetime.fromisoformat(text + "+00:00").timestamp()
    ids = options["jobs"].split(",") if "jobs" in options else None
    begin, end = seconds(options["starttime"]), seconds(options.get("endtime", "9999-01-01T00:00:00"))
    for row in told["accounting"]:
        job = row["JobID"].split(".")[0].split("+")[0]
        over = float(row["End"]) if row["End"] != "Unknown" else float("inf")
        start = float(row["Start"]) if row["Start"] not in ("Unknown", "None") else float(row["Submit"])
        if "." in row["JobID"] and "allocations" in options:
            continue
        if (job in ids) if ids is not None else (start <= end and over >= begin):
            cells = [str(row.get(column, "")) for column in options["format"].split(",")]
            sys.stdout.write("".join(cell + options["delimiter"] for cell in cells) + "\\n")
elif name == "scontrol":
    sys.stdout.write(told["nodes"])
elif name == "sacctmgr":
    sys.stdout.write(told["events"])
elif name == "sinfo":
    print("slurm 22.05.8")
"""


@dataclass
class FakeSlurm:
    """A Slurm's tables. `away` has what a command complains of, `raw` what it prints whatever it is asked."""

    folder: Path
    accounting: list[dict[str, Any]] = field(default_factory=list)
    controller: list[dict[str, Any]] = field(default_factory=list)
    nodes: str = ""
    events: str = ""
    away: dict[str, str] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)
    fields: list[str] = field(default_factory=lambda: [name for name in FIELDS if name not in NEWER])

    def __post_init__(self) -> None:
        for name in ("squeue", "sacct", "scontrol", "sacctmgr", "sinfo"):
            program = self.folder / name
            program.write_text(PROGRAM.format(python=sys.executable))
            program.chmod(0o755)

    @property
    def commands(self) -> Commands:
        """The commands, which answer what the tables say now."""
        told = {name: getattr(self, name) for name in ("accounting", "controller", "nodes", "events", "away", "raw")}
        (self.folder / "state.json").write_text(json.dumps({**told, "fields": self.fields}))
        return Commands(folder=str(self.folder))

    def calls(self, name: str) -> list[list[str]]:
        """The arguments with which a command was called."""
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [call[1:] for call in map(json.loads, lines) if call[0] == name]


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
