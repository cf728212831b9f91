"""Carrying out a drill, check by check. Whatever comes, what it made up is removed and its report is written."""

import logging
import platform
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import django
from django.conf import settings
from django.db import connection
from django.utils import timezone

from recovery.drill import checks, clean, people, record, sample
from recovery.drill.fetch import Answer, NotAsked, Site
from recovery.drill.sample import Sample
from recovery.drill.seen import Seen, failed, not_checked, passed
from recovery.ledger import keys as ledger_keys
from recovery.ledger.entries import Actor
from recovery.models import Drill, LedgerCheckpoint, LedgerEntry
from recovery.record.export import by_command
from recovery.record.read import Record
from recovery.words import EntryKind
from rules.verdict import ENGINE
from verdicts import conclude
from verdicts.clusters import current_clusters
from verdicts.models import Attempt
from verdicts.redaction import current_redactor

log = logging.getLogger(__name__)

#: How a drill says that the command began it.
COMMAND = "command-line"


@dataclass(frozen=True)
class Where:
    """Where the site is asked: by the settings, or as who runs the command here says."""

    address: str
    token: str = ""
    keys: frozenset[str] = frozenset()

    @classmethod
    def by_settings(cls) -> "Where":
        """The site's own address."""
        return cls(str(settings.INQUEST_DRILL_URL or settings.INQUEST_PUBLIC_URL))


def carry_out(drill_id: UUID, *, where: Where | None = None) -> Drill | None:
    """Carry out a drill that was asked for; None where somebody else has begun it."""
    where = where or Where.by_settings()
    drill = record.take(drill_id, address=where.address, host=socket.gethostname())
    if drill is None:
        return None
    actor = _actor(drill)
    with ExitStack() as stack:
        one = _Drill(drill, where, actor, stack)
        try:
            one.all()
        except BaseException as error:
            # Somebody ended the command, or the worker's time is over.
            record.break_off(drill, actor, f"it was broken off: {type(error).__name__}", facts=one.found)
            raise
        finally:
            one.clean_up()
    return record.end(drill, actor, facts=one.found)


def _actor(drill: Drill) -> Actor:
    if drill.asked_by is not None:
        return Actor.user(drill.asked_by)
    return by_command() if drill.via == COMMAND else Actor.system("drill")


def site_keys() -> frozenset[str]:
    """The public keys of this site's ledger: of its key file, and those that signed its checkpoints."""
    known = set(LedgerCheckpoint.objects.order_by().values_list("public_key", flat=True).distinct())
    path = Path(settings.INQUEST_LEDGER_KEY_FILE)
    try:
        if path.exists():
            known.add(ledger_keys.public_hex(ledger_keys.key_from(path)))
    except ledger_keys.KeyFileError as error:
        log.warning("the ledger's key file cannot be used, the checkpoints' keys are: %s", error)
    return frozenset(known)


def versions() -> dict[str, Any]:
    """What took part, by version."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        postgres = str(cursor.fetchone()[0]).split()[0]
    return {
        "inquest": version("inquest"),
        "engine": ENGINE,
        "ruleset": conclude.current_ruleset().digest,
        "python": platform.python_version(),
        "django": django.get_version(),
        "postgresql": postgres,
    }


class _Drill:
    """One drill under way."""

    def __init__(self, drill: Drill, where: Where, actor: Actor, stack: ExitStack) -> None:
        self.drill, self.where, self.actor, self.stack = drill, where, actor, stack
        self.site = Site(where.address, settings.INQUEST_DRILL_CA_FILE)
        self.found: dict[str, Any] = {}
        self.sample: Sample | None = None
        self.attempt: UUID | None = drill.attempt
        self.answer: Answer | None = None
        self.record: Record | None = None
        self.without_record = "there is no record to look at: none was obtained"
        self.place = 0

    # --- The way through ----------------------------------------------------------------------------

    def all(self) -> None:
        """Every check in its order; each is carried out whatever came of those before."""
        before = self._made_up if self.drill.made_up else self._chosen
        self._look("made", "Is there an attempt with evidence and a verdict?", before)
        self._look("obtained", "Can who has the right get its record from elsewhere, before clean-up?", self._obtained)
        self._look("refused", "Is it refused to who has no token, a wrong one, or not the right?", self._refused)
        self._look("noted", "Does the ledger say who took the record?", self._noted)
        self._look("verifies", "Does the record verify, offline and with this site's keys alone?", self._verifies)
        self._look("missing", "Does the record list its missing inputs?", self._missing)
        self._look("in_time", "Did collection obey its time limits?", self._in_time)
        self._look("secrets", "Is no secret in the record?", self._secrets)
        self._look("again", "Is its verdict re-derived from the record alone, byte for byte?", self._again)
        if self.drill.made_up:
            self._look("counted", "Does the attempt count nowhere, and was nothing done about it?", self._counted)
            self._look("expires", "Does retention take its evidence away, and the rest still verify?", self._expires)
            self._look("removed", "Is nothing left of the attempt after clean-up?", self._removed)
        else:
            self._look("planned", "Is it known when its evidence is cleaned up?", self._planned)

    def _look(self, name: str, asked: str, check: Callable[[], Seen]) -> None:
        """Carry out one check. Whatever it cannot do is said, and is no pass."""
        self.place += 1
        at, began = timezone.now(), time.monotonic()
        try:
            seen = check()
        except NotAsked as error:
            seen = not_checked(str(error))
        except Exception as error:
            log.exception("check %s of drill %s could not be carried out", name, self.drill.pk)
            seen = not_checked(f"it broke off: {type(error).__name__}: {error}")
        seconds = time.monotonic() - began
        record.saw(self.drill, self.place, name, asked, seen, at=at, seconds=seconds)

    def clean_up(self) -> None:
        """Remove what was made up, if a check has not done so."""
        try:
            if self.drill.made_up:
                clean.remove_leftovers()
        except Exception:
            log.exception("what drill %s made up could not be removed", self.drill.pk)

    # --- The attempt ---------------------------------------------------------------------------------

    def _made_up(self) -> Seen:
        clean.remove_leftovers()
        try:
            self.sample = made = sample.make()
        except sample.NotMade as error:
            return not_checked(str(error))
        self.attempt = made.attempt
        facts = {
            "verdict_sha256": made.verdict.body_sha256,
            "secrets_planted": len(made.planted),
            "lines": made.lines,
        }
        self._begun(made.attempt, made.job_id, facts)
        return passed(
            f"{made.lines} lines were collected from {len(made.limits)} sources, one of which never answers;"
            f" verdict: {made.verdict.domain}",
            job_id=made.job_id,
            **facts,
        )

    def _chosen(self) -> Seen:
        assert self.attempt is not None
        attempt = Attempt.objects.get(pk=self.attempt)
        verdict = attempt.verdicts.current().only("body_sha256", "domain").first()
        self._begun(attempt.pk, attempt.job_id, {"verdict_sha256": verdict.body_sha256 if verdict else ""})
        if verdict is None:
            return failed("the attempt has no verdict", job_id=attempt.job_id)
        return passed(f"job {attempt.job_id}; verdict: {verdict.domain}", verdict_sha256=verdict.body_sha256)

    def _begun(self, attempt: UUID, job_id: str, facts: dict[str, Any]) -> None:
        record.begun(self.drill, self.actor, attempt=attempt, job_id=job_id, facts={**facts, **self._versions})

    @cached_property
    def _versions(self) -> dict[str, Any]:
        return versions()

    # --- Over the network ----------------------------------------------------------------------------

    @property
    def keys(self) -> frozenset[str]:
        """Who may have signed the record. Read when it is there: a new site's key is made with its first record."""
        return self.where.keys or site_keys()

    @cached_property
    def _tokens(self) -> people.Tokens:
        return self.stack.enter_context(people.tokens(self.where.token))

    @property
    def _path(self) -> str:
        if self.attempt is None:
            raise NotAsked("there is no attempt to ask for")
        return f"attempts/{self.attempt}/record"

    def _obtained(self) -> Seen:
        answer = self.stack.enter_context(self.site.get(self._path, self._tokens.authorised, method="POST"))
        facts = {"status": answer.status, "bytes": answer.size, "sha256": answer.sha256}
        if answer.status != 200 or not answer.is_zip:
            self.without_record = f"there is no record to look at: the site answered {answer.status}"
            return failed(f"the site answered {answer.status} {answer.kind}: {_said(answer)}", **facts)
        self.answer = answer
        self.found["record_sha256"] = answer.sha256
        who = self._tokens.name or "whose token was given"
        return passed(f"{who} got {answer.size:,} bytes in {answer.seconds:.1f} s, SHA-256 {answer.sha256}", **facts)

    def _refused(self) -> Seen:
        asked = {
            "without a token": ("", (401,)),
            "with a wrong token": (f"inq_{'0' * 64}", (401,)),
            "with the token of one who may only read": (self._tokens.outsider, (403,)),
        }
        told: dict[str, int] = {}
        wrong = []
        for who, (token, wanted) in asked.items():
            for method in ("GET", "POST"):
                with self.site.get(self._path, token, method=method) as answer:
                    told[f"{method} {who}"] = answer.status
                    if answer.is_zip or answer.status == 200:
                        wrong.append(f"{method} {who}: it was handed out")
                    elif answer.status not in wanted:
                        raise NotAsked(f"{method} {who}: the site answered {answer.status}: {_said(answer)}")
        if wrong:
            return failed("; ".join(wrong), answers=told)
        return passed("; ".join(f"{who}: {status}" for who, status in told.items()), answers=told)

    def _noted(self) -> Seen:
        if self.answer is None:
            return not_checked("nobody got the record")
        began = self.drill.started_at
        entries = LedgerEntry.objects.filter(kind=EntryKind.EXPORTED.value, attempt=self.attempt, at__gte=began)
        if self._tokens.name:
            entries = entries.filter(actor=f"user:{self._tokens.name}")
        told = list(entries.values_list("actor", flat=True))
        if not told:
            return failed("the record was taken away, and the ledger has no entry of it")
        if len(told) > 1:
            return failed("who was refused stands in the ledger as if they had taken it", entries=told)
        return passed(f"export.made by {told[0]}", actor=told[0])

    # --- The record ----------------------------------------------------------------------------------

    def _verifies(self) -> Seen:
        if self.answer is None:
            return not_checked(self.without_record)
        self.record, seen = checks.verified(self.answer.body, self.keys)
        if self.record is None:
            self.without_record = "there is no record to look at: it does not verify"
        else:
            self.found |= {"record_payload": self.record.report.payload, "signed_by": self.record.report.public_key}
        return seen

    def _missing(self) -> Seen:
        if self.record is None:
            return not_checked(self.without_record)
        return checks.missing(self.record, sample.MUST_BE_MISSING if self.sample else ())

    def _in_time(self) -> Seen:
        if self.record is None:
            return not_checked(self.without_record)
        return checks.in_time(self.record, self.sample.limits if self.sample else self._limits())

    def _limits(self) -> dict[str, float]:
        """The limits of the sources of a chosen attempt's cluster."""
        assert self.attempt is not None
        name = Attempt.objects.values_list("cluster__name", flat=True).get(pk=self.attempt)
        cluster = current_clusters().named(name)
        return {source.name: source.seconds for source in cluster.source} if cluster else {}

    def _secrets(self) -> Seen:
        if self.record is None or self.answer is None:
            return not_checked(self.without_record)
        if self.sample is None:
            return checks.shapes(self.answer.body, current_redactor())
        return checks.secrets(self.answer.body, self.sample.planted)

    def _again(self) -> Seen:
        if self.record is None:
            return not_checked(self.without_record)
        seen = checks.concluded_again(self.record)
        told = self.drill_verdict
        if told and seen.facts.get("sha256", told) != told:
            return failed("the record's verdict is not the one that the site concluded", **seen.facts)
        return seen

    @property
    def drill_verdict(self) -> str:
        """The hash of the verdict that the site itself made of what was made up."""
        return self.sample.verdict.body_sha256 if self.sample else ""

    # --- Clean-up ------------------------------------------------------------------------------------

    def _counted(self) -> Seen:
        if self.sample is None:
            return not_checked("no attempt was made up")
        counted = clean.listed(self.sample.attempt)
        with self.site.get(f"verdicts?attempt={self.sample.attempt}", self._tokens.authorised) as answer:
            shown = answer.status == 200 and str(self.sample.attempt).encode() in answer.body.read()
        if counted or shown:
            where = [f"{number} {what}" for what, number in counted.items()] + (["a list of the API"] if shown else [])
            return failed(f"it is in {', '.join(where)}", counted=counted)
        return passed("it is in no list, nothing was proposed for it, and nobody was told of it")

    def _expires(self) -> Seen:
        made = self.sample
        if made is None:
            return not_checked("no attempt was made up")
        if why := clean.why_kept(made.attempt):
            return not_checked(f"retention leaves it alone: {why}")
        gone = {kept.value: {"rows": one.rows, "bytes": one.bytes} for kept, one in clean.expired(made.attempt).items()}
        if never := [kept.value for kept in clean.kept_for_ever()]:
            return not_checked(f"kept for ever by this site's settings: {', '.join(never)}", expired=gone)
        left = clean.lines_of(made.attempt, made.marker)
        if left:
            return failed(f"{left} lines or texts of it are still in the database", expired=gone)
        with self.site.get(f"attempts/{made.attempt}/observations", self._tokens.authorised) as answer:
            if answer.status == 200 and made.marker.encode() in answer.body.read():
                return failed("the API still shows its lines", expired=gone)
        with self.site.get(self._path, self._tokens.authorised, method="POST") as answer:
            record, seen = checks.verified(answer.body, self.keys) if answer.is_zip else (None, not_checked(""))
            if record is None:
                said = seen.said or f"the site answered {answer.status}: {_said(answer)}"
                return failed(f"what is left gives no record that verifies: {said}", expired=gone)
            there = checks.containing(answer.body, made.marker)
            if there:
                return failed(f"a new export still has its lines: {', '.join(there[:3])}", expired=gone)
        rows = sum(one["rows"] for one in gone.values())
        return passed(f"{rows} rows went; a new export verifies and has none of its lines", expired=gone)

    def _removed(self) -> Seen:
        made = self.sample
        if made is None:
            return not_checked("no attempt was made up")
        clean.remove(made.attempt, made.node)
        left = clean.left(made.attempt, made.node)
        if left:
            return failed(f"left: {', '.join(f'{number} {what}' for what, number in left.items())}", left=left)
        answers = {}
        for path in (f"attempts/{made.attempt}", self._path):
            with self.site.get(path, self._tokens.authorised) as answer:
                answers[path.removeprefix(f"attempts/{made.attempt}") or "/"] = answer.status
                if answer.status != 404:
                    return failed(f"{path}: the site answered {answer.status}", answers=answers)
        entries = LedgerEntry.objects.filter(attempt=made.attempt).count()
        return passed(
            f"no row of it is left, and the site says 404; the ledger keeps {entries} entries about it",
            answers=answers,
            ledger_entries=entries,
        )

    def _planned(self) -> Seen:
        assert self.attempt is not None
        terms = {kept: f"{at:%Y-%m-%d}" for kept, at in clean.terms(self.attempt).items()}
        never = [kept.value for kept in clean.kept_for_ever()]
        told = self.record.report.info.get("Inquest-Expires", "") if self.record else ""
        facts = {"expires": terms, "kept_for_ever": never, "record_expires": told}
        if not told:
            return (
                failed("the record does not say until when it may be kept", **facts)
                if self.record
                else not_checked(self.without_record, **facts)
            )
        words = [f"{kept} on {day}" for kept, day in terms.items()] + [f"{kept} never" for kept in never]
        held = clean.why_kept(self.attempt)
        return passed(f"{', '.join(words)}; the record on {told}{f'; {held}' if held else ''}", **facts)


def _said(answer: Answer) -> str:
    """The beginning of what the site says to a no."""
    answer.body.seek(0)
    return current_redactor().redact(answer.body.read(300).decode(errors="replace")).strip()
