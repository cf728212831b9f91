"""Harmless chatter of every source: no line of it may look like something that can be blamed."""

from pathlib import Path

import pytest

from rules import extract
from rules.collect import collect
from rules.engine import attribute
from rules.incident import open_incident
from rules.observation import Observation
from rules.words import Domain, Source
from tests.rules.builders import shipped

LOGS = sorted((Path(__file__).parent / "healthy").glob("*.log"))


def test_the_corpus_is_there() -> None:
    assert sum(len(log.read_text().splitlines()) for log in LOGS) >= 400


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_no_rule_that_can_be_blamed_fires(log: Path) -> None:
    blamed = [
        f"{sighting.rule.id} on line {number}: {line}"
        for number, line in enumerate(log.read_text().splitlines(), 1)
        for sighting in extract.sightings(
            shipped(), Observation(source=Source.APPLOG, body=line, ref=f"{log.name}:{number}")
        )
        if sighting.rule.blamable
    ]
    assert not blamed


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_the_verdict_names_no_culprit(log: Path) -> None:
    incident = open_incident([log])
    found = collect(incident, shipped())
    verdict = attribute(incident.attempt, found.observations, found.reports, shipped())
    assert verdict.attributed_domain in (Domain.NO_FAILURE, Domain.UNATTRIBUTED)
