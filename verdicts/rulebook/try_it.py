"""A pasted log tried against the rules in force: which match, and what the verdict would be. Nothing is stored."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rules import extract
from rules.attempt import Attempt, InputError
from rules.collect import read_file
from rules.engine import attribute
from rules.incident import EvidenceFile
from rules.looks import guess
from rules.observation import Observation
from rules.rule import Rule
from rules.ruleset import Ruleset
from rules.words import Source

MOST_CHARACTERS = 256 * 1024
#: Reading ends here, and says so. Matching is linear in the text, so that this is only met on a starved machine.
SECONDS = 5.0
MOST_MATCHES = 200
JOB = "tried"
FILE = "pasted.log"


@dataclass(frozen=True)
class Match:
    """One rule on one line."""

    ref: str
    text: str
    rule: Rule
    locus: dict[str, str]
    fields: dict[str, str]


@dataclass(frozen=True)
class Tried:
    """What became of a text."""

    source: Source
    why: str
    read: int
    kept: int
    status: str
    reason: str
    matches: list[Match]
    more: int
    #: The verdict as it would be stored, as plain data.
    verdict: dict[str, Any]


def try_text(
    text: str,
    ruleset: Ruleset,
    *,
    source: Source | None = None,
    node: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Tried:
    """Try a text. Raises InputError where there is nothing to try, or too much."""
    checked(text)
    end = clock() + SECONDS
    with tempfile.TemporaryDirectory(prefix="inquest-try-") as folder:
        path = Path(folder, FILE)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        guessed, why = (source, "as given") if source else guess(path)
        file = EvidenceFile(path, FILE, guessed, node, None, why)
        observations, report = read_file(
            file, ruleset, collector="pasted", stop=lambda _: "it took too long" if clock() > end else ""
        )
    matches = _matches(ruleset, observations)
    verdict = attribute(Attempt(job_id=JOB, nodes=[node] if node else []), observations, [report], ruleset)
    return Tried(
        source=guessed,
        why=why,
        read=report.read,
        kept=report.kept,
        status=report.status.value,
        reason=report.reason,
        matches=matches[:MOST_MATCHES],
        more=max(len(matches) - MOST_MATCHES, 0),
        verdict=msgspec.to_builtins(verdict),
    )


def checked(text: str) -> None:
    """Raise InputError where there is nothing to try, or too much."""
    if not text.strip():
        raise InputError("text: paste some lines")
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"text: {len(text):,} characters; at most {MOST_CHARACTERS:,} are tried at once")


def _matches(ruleset: Ruleset, observations: list[Observation]) -> list[Match]:
    found = [
        Match(observation.ref, observation.body, sighting.rule, sighting.locus, sighting.fields)
        for observation in observations
        for sighting in extract.sightings(ruleset, observation)
    ]
    return sorted(found, key=lambda match: (_line(match.ref), match.rule.id))


def _line(ref: str) -> int:
    number = ref.rpartition(":")[2]
    return int(number) if number.isdigit() else 0
