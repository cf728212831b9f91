"""Loading a record of another site: the only writer of imported attempts.

What the other site concluded is kept byte for byte. What it proposed, decided and said is kept beside it and counts for
nothing here; its ledger stays in the record, where its own proof is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import msgspec
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models.functions import Now

from recovery.ledger import entries as ledger
from recovery.ledger import keys as ledger_keys
from recovery.ledger.entries import Actor
from recovery.record import again, beside, extend
from recovery.record.container import BadRecord
from recovery.record.read import Record, VerdictOf, open_record
from recovery.retention import of_record
from recovery.words import EntryKind
from rules.attempt import Attempt as GivenAttempt
from rules.attempt import CollectorReport as GivenReport
from rules.attempt import InputError
from rules.engine import ATTEMPT_REF
from rules.rule import RuleError
from rules.ruleset import Ruleset, ruleset_from
from rules.verdict import Verdict as EngineVerdict
from verdicts import limits
from verdicts.choices import Origin
from verdicts.models import Attempt, ImportedRecord, RulesetVersion
from verdicts.record import add_observations, record_attempt, record_reports
from verdicts.redaction import clean_text
from verdicts.rulebook import ruleset_text
from verdicts.storable import storable
from verdicts.verdict_rows import write_verdict

#: What is kept to be shown, and how many rows of each at most; the record itself has all.
TOLD = ("proposals", "decisions", "actions", "milestones", "exclusions", "labels", "reviews", "comments")
MOST_TOLD = 200
#: The advisory lock: one import at a time, so that the same record twice is told, not an error.
_LOCK = (715025, 2)


@dataclass(frozen=True)
class Loaded:
    """What became of it. `new` is false where a record of the attempt had been imported, `extended` says that this one
    went on from there. `observations` and `verdicts` are those that were stored now.
    """

    attempt: UUID
    new: bool
    observations: int
    verdicts: int
    extended: bool = False


class _Report(msgspec.Struct, frozen=True):
    body: GivenReport


def known_keys() -> frozenset[str]:
    """Who may have signed a record: this site, and whom INQUEST_RECORD_KEYS_FILE names. Raises KeyFileError."""
    own = ledger_keys.public_hex(ledger_keys.key_from(Path(settings.INQUEST_LEDGER_KEY_FILE)))
    if not settings.INQUEST_RECORD_KEYS_FILE:
        return frozenset({own})
    try:
        text = Path(settings.INQUEST_RECORD_KEYS_FILE).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ledger_keys.KeyFileError(f"{settings.INQUEST_RECORD_KEYS_FILE} cannot be read: {error}") from error
    return ledger_keys.public_keys(text) | {own}


def load(
    file: BinaryIO, keys: frozenset[str], *, actor: Actor, by: User | None = None, near: beside.Finder = beside.nowhere
) -> Loaded:
    """Verify a record and store it as an imported attempt, once; a newer one goes on where it ended.

    `keys` are those that may have signed it. Rulesets that it shares with others are taken from `near`, else from here.

    Raises BadRecord where it does not verify, and InputError where it cannot be stored here.
    """
    record = open_record(file, keys, lambda name: near(name) or _kept_here(name))
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", _LOCK)
        known = ImportedRecord.objects.filter(origin=record.report.attempt).select_related("attempt").first()
        if known is None:
            return _store(record, actor, by)
        if known.payload == record.report.payload:
            return Loaded(known.attempt_id, new=False, observations=0, verdicts=0)
        return _extend(record, known, actor, by)


def _kept_here(name: str) -> bytes | None:
    """The text of a ruleset that verdicts of this site were made with, by its name beside a record."""
    version = RulesetVersion.objects.filter(digest=Path(name).stem).first()
    return ruleset_text.kept(version) if version is not None else None


def said(loaded: Loaded) -> str:
    """What became of it, in a sentence."""
    lines = f"{loaded.observations:,} line{'s'[: loaded.observations != 1]}"
    verdicts = f"{loaded.verdicts} verdict{'s'[: loaded.verdicts != 1]}"
    if loaded.new:
        return f"Imported: {verdicts}, {lines} of evidence."
    if loaded.extended:
        return f"A newer record of what is here: {verdicts} and {lines} of evidence came to it."
    return "This record is here already: nothing was changed."


def _store(record: Record, actor: Actor, by: User | None) -> Loaded:
    attempt, created = record_attempt(record.read("attempt.json", GivenAttempt), origin=Origin.IMPORTED)
    if not created or Attempt.objects.filter(pk=record.report.attempt).exists():
        raise InputError(
            f"this site has job {attempt.job_id} of {attempt.cluster} itself: an import would mix two accounts of it"
        )
    stored = _observations(record, attempt)
    _rest(record, attempt, record.verdicts)
    imported = ImportedRecord.objects.create(attempt=attempt, origin=record.report.attempt, **_told_of(record, by))
    of_record.take_over(record, attempt)
    _enter(record, imported, actor)
    return Loaded(attempt.pk, new=True, observations=stored, verdicts=len(record.verdicts))


def _extend(record: Record, known: ImportedRecord, actor: Actor, by: User | None) -> Loaded:
    """Store what a newer record of an imported attempt has more. Raises InputError with what contradicts."""
    attempt = known.attempt
    extend.require_kept(attempt)
    extend.require_newer(record, known, told={name: list(_told(record, name)) for name in TOLD})
    added = extend.require_history(record, attempt)
    given = record.read("attempt.json", GivenAttempt)
    extend.require_same_attempt(given, attempt)
    same, created = record_attempt(given, origin=Origin.IMPORTED)
    if created or same.pk != attempt.pk:
        raise InputError("it is of another job than the record of this attempt that is here")
    stored = _observations(record, attempt)
    extend.require_evidence(again.observations(record), attempt)
    _rest(record, attempt, added)
    before = known.payload
    for name, value in _told_of(record, by).items():
        setattr(known, name, value)
    known.imported_at = Now()
    known.save()
    _enter(record, known, actor, before=before)
    return Loaded(attempt.pk, new=False, observations=stored, verdicts=len(added), extended=True)


def _rest(record: Record, attempt: Attempt, verdicts: Iterable[VerdictOf]) -> None:
    """What is stored when the evidence is there."""
    reports = [row.body for row in record.rows("collector_reports.jsonl", _Report)]
    record_reports(attempt.pk, [one for one in reports if one.files != [ATTEMPT_REF]])
    attempt.refresh_from_db()
    for told in verdicts:
        _verdict(record, attempt, told)


def _told_of(record: Record, by: User | None) -> dict[str, Any]:
    """What is kept of the record itself."""
    info = record.report.info
    return {
        "payload": record.report.payload,
        "public_key": record.report.public_key,
        "made_on": extend.day_of(info.get("Bagging-Date")),
        "expires_on": extend.day_of(info["Inquest-Expires"]) if "Inquest-Expires" in info else None,
        "told": {name: list(_told(record, name)) for name in TOLD},
        "imported_by": by,
    }


def _enter(record: Record, imported: ImportedRecord, actor: Actor, **more: Any) -> None:
    ledger.record(
        EntryKind.IMPORTED,
        actor=actor,
        subject=imported,
        attempt=imported.attempt_id,
        body={
            "origin": record.report.attempt,
            "payload": record.report.payload,
            "public_key": record.report.public_key,
            "verdicts": [told.sha256 for told in record.verdicts],
            **more,
        },
    )


def _observations(record: Record, attempt: Attempt) -> int:
    """Store the evidence, in batches; more than this site keeps is refused, not cut: it would be another attempt."""
    count: Counter[str] = Counter()
    found = again.observations(record)
    while batch := list(islice(found, limits.MAX_BATCH)):
        delivery = add_observations(attempt.pk, batch)
        if delivery.cut:
            raise InputError("the record has more observations of one source than this site keeps")
        count["stored"] += 0 if delivery.replayed else delivery.stored
    return count["stored"]


def _verdict(record: Record, attempt: Attempt, told: VerdictOf) -> None:
    """Store one version byte for byte, with the text of its rules."""
    raw = record.body(told)
    try:
        body = msgspec.json.decode(raw, type=EngineVerdict)
    except msgspec.DecodeError as error:
        raise BadRecord(f"verdict {told.number} cannot be read: {error}") from error
    if body.ruleset.digest != told.ruleset:
        raise BadRecord(f"verdict {told.number} was made with other rules than is told of it")
    ruleset = _ruleset(record, told)
    version, _ = RulesetVersion.objects.get_or_create(
        digest=told.ruleset, defaults={"rules": body.ruleset.rules, "layers": told.layers}
    )
    ruleset_text.keep(version, ruleset)
    attempt.verdicts.current().update(is_current=False, superseded_at=Now())
    write_verdict(attempt, raw, number=told.number, ruleset=ruleset, generation=attempt.generation)


def _ruleset(record: Record, told: VerdictOf) -> Ruleset:
    files = again.ruleset_text_of(record, told.ruleset)
    if files is None:
        return Ruleset(rules=(), digest=told.ruleset, layers=tuple(told.layers))
    try:
        ruleset = ruleset_from(files, told.layers)
    except RuleError as error:
        raise BadRecord(f"the rules of verdict {told.number} cannot be read: {error}") from error
    if ruleset.digest != told.ruleset:
        raise BadRecord(f"the record's rules are not those of verdict {told.number}")
    return ruleset


def _told(record: Record, name: str) -> Iterator[Any]:
    """Rows of the other site as they are kept: without secrets by this site's own patterns."""
    for row in islice(record.rows(f"{name}.jsonl", dict[str, Any]), MOST_TOLD):
        yield storable({key: _clean(key, value) for key, value in row.items()})


def _clean(key: str, value: Any) -> Any:
    if key.endswith("at"):
        return str(value or "")
    return clean_text(value) if isinstance(value, str) else value
