"""Real incidents that somebody labelled, in a folder outside the repository: set INQUEST_CASES to it.

Each incident is a folder of evidence files and a `label.json` with `domain`, `also_acceptable`,
`determinable_from_files` (yes, partly, no) and `nodes`. Nothing may be blamed that the label does
not accept, and nothing claimed with certainty where the files do not carry it. The label is read
here and nowhere else; the evidence is copied to a folder whose name says nothing.
"""

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from rules.collect import collect
from rules.engine import attribute
from rules.incident import open_incident
from rules.verdict import Verdict
from rules.words import Domain, Strength
from tests.rules.builders import shipped

ROOT = os.environ.get("INQUEST_CASES", "")
CASES = sorted(path.parent for path in Path(ROOT).glob("*/label.json")) if ROOT else []
OPEN = (Domain.AMBIGUOUS, Domain.UNATTRIBUTED)

pytestmark = pytest.mark.skipif(not CASES, reason="INQUEST_CASES names no folder with labelled incidents")


@dataclass(frozen=True)
class Label:
    """What was concluded about an incident."""

    domain: str
    accepted: frozenset[str]
    nodes: frozenset[str]
    can_be_told: str


def read_label(case: Path) -> Label:
    """The label of one incident; `none` is the older word for `no_failure`."""
    raw = json.loads((case / "label.json").read_text())
    known = [raw["domain"], *(raw.get("also_acceptable") or [])]
    words = ["no_failure" if word == "none" else word for word in known]
    nodes = frozenset(re.split(r"[ (]", node)[0] for node in raw.get("nodes") or [])
    return Label(words[0], frozenset(words), nodes, raw["determinable_from_files"])


def explain(case: Path, folder: Path) -> Verdict:
    """The verdict on the evidence alone."""
    folder.mkdir()
    for path in case.iterdir():
        if path.name != "label.json":
            shutil.copy(path, folder / path.name)
    incident = open_incident([folder])
    collected = collect(incident, shipped())
    return attribute(incident.attempt, collected.observations, collected.reports, shipped())


def judge(label: Label, verdict: Verdict) -> str:
    """right, admitted, wrong or overclaimed."""
    domain = verdict.attributed_domain
    if domain in OPEN:
        return "right" if "unknown" in label.accepted or label.can_be_told == "no" else "admitted"
    if domain not in label.accepted:
        return "overclaimed" if label.domain == "unknown" else "wrong"
    named = {node.name for node in verdict.affected_nodes}
    if label.nodes and named and not named & label.nodes:
        return "wrong"
    return "overclaimed" if label.can_be_told == "no" and verdict.strength is Strength.STRONG else "right"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_wrong_is_claimed(case: Path, tmp_path: Path) -> None:
    label = read_label(case)
    verdict = explain(case, tmp_path / "incident")
    assert judge(label, verdict) in ("right", "admitted"), f"{verdict.attributed_domain}: {verdict.headline}"


def test_most_of_what_can_be_told_is_told(tmp_path: Path) -> None:
    told = [case for case in CASES if read_label(case).can_be_told == "yes"]
    right = [case.name for case in told if judge(read_label(case), explain(case, tmp_path / case.name)) == "right"]
    assert len(right) >= 0.8 * len(told), sorted({case.name for case in told} - set(right))
