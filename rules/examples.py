"""Running the tests that stand inside rule files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rules import extract
from rules.observation import Observation
from rules.rule import Example, Rule, line_of, parse_rule
from rules.ruleset import DEFAULTS_FILE, SITE_FILE, Ruleset

_ALWAYS = ("matches",)


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
    return len(rule.test), failures


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
