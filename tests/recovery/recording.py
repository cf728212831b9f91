"""An attempt with much that a record can have, and its record: made once, in a transaction that is undone."""

import io
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from uuid import UUID

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import override_settings

from recovery import decide, propose
from recovery.ledger import intake
from recovery.ledger import keys as ledger_keys
from recovery.ledger.entries import Actor
from recovery.models import Intake
from recovery.record import bag, export
from recovery.record.mark import BASE
from recovery.words import RejectReason
from rules.observation import Observation
from rules.words import Source
from tests.recovery.deciding import a_policy, from_now_on
from tests.verdicts.builders import a_user
from tests.verdicts.incidents import HOSTILE, many_ranks
from verdicts import conclude
from verdicts.choices import Label, Mode
from verdicts.models import Attempt, Verdict
from verdicts.people import talk
from verdicts.record import add_observations, record_attempt, record_reports, record_review


@dataclass(frozen=True)
class Made:
    """A record and what is known of it. `later` is one of the same attempt, made when more was known."""

    data: bytes
    again: bytes
    later: bytes
    attempt: UUID
    body: bytes
    key: Ed25519PrivateKey

    @property
    def public(self) -> str:
        """The key that signed it, as hex."""
        return ledger_keys.public_hex(self.key)


def chained() -> None:
    """The entries get their places as a commit would give them."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def an_incident() -> Attempt:
    """An attempt that lost a GPU a few minutes ago, as the engine has judged it; one of its lines is hostile."""
    given, found, reports = many_ranks(32)
    assert given.end is not None
    shift = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=2) - datetime.fromisoformat(given.end)

    def later(stamp: str | None) -> str | None:
        return (datetime.fromisoformat(stamp) + shift).isoformat() if stamp else None

    times = {field: later(getattr(given, field)) for field in ("submit_time", "start", "end")}
    attempt, _ = record_attempt(msgspec.structs.replace(given, **times))
    moved = [
        msgspec.structs.replace(one, body=_redated(one.body, shift), timestamp=later(one.timestamp)) for one in found
    ]
    hostile = Observation(source=Source.APPLOG, body=f"FATAL: {HOSTILE}", ref="applog/rank1.log:9", rank=1)
    add_observations(attempt.pk, [*moved, hostile])
    record_reports(attempt.pk, reports)
    verdict = conclude.attribute_now(conclude.request_attribution(attempt.pk, Mode.SLOW).pk)
    assert verdict is not None
    return attempt


def _redated(body: str, shift: timedelta) -> str:
    """The line with its date as the kernel prints it, later by `shift`."""
    printed = "Nov  3 02:11:04"
    at = datetime(2026, 11, 3, 2, 11, 4, tzinfo=UTC) + shift
    return body.replace(printed, f"{at:%b} {at.day:2} {at:%H:%M:%S}")


@cache
def made(folder: Path) -> Made:
    """The record; call it with the database unblocked."""
    with (
        override_settings(
            INQUEST_LEDGER_KEY_FILE=str(folder / "key.pem"),
            INQUEST_LEDGER_CHECKPOINT_FILE=str(folder / "checkpoints"),
            INQUEST_LEDGER_CHECKPOINT_WEBHOOK="",
        ),
        transaction.atomic(),
    ):
        from_now_on()
        for name in ("verdicts", "reviews", "rulesets"):
            Intake.objects.update_or_create(name=name, defaults={"read_until": "2020-01-01T00:00:00Z"})
        attempt = an_incident()
        verdict = Verdict.objects.get(attempt=attempt)
        a_policy()
        reviewer = a_user("grace", "reviewer", "operator")
        record_review(verdict.pk, by=reviewer, label=Label.RIGHT, note=f"seen before {HOSTILE}")
        talk.add_comment(verdict.pk, by=reviewer, text="the slot was swapped in May")
        _proposed(verdict, reviewer)
        intake.take_in()
        chained()
        first, second = (_record(attempt.pk, reviewer) for _ in range(2))
        _more(attempt, reviewer)
        later = _record(attempt.pk, reviewer)
        transaction.set_rollback(True)
    key = ledger_keys.key_from(folder / "key.pem")
    return Made(first, second, later, attempt.pk, verdict.body_json.encode(), key)


def _proposed(verdict: Verdict, by: User) -> None:
    """What a policy proposes for the verdict, which a person rejects."""
    (proposal,) = propose.consider(verdict.pk)
    said = f"not now {HOSTILE}"
    decide.reject(proposal.pk, by=by, seen=proposal.plan_sha256, reason=RejectReason.OTHER, text=said)


def _more(attempt: Attempt, by: User) -> None:
    """A line came late, the verdict is another for it, and somebody says so."""
    late = Observation(
        source=Source.APPLOG, body="torch.cuda.OutOfMemoryError: CUDA out of memory.", ref="late:1", rank=2
    )
    add_observations(attempt.pk, [late])
    assert conclude.attribute_now(conclude.request_attribution(attempt.pk, Mode.SLOW).pk) is not None
    assert attempt.verdicts.count() == 2
    talk.add_comment(attempt.verdicts.get(number=2).pk, by=by, text="a late line")
    intake.take_in()
    chained()


def _record(attempt: UUID, by: User) -> bytes:
    with export.make(attempt, Actor.user(by), via="test") as out:
        chained()
        return out.read()


def files(data: bytes) -> dict[str, bytes]:
    """The files of a record by their names within it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {entry.filename.partition("/")[2]: archive.read(entry) for entry in archive.infolist()}


def changed(data: bytes, name: str, content: bytes | None, *, key: Ed25519PrivateKey | None = None) -> bytes:
    """The record with a file of it changed, or left out; with `key`, all sums are made anew and signed with that."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        base = archive.infolist()[0].filename.partition("/")[0]
    told = files(data)
    if content is None:
        told.pop(name, None)
    else:
        told[name] = content
    if key is not None:
        info = dict(line.split(": ", 1) for line in told[bag.INFO].decode().splitlines())
        info.pop("Payload-Oxum")
        public = ledger_keys.public_hex(key)
        writer = bag.BagWriter(out, base.removeprefix(BASE))
        for place in [place for place in told if place.startswith("data/")]:
            writer.add(place.removeprefix("data/"), [told[place]])
        writer.close(info.items(), told[bag.PAGE], lambda said: (public, ledger_keys.sign(key, said)))
        return out.getvalue()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, text in told.items():
            archive.writestr(f"{base}/{place}", text)
    return out.getvalue()
