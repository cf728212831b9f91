"""Builders for engine tests: attempts, log lines in true formats, verdicts on them."""

from collections.abc import Iterable
from functools import cache

from rules.attempt import Attempt, CollectorReport, checked
from rules.engine import attribute
from rules.observation import Observation
from rules.ruleset import Ruleset, load_files, load_ruleset
from rules.verdict import Verdict
from rules.words import ReportStatus, Source

CORE = (Source.APPLOG, Source.SYSLOG, Source.SCHEDULER)


@cache
def shipped() -> Ruleset:
    """The shipped catalogue."""
    return load_ruleset()


def a_rule(rule_id: str, pattern: str, **changes: str) -> tuple[str, bytes]:
    """A rule file with the least that a rule needs; `changes` are TOML lines by name, `tail` is appended."""
    tail = changes.pop("tail", "")
    node = changes.pop("locus", "")
    sources = changes.pop("sources", '["syslog"]')
    head = {
        "title": f'"{rule_id}"',
        "symptom": f'"{rule_id.replace(".", "_").replace("-", "_")}"',
        "role": '"cause"',
        "domain": '"gpu_hardware"',
        "meaning": '"m"',
    } | changes
    lines = [f'id = "{rule_id}"', *(f"{key} = {value}" for key, value in head.items())]
    text = "\n".join(lines) + f"\n[match]\nsources = {sources}\nany = ['{pattern}']\n[locus]\n{node}\n{tail}\n"
    subject, _, name = rule_id.partition(".")
    return f"{subject}/{name}.toml", text.encode()


def a_ruleset(*rules: tuple[str, bytes]) -> Ruleset:
    """A ruleset of made-up rules."""
    return load_files(dict(rules))


def an_attempt(nodes: int = 4, **fields: object) -> Attempt:
    """A failed Slurm attempt on nodes n1…; fields override."""
    base: dict[str, object] = {
        "job_id": "1234",
        "scheduler": "slurm",
        "state": "FAILED",
        "start": "2026-11-03T01:00:00Z",
        "end": "2026-11-03T02:30:00Z",
        "nodes": [f"n{i}" for i in range(1, nodes + 1)],
    }
    return checked(Attempt(**(base | fields)))  # type: ignore[arg-type]


def seen(source: str, *lines: str, node: str = "", start: int = 1) -> list[Observation]:
    """Observations of the lines of one file."""
    name = f"{source}/{node or 'all'}.log"
    return [
        Observation(source=Source(source), body=line, node=node, ref=f"{name}:{number}")
        for number, line in enumerate(lines, start)
    ]


def reports(*sources: str) -> list[CollectorReport]:
    """Reports that the sources were read; without names, the three that every attempt needs."""
    return [CollectorReport(source=Source(s), status=ReportStatus.OK, read=1) for s in sources or CORE]


def verdict_on(
    observations: Iterable[Observation],
    *,
    attempt: Attempt | None = None,
    of: list[CollectorReport] | None = None,
    ruleset: Ruleset | None = None,
) -> Verdict:
    """The verdict on some observations with everything else as it usually is."""
    return attribute(attempt or an_attempt(), observations, reports() if of is None else of, ruleset or shipped())


def at(minute: int, second: int = 0) -> str:
    """A time inside the attempt's window."""
    return f"2026-11-03T02:{minute:02d}:{second:02d}.000000+00:00"
