"""Making the record of an attempt: everything is read from one state of the database and written as it is read."""

import getpass
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from recovery.ledger import checkpoints
from recovery.ledger import entries as ledger
from recovery.ledger import export as ledger_export
from recovery.ledger import keys as ledger_keys
from recovery.ledger.entries import Actor
from recovery.models import LedgerCheckpoint, LedgerEntry
from recovery.record import bag, beside, page, rows
from recovery.record.mark import BASE
from recovery.record.read import About, Missing, VerdictOf
from recovery.retention import of_record
from recovery.words import EntryKind
from rules.attempt import CollectorReport
from verdicts.evidence import effective_reports, given_attempt, given_observation
from verdicts.models import Attempt, Observation, RulesetVersion, Verdict
from verdicts.rulebook import ruleset_text
from verdicts.verdict_page.presentation import seen_whole

AT_ONCE = 2000
#: That somebody read or took away a record is no part of it: or no two records of one state would be alike.
_READING = [EntryKind.EXPORTED.value, EntryKind.EVIDENCE_READ.value]
#: Held in memory until it is larger.
_SPOOL = 4 << 20


class NotMade(Exception):
    """A record that could not be made; the message says why."""


def make(attempt_id: UUID, actor: Actor, *, via: str) -> BinaryIO:
    """Make the record of an attempt, which is an entry of the ledger; the file is gone when it is closed.

    Raises Attempt.DoesNotExist and NotMade.
    """
    announce(attempt_id, actor, via=via)
    out = tempfile.SpooledTemporaryFile(_SPOOL)  # noqa: SIM115 - handed over
    try:
        write(attempt_id, out)  # type: ignore[arg-type]
    except zipfile.LargeZipFile as error:
        out.close()
        raise NotMade("the record would be larger than two gigabytes") from error
    except BaseException:
        out.close()
        raise
    return out  # type: ignore[return-value]


def announce(attempt_id: UUID, actor: Actor, *, via: str, **more: Any) -> None:
    """Write into the ledger that a record is made, and have a checkpoint cover what the ledger says of the attempt.

    Raises Attempt.DoesNotExist and NotMade.
    """
    _signer()
    with transaction.atomic():
        attempt = Attempt.objects.only("id").get(pk=attempt_id)
        body = {"what": "record", "via": via, **more}
        ledger.record(EntryKind.EXPORTED, actor=actor, subject=attempt, attempt=attempt.pk, body=body)
    _cover(attempt_id)


def by_command() -> Actor:
    """Who makes a record with the command: an account of the machine, not a person of the site."""
    return Actor.system(f"command-line {getpass.getuser()}")


def name_of(attempt_id: UUID) -> str:
    """The name of a record's file."""
    return f"{BASE}{attempt_id}.zip"


def write(attempt_id: UUID, out: BinaryIO, *, at: datetime | None = None, share: Path | None = None) -> None:
    """Write the record of an attempt; with `share` its rulesets into that folder, where they lie once for many records.

    Raises Attempt.DoesNotExist and NotMade.
    """
    at = at or timezone.now()
    sign = _signer()
    with _one_state():
        attempt = Attempt.objects.select_related("cluster", "workload").get(pk=attempt_id)
        info = (
            ("Bagging-Date", f"{at:%Y-%m-%d}"),
            ("Bag-Software-Agent", "Inquest"),
            ("External-Identifier", str(attempt.pk)),
            ("Inquest-Schema", bag.SCHEMA if share is None else bag.SHARED),
            *of_record.tags(attempt, at),
        )
        with bag.BagWriter(out, str(attempt.pk), shares=share is not None) as writer:
            told = _Told(attempt, writer, share)
            told.payload()
            writer.close(info, page.page(told.shown, dict(info)), sign)


def own_key() -> str:
    """The public key that this process signs with, as hex. Raises NotMade."""
    return _signer()(b"")[0]


def _signer() -> bag.Sign:
    """Signs with the ledger's key. Raises NotMade where there is none that can be used."""
    try:
        key = ledger_keys.key_from(Path(settings.INQUEST_LEDGER_KEY_FILE))
    except ledger_keys.KeyFileError as error:
        raise NotMade(f"the record cannot be signed: {error}") from error
    signed = LedgerCheckpoint.objects.order_by()
    if signed.exists() and not signed.filter(public_key=ledger_keys.public_hex(key)).exists():
        # Or the record would look as if somebody had signed it again.
        raise NotMade(
            f"{settings.INQUEST_LEDGER_KEY_FILE} has not signed the ledger yet: give this process the key that the"
            " workers have (INQUEST_LEDGER_KEY_FILE), or wait for the first checkpoint with a new one"
        )
    return lambda said: (ledger_keys.public_hex(key), ledger_keys.sign(key, said))


@contextmanager
def _one_state() -> Iterator[None]:
    """Everything that is read inside is of one moment; within another transaction, of that one's."""
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


class _Told:
    """Writes the payload, and keeps of it what the page shows."""

    def __init__(self, attempt: Attempt, writer: bag.BagWriter, share: Path | None) -> None:
        self._attempt, self._writer, self._share = attempt, writer, share
        self._missing: list[Missing] = []
        self.shown: dict[str, Any] = {"attempt": attempt, "ledger": []}

    def payload(self) -> None:
        """Write every file of the payload, in a fixed order."""
        attempt = self._attempt
        about = About(
            attempt=str(attempt.pk),
            generation=attempt.generation,
            cluster=attempt.cluster.name,
            job_id=attempt.job_id,
            created_at=ledger.spelled(attempt.created_at),
        )
        self._json("about.json", about)
        self._json("attempt.json", given_attempt(attempt))
        reports = effective_reports(attempt)
        self._json("reports.json", reports)
        given = attempt.reports.order_by("source", "collector").values("source", "collector", "body", "received_at")
        self._lines("collector_reports.jsonl", map(msgspec.to_builtins, given))
        self._observations()
        self._verdicts()
        self._recovery()
        self._ledger()
        self._json("missing.json", self._without(reports))
        self.shown["tombstones"] = list(of_record.tombstones(attempt))
        self._lines("expired.jsonl", iter(self.shown["tombstones"]))

    # --- Files ------------------------------------------------------------------------------------

    def _json(self, name: str, value: Any) -> None:
        self._writer.add(name, [msgspec.json.encode(value, order="sorted")])

    def _lines(self, name: str, told: Iterator[Any]) -> None:
        self._writer.add(name, map(rows.line, told))

    def _observations(self) -> None:
        """A file for each source; `observed_timestamp`, which the engine is not given, is a line's own."""
        found = self._attempt.observations.order_by()
        for source in sorted(found.values_list("source", flat=True).distinct()):
            of_source = found.filter(source=source).order_by("digest")
            self._writer.add(f"observations/{source}.jsonl", map(_observation, of_source.iterator(AT_ONCE)))

    def _verdicts(self) -> None:
        """Every version byte for byte, and the text of each ruleset that one was made with."""
        newest = self._attempt.verdicts.select_related("ruleset").order_by("-number").first()
        told: list[VerdictOf] = []
        used: dict[str, RulesetVersion] = {}
        for verdict in self._attempt.verdicts.select_related("ruleset").order_by("number").defer("body").iterator(20):
            self._writer.add(f"verdicts/{verdict.number:04}.json", [verdict.body_json.encode()])
            used[verdict.ruleset.digest] = verdict.ruleset
            told.append(_verdict_of(verdict, of_record.left_sha256(self._attempt, verdict)))
        self._json("verdicts.json", told)
        for digest in sorted(used):
            text = ruleset_text.kept(used[digest])
            if text is None:
                said = "its text was not kept: it was used before texts were"
                self._missing.append(Missing(input=f"ruleset:{digest}", said=said))
                continue
            name = f"{beside.FOLDER}/{digest}.jsonl"
            if self._share is None:
                self._writer.add(name, [text])
            else:
                beside.put(self._share, name, text)
                self._writer.beside(name, text)
        if newest is None:
            self._missing.append(Missing(input="verdict", said="the attempt has no verdict"))
        elif newest.generation < self._attempt.generation:
            said = f"evidence came after verdict {newest.number}, or was looked at again without another conclusion"
            self._missing.append(Missing(input="verdict", said=said))
        self.shown |= {"verdict": newest, "versions": told}

    def _recovery(self) -> None:
        for name, found in rows.tables(self._attempt.pk):
            self._lines(f"{name}.jsonl", rows.plain(found))
            self.shown[name] = list(rows.plain(found[: page.MOST_ROWS]))

    def _ledger(self) -> None:
        """The entries about the attempt, in pieces: each goes from an entry to the checkpoint that covers it."""
        wanted = entries_about(self._attempt.pk)
        for first, last in _pieces(wanted):
            self._writer.add(f"ledger/{first:012}.ndjson", ledger_export.lines(first, last, wanted))
        shown = wanted.select_related("link").order_by("link__number")[: page.MOST_ROWS]
        self.shown["ledger"] = list(shown)

    def _without(self, reports: list[CollectorReport]) -> list[Missing]:
        """What is not there, or not whole."""
        for report in reports:
            if not seen_whole(msgspec.to_builtins(report)):
                said = f"{report.status}: {report.reason}" if report.reason else str(report.status)
                self._missing.append(Missing(input=f"source:{report.source}", said=said))
        covered = {report.source.value for report in reports}
        verdict = self.shown["verdict"]
        for cell in verdict.body.get("coverage", []) if verdict else []:
            if cell["source"] not in covered and not seen_whole(cell):
                said = cell.get("reason") or cell["status"]
                self._missing.append(Missing(input=f"source:{cell['source']}", said=said))
        self._missing += of_record.missing(self._attempt)
        self.shown["missing"] = self._missing
        return self._missing


def _observation(row: Observation) -> bytes:
    given = given_observation(row)
    return rows.line(msgspec.to_builtins(msgspec.structs.replace(given, observed_timestamp=row.observed_timestamp)))


def _verdict_of(verdict: Verdict, left: str) -> VerdictOf:
    return VerdictOf(
        id=str(verdict.pk),
        number=verdict.number,
        sha256=verdict.body_sha256,
        current=verdict.is_current,
        mode=verdict.mode,
        engine=verdict.engine,
        generation=verdict.generation,
        ruleset=verdict.ruleset.digest,
        layers=list(verdict.ruleset.layers),
        created_at=ledger.spelled(verdict.created_at),
        left_sha256=left,
    )


# --- The ledger -----------------------------------------------------------------------------------


def entries_about(attempt_id: UUID) -> QuerySet[LedgerEntry]:
    """The entries about an attempt, its verdicts and what was proposed, decided and done; not who read them."""
    proposals = {str(pk) for pk in _ids("proposals", attempt_id)}
    incidents = {str(pk) for pk in _ids("incidents", attempt_id)}
    about = (
        Q(attempt=attempt_id)
        | Q(subject_kind="proposal", subject__in=proposals)
        | Q(subject_kind="incident", subject__in=incidents)
    )
    return LedgerEntry.objects.filter(about).exclude(kind__in=_READING)


def _ids(table: str, attempt_id: UUID) -> list[Any]:
    found = next(rows_of for name, rows_of in rows.tables(attempt_id) if name == table)
    return [row["id"] for row in found]


def _pieces(wanted: QuerySet[LedgerEntry]) -> Iterator[tuple[int, int]]:
    """From each entry to the first checkpoint that covers it; to the last entry where there is none yet.

    One piece from the first to the last would have the places of all entries between: months of a site's ledger.
    """
    numbers = list(wanted.filter(link__isnull=False).order_by("link__number").values_list("link__number", flat=True))
    done = 0
    for number in numbers:
        if number <= done:
            continue
        cover = LedgerCheckpoint.objects.filter(number__gte=number).order_by("number", "made_at").first()
        done = cover.number if cover else numbers[-1]
        yield number, done


def _cover(attempt_id: UUID) -> None:
    """Have a checkpoint made where something about the attempt came after the last one."""
    last = entries_about(attempt_id).order_by("-link__number").filter(link__isnull=False).values_list("link__number")
    number = last.values_list("link__number", flat=True).first()
    if number and not LedgerCheckpoint.objects.filter(number__gte=number).exists():
        # What fails is logged and told by the ledger itself; the record says that it is not covered.
        checkpoints.attempt()
