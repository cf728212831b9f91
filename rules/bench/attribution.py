"""Scoring verdicts on labelled incidents, beside three baselines that each blame one line.

A baseline takes the domain that the catalogue's own rules give its line, whatever the rule's role, so it has the
same knowledge of messages and only lacks the engine: order with clock bounds, explanation, doubt.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rules import extract, fingerprint, read
from rules.attempt import InputError
from rules.collect import collect
from rules.engine import attribute
from rules.incident import EvidenceFile, Incident, open_incident
from rules.observation import Observation
from rules.ruleset import Ruleset
from rules.words import Domain, Role

LABELS = ("label.json", "case.json")
ADMITTED = frozenset({str(Domain.AMBIGUOUS), str(Domain.UNATTRIBUTED)})
KINDS = ("right", "admitted", "wrong", "overclaimed")
_EXCEPTION = re.compile(r"\b\w+(?:Error|Exception)\b|Traceback|\berror\b", re.IGNORECASE)


@dataclass(frozen=True)
class Label:
    """What was concluded about an incident, by people."""

    domain: str
    accept: frozenset[str]
    nodes: frozenset[str]
    can: str


@dataclass(frozen=True)
class Answer:
    """What a contestant says."""

    domain: str
    nodes: frozenset[str] = frozenset()
    strong: bool = False


@dataclass
class Scores:
    """Per contestant how many answers were of each kind, and the answers that were not right."""

    cases: int = 0
    tally: dict[str, Counter[str]] = field(default_factory=dict)
    missed: list[tuple[str, str, str, str]] = field(default_factory=list)


def read_label(folder: Path) -> Label | None:
    """The label of a folder, None where it has none."""
    path = next((folder / name for name in LABELS if (folder / name).is_file()), None)
    if path is None:
        return None
    raw = json.loads(path.read_text(encoding="utf-8"))
    domain = _domain(raw.get("domain") or raw["domain_label"])
    also = raw.get("also_acceptable", raw.get("acceptable_domains")) or []
    nodes = raw.get("nodes", raw.get("expected_nodes")) or []
    return Label(
        domain=domain,
        accept=frozenset({domain, *map(_domain, also)}),
        nodes=frozenset(re.split(r"[ (]", node)[0] for node in nodes),
        can=raw["determinable_from_files"],
    )


def _domain(word: str) -> str:
    return "no_failure" if word == "none" else word


def judge(label: Label, answer: Answer) -> str:
    """Right, admitted, wrong or overclaimed: the same judgement for every contestant."""
    if answer.domain in ADMITTED:
        return "right" if "unknown" in label.accept or label.can == "no" else "admitted"
    if answer.domain in label.accept:
        if label.nodes and answer.nodes and not answer.nodes & label.nodes:
            return "wrong"
        return "overclaimed" if label.can == "no" and answer.strong else "right"
    return "overclaimed" if label.domain == "unknown" else "wrong"


@dataclass(frozen=True)
class _Line:
    """A line that looks like an error or that a rule knows, with the domain that rules give it."""

    domain: str
    node: str
    micros: int | None
    key: str
    count: int
    order: tuple[str, int]
    exception: bool


def _lines(observations: list[Observation], ruleset: Ruleset) -> list[_Line]:
    found = []
    for observation in observations:
        sightings = [
            s
            for s in extract.sightings(ruleset, observation)
            if s.rule.role not in (Role.NOISE, Role.PROGRESS, Role.STATE)
        ]
        record = read.parse(observation.body)
        stamp = next((s.stamp for s in sightings if s.stamp), record.stamp)
        domain = next((str(s.rule.domain) for s in sightings if s.rule.domain), str(Domain.UNATTRIBUTED))
        name, _, number = observation.ref.rpartition(":")
        found.append(
            _Line(
                domain=domain,
                node=next((s.locus["node"] for s in sightings if "node" in s.locus), observation.node or record.host),
                micros=stamp.micros if stamp else None,
                key=sightings[0].rule.id if sightings else fingerprint.template(record.message),
                count=observation.count,
                order=(name, int(number) if number.isdigit() else 0),
                exception=bool(_EXCEPTION.search(record.message)),
            )
        )
    return found


def earliest(lines: list[_Line]) -> _Line | None:
    """The error with the earliest time; without any time the first line."""
    dated = [line for line in lines if line.micros is not None]
    return (
        min(dated, key=lambda line: (line.micros or 0, line.order))
        if dated
        else min(lines, key=lambda line: line.order, default=None)
    )


def last_exception(lines: list[_Line]) -> _Line | None:
    """The last line with an exception or an error in it."""
    exceptions = [line for line in lines if line.exception] or lines
    return max(exceptions, key=lambda line: (line.micros or 0, line.order), default=None)


def most_frequent(lines: list[_Line]) -> _Line | None:
    """The error that comes most often."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts[line.key] += line.count
    return max(lines, key=lambda line: (counts[line.key], [-ord(c) for c in line.key]), default=None)


BASELINES: dict[str, Callable[[list[_Line]], _Line | None]] = {
    "earliest error by time": earliest,
    "last exception": last_exception,
    "most frequent error": most_frequent,
}
OURS = "inquest explain"


def evidence_of(folder: Path) -> Incident:
    """The incident without its label. Raises InputError when nothing is left."""
    incident = open_incident([path for path in sorted(folder.iterdir()) if path.name not in LABELS])
    files: list[EvidenceFile] = [file for file in incident.files if file.path.name not in LABELS]
    return Incident(incident.attempt, files, incident.notes)


def score(cases: Path, ruleset: Ruleset) -> Scores:
    """Score every labelled folder under `cases`."""
    scores = Scores(tally={name: Counter() for name in (OURS, *BASELINES)})
    for folder in sorted(path for path in cases.iterdir() if path.is_dir()):
        label = read_label(folder)
        if label is None:
            continue
        try:
            incident = evidence_of(folder)
        except InputError:
            continue  # a label without evidence is no case
        scores.cases += 1
        for name, answer in answers(incident, ruleset).items():
            kind = judge(label, answer)
            scores.tally[name][kind] += 1
            if kind != "right":
                scores.missed.append(
                    (name, folder.name, kind, f"{answer.domain}, wanted {'/'.join(sorted(label.accept))}")
                )
    return scores


def answers(incident: Incident, ruleset: Ruleset) -> dict[str, Answer]:
    """What each contestant says of an incident."""
    collected = collect(incident, ruleset)
    verdict = attribute(incident.attempt, collected.observations, collected.reports, ruleset)
    out = {
        OURS: Answer(
            str(verdict.attributed_domain),
            frozenset(node.name for node in verdict.affected_nodes),
            str(verdict.strength) == "strong",
        )
    }
    lines = _lines(collected.observations, ruleset)
    for name, choose in BASELINES.items():
        line = choose(lines)
        if line is None:
            out[name] = Answer(str(Domain.NO_FAILURE))
        else:
            out[name] = Answer(line.domain, frozenset({line.node} - {""}), strong=True)
    return out


def as_json(scores: Scores) -> dict[str, Any]:
    """The scores as plain data."""
    return {
        "cases": scores.cases,
        "scores": {name: {kind: tally[kind] for kind in KINDS} for name, tally in scores.tally.items()},
        "missed": [dict(zip(("by", "case", "kind", "got"), row, strict=True)) for row in scores.missed],
    }


def as_text(scores: Scores, listed: bool) -> str:
    """The scores for a terminal."""
    out = [f"{scores.cases} incidents", f"  {'':26} {'right':>7} {'admitted':>9} {'wrong':>7} {'overclaimed':>12}"]
    for name, tally in scores.tally.items():
        out.append(f"  {name:26} {tally['right']:7} {tally['admitted']:9} {tally['wrong']:7} {tally['overclaimed']:12}")
    bad = {name: tally["wrong"] + tally["overclaimed"] for name, tally in scores.tally.items()}
    for name in BASELINES:
        factor = f"{bad[name] / bad[OURS]:.1f} times" if bad[OURS] else "none by us"
        out.append(f"  wrong culprits of {name!r}: {bad[name]}, against {bad[OURS]} ({factor})")
    if listed:
        out += [f"  {kind:12} {case}: {got}" for by, case, kind, got in scores.missed if by == OURS]
    return "\n".join(out)
