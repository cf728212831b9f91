"""A record's verdict concluded again, from the record alone and with its own rules. Pure: no database, no network."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from recovery.record.container import BadRecord
from recovery.record.read import Record, VerdictOf
from rules.attempt import Attempt, CollectorReport
from rules.engine import attribute
from rules.observation import Observation
from rules.rule import RuleError
from rules.ruleset import Ruleset, RulesetFile, ruleset_from
from rules.verdict import ENGINE, Verdict, canonical_json
from verdicts.verdict_page.compare import differences


class Expired(BadRecord):
    """The record is right, and what its verdict was made from had expired when it was made."""


@dataclass(frozen=True)
class Again:
    """What came of it. `why` says what can have made a difference where the bytes are not `same`."""

    told: VerdictOf
    verdict: Verdict
    raw: bytes
    same: bool
    why: tuple[str, ...]


def conclude(record: Record, number: int | None = None) -> Again:
    """Conclude a verdict of a record again: the current one, or that of a number. Raises Expired, BadRecord."""
    told = _chosen(record, number)
    for one in record.report.missing:
        if one.input in ("expired:lines", "expired:quotes"):
            raise Expired(f"verdict {told.number} cannot be concluded again: what it was made from {one.said}")
    verdict = _attribute(record, _ruleset(record, told), told.mode)
    raw = canonical_json(verdict)
    same = raw == record.body(told)
    return Again(told=told, verdict=verdict, raw=raw, same=same, why=() if same else tuple(_reasons(record, told)))


def otherwise(record: Record, again: Again, rules: Ruleset) -> list[str]:
    """What other rules conclude otherwise from the same evidence, in sentences; empty where nothing."""
    if rules.digest == again.told.ruleset:
        return []
    other = canonical_json(_attribute(record, rules, again.told.mode))
    return differences(msgspec.json.decode(again.raw), msgspec.json.decode(other))


def ruleset_text_of(record: Record, digest: str) -> tuple[RulesetFile, ...] | None:
    """The files of a ruleset that the record has; None where it has them not."""
    name = f"rulesets/{digest}.jsonl"
    return tuple(record.rows(name, RulesetFile)) if record.has(name) else None


def observations(record: Record) -> Iterator[Observation]:
    """All observations with when each was read, one at a time."""
    for name in record.names("observations"):
        yield from record.rows(name, Observation)


def _chosen(record: Record, number: int | None) -> VerdictOf:
    if not record.verdicts:
        raise BadRecord("the record has no verdict")
    if number is None:
        return next((one for one in record.verdicts if one.current), record.verdicts[-1])
    if not 1 <= number <= len(record.verdicts):
        raise BadRecord(f"the record has verdicts 1 to {len(record.verdicts)}")
    return record.verdicts[number - 1]


def _ruleset(record: Record, told: VerdictOf) -> Ruleset:
    files = ruleset_text_of(record, told.ruleset)
    if files is None:
        raise BadRecord(f"the rules of verdict {told.number} are not in the record: their text was not kept")
    try:
        ruleset = ruleset_from(files, told.layers)
    except RuleError as error:
        raise BadRecord(f"the record's rules cannot be used by this version of Inquest: {error}") from error
    if ruleset.digest != told.ruleset:
        raise BadRecord(f"the record's rules are not those of verdict {told.number}")
    return ruleset


def _attribute(record: Record, ruleset: Ruleset, mode: str) -> Verdict:
    # The engine is not given when a line was read: see `verdicts.evidence`.
    found = (msgspec.structs.replace(one, observed_timestamp=None) for one in observations(record))
    attempt, reports = record.read("attempt.json", Attempt), record.read("reports.json", list[CollectorReport])
    return attribute(attempt, found, reports, ruleset, mode=mode)


def _reasons(record: Record, told: VerdictOf) -> Iterator[str]:
    if told.engine != ENGINE:
        yield f"it was concluded by engine {told.engine}, this is engine {ENGINE}"
    if told.generation != record.about.generation:
        yield "evidence came after it was concluded: the record has that too"
    if not told.current:
        yield "it was superseded: the evidence is that of the current verdict"
