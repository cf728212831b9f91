"""Running the tests that stand inside rule files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rules import extract
from rules.attempt import CollectorReport, InputError, decode_attempt
from rules.engine import attribute
from rules.observation import Observation
from rules.rule import Example, IncidentExample, Rule, line_of, parse_rule
from rules.ruleset import DEFAULTS_FILE, SITE_FILE, Ruleset
from rules.verdict import Verdict
from rules.words import ReportStatus, Source


@dataclass(frozen=True)
class Failure:
    """A test that did not come out as written: where it stands, and what came instead."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def rule_files(roots: list[Path]) -> Iterator[tuple[Path, bytes]]:
    """The rule files of the layers, with their texts."""
    for root in roots:
        for path in sorted(root.rglob("*.toml")):
            if path.name not in (SITE_FILE, DEFAULTS_FILE) and not path.name.startswith("."):
                yield path, path.read_bytes()


def run_file(ruleset: Ruleset, path: Path, raw: bytes) -> tuple[int, list[Failure]]:
    """Run every `[[test]]` of one file against the whole ruleset: (tests run, failures)."""
    rule = parse_rule(raw, name=str(path))
    if rule.id not in ruleset.by_id:  # switched off or overridden by the site
        return 0, []
    failures = []
    for example in rule.test:
        if problem := run_example(ruleset, rule, example):
            failures.append(Failure(str(path), line_of(raw, "", example.name), f"test {example.name!r}: {problem}"))
    for incident in rule.incident:
        if problem := run_incident(ruleset, incident):
            failures.append(
                Failure(str(path), line_of(raw, "", incident.name), f"incident {incident.name!r}: {problem}")
            )
    return len(rule.test) + len(rule.incident), failures


def attribute_example(ruleset: Ruleset, incident: IncidentExample) -> Verdict:
    """The verdict on an incident written inside a rule file. Raises InputError where it is malformed."""
    attempt = decode_attempt(msgspec.json.encode({"job_id": "example"} | incident.attempt), name="attempt")
    observations, reports = [], []
    for place, lines in incident.files.items():
        source, _, node = place.partition("/")
        if source not in set(Source):
            raise InputError(f"files.{place}: {source!r} is none of {', '.join(Source)}")
        observations += [
            Observation(source=Source(source), node=node, body=line, ref=f"{place}:{number}")
            for number, line in enumerate(lines, 1)
        ]
        reports.append(CollectorReport(source=Source(source), status=ReportStatus.OK, read=len(lines)))
    if attempt.state:
        reports.append(CollectorReport(source=Source.SCHEDULER, status=ReportStatus.OK, read=1))
    return attribute(attempt, observations, reports, ruleset)


def run_incident(ruleset: Ruleset, incident: IncidentExample) -> str:
    """Why a whole-incident example fails, or ""."""
    try:
        verdict = attribute_example(ruleset, incident)
    except InputError as error:
        return str(error)
    got: dict[str, Any] = {
        "domain": str(verdict.attributed_domain),
        "state": str(verdict.terminal_state),
        "strength": str(verdict.strength),
        "nodes": [node.name for node in verdict.affected_nodes],
        "causes": sorted({f.rule for f in verdict.causes}),
        "candidates": sorted({f.rule for f in verdict.candidates}),
        "demoted": sorted({f.rule for f in verdict.demoted}),
        "interesting": sorted({f.rule for f in verdict.interesting}),
    }
    for key, wanted in incident.expect.items():
        if key not in got:
            return f"expect.{key} is none of {', '.join(got)}"
        missing = set(wanted) - set(got[key]) if isinstance(wanted, list) else set()
        if (missing and key != "nodes") or ((key == "nodes" or not isinstance(wanted, list)) and got[key] != wanted):
            return f"{key} is {got[key]!r}, expected {wanted!r}"
    return ""


def run_example(ruleset: Ruleset, rule: Rule, example: Example) -> str:
    """Why the example fails, or ""."""
    seen = [
        sighting
        for number, line in enumerate(example.lines, 1)
        for sighting in extract.sightings(ruleset, _observation(rule, example, line, number))
        if sighting.rule.id == rule.id
    ]
    wanted: dict[str, Any] = dict(example.expect)
    matches = wanted.pop("matches", None)
    if matches is None:
        return "expect.matches is missing"
    if len(seen) != matches:
        return f"fires {len(seen)} times, expected {matches}"
    if wanted and not seen:
        return "expects fields of a match, and none is expected"
    for key, value in wanted.items():
        got = seen[0].locus.get(key, seen[0].fields.get(key))
        if got != str(value):
            return f"{key} is {got!r}, expected {str(value)!r}"
    return ""


def _observation(rule: Rule, example: Example, line: str, number: int) -> Observation:
    return Observation(source=example.source or rule.match.sources[0], body=line, ref=f"example:{number}")
