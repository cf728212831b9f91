"""Guessing the source of a loose file: from what its lines look like, else from its name."""

import re
from pathlib import Path

from rules import files, flight_recorder
from rules.words import Source

#: How much of a file is looked at.
SAMPLE = 256 * 1024


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.MULTILINE)


#: What a source's lines look like; each hit in the sample counts one.
_LOOKS: list[tuple[Source, re.Pattern[str]]] = [
    (
        Source.PROGRESS,
        _any_of(r'^[ \t]*\{[^\n]{0,200}$(?:[^\n]*\n){0,12}?[^\n]{0,200}"(?:pg_config|pg_status|nccl_version)"'),
    ),
    (Source.FABRIC_MANAGER, _any_of(r"^\[\w{3} +\d{1,2} \d{4} [\d:]{8}\] \[\w+\] \[tid \d+\]")),
    (
        Source.NETWORK_METRICS,
        _any_of(
            r"\bSwitch:[\w./-]+:\d+/\d+",
            r"considered by SM as",
            r"\bnode_infiniband_\w+\{",
            r"\[ufm\]",
            r"\bUFM ",
        ),
    ),
    (
        Source.KUBERNETES,
        _any_of(
            r"^(?:LAST SEEN +TYPE|NAME +READY +STATUS|Events:[ \t]*$|Last State:)",
            r"^[ \t]+(?:Type +Reason +Age|Exit Code: +\d)",
            r"^(?:Status: +(?:Failed|Pending|Running)|Reason: +\w|> ?kubectl )",
            r"^kind: (?:Pod|Job|Event|Workload|JobSet|PyTorchJob)",
            r"^\S+ +\d+/\d+ +\w+ +\d+ +\w+$",
            r"\"kind\": ?\"(?:Pod|Event|Job|Workload)",
        ),
    ),
    (
        Source.SCHEDULER,
        _any_of(
            r"^(?:slurmstepd|srun|salloc|sbatch|slurmctld|slurmd|pyxis)[:-]",
            r"^\[[\d:T.-]+\] (?:_slurm_rpc|sched:|_job_complete|error: Nodes|Killing|requeue)",
            r"JobState=|^JobID[ |]",
            r"\|(?:FAILED|COMPLETED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY)\|",
        ),
    ),
    (
        Source.SYSLOG,
        _any_of(
            r"NVRM: |\bkernel: |^kern +:|EDAC |mce: |systemd\[\d+\]|__REALTIME_TIMESTAMP",
            r"^(?:<\d>)?\[ *\d+\.\d{6}\]|^\d{1,2},\d+,\d+,[^;\n]*;",
            r"^\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3}|^\[\w{3} ?\d+ \d\d:\d\d\]",
            r"(?:oom-kill|invoked oom-killer)|Out of memory: Kill",
        ),
    ),
    (Source.NODE_METRICS, _any_of(r"^(?:DCGM_FI_|node_|nvidia_smi_)\w+\{")),
    (
        Source.APPLOG,
        _any_of(
            r"Traceback \(most recent call last\)|NCCL (?:INFO|WARN)|torch|ProcessGroup|CUDA ",
            r"iteration +\d+|\bloss\b|^\w+(?:Error|Exception)\b",
        ),
    ),
]
_NAMES: list[tuple[Source, re.Pattern[str]]] = [
    (Source.FABRIC_MANAGER, re.compile(r"fabric.?manager|nv-?fm", re.IGNORECASE)),
    (Source.NETWORK_METRICS, re.compile(r"\bufm|opensm|ibdiag|switch", re.IGNORECASE)),
    (Source.KUBERNETES, re.compile(r"kubectl|^pods?\b|events?\b|describe|kueue", re.IGNORECASE)),
    (Source.SYSLOG, re.compile(r"dmesg|syslog|messages|kern|journal", re.IGNORECASE)),
    (Source.SCHEDULER, re.compile(r"slurmctld|slurmd\b|sacct|scontrol|^slurm\.(?:txt|log)$", re.IGNORECASE)),
    (Source.APPLOG, re.compile(r"app|stdout|stderr|train|slurm-\d+|rank|\.out$|\.err$", re.IGNORECASE)),
]


def guess(path: Path) -> tuple[Source, str]:
    """The source that a file's content looks like, else its name, else the application log."""
    if flight_recorder.looks_like(path):
        return Source.PROGRESS, "its content"
    text = files.sample(path, SAMPLE)
    scores = [(len(pattern.findall(text)), -index, source) for index, (source, pattern) in enumerate(_LOOKS)]
    best, _, source = max(scores)
    if best:
        return source, "its content"
    for source, pattern in _NAMES:
        if pattern.search(path.name):
            return source, "its name"
    return Source.APPLOG, "nothing else fits"
