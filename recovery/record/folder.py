"""Many records into a folder, by a command that may be ended at any moment and called again.

The list of attempts is written down before the first record; what is whole and verifies is not written again.
"""

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal
from uuid import UUID

import msgspec
from django.db import transaction
from django.utils import timezone

from recovery.ledger.entries import Actor, record, spelled
from recovery.record import bag, beside, export
from recovery.record.batch import attempts_of
from recovery.record.container import BadRecord
from recovery.record.read import open_record
from recovery.words import EntryKind
from rules.attempt import InputError
from verdicts.listing.filter_form import filters_of
from verdicts.models import Attempt

LIST, LOCK, SUMS = "export.json", "export.lock", "SHA256SUMS"


class List(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the folder is to hold, written once."""

    filter: str
    asked_at: str
    attempts: list[UUID]


@dataclass(frozen=True)
class Done:
    """What became of one record; `why` where it could not be made."""

    attempt: UUID
    place: int
    total: int
    what: Literal["written", "kept", "failed"]
    why: str = ""


class FolderError(Exception):
    """A folder that cannot be used; the message says why."""


def begun(folder: Path, query: str, *, resume: bool) -> List:
    """The list of a folder: made from the filter, or the one that is there. Raises FolderError and InputError."""
    path = folder / LIST
    if path.exists():
        return _known(path, query, resume=resume)
    if folder.is_dir() and any(one.name != LOCK for one in folder.iterdir()):
        raise FolderError(f"{folder} holds other files: give a folder that is empty, or not there")
    if resume:
        raise FolderError(f"nothing was begun in {folder}: leave --resume out and say with --filter what is wanted")
    filters = filters_of(query, "filter")
    told = List(
        filter=filters.data.urlencode(),
        asked_at=spelled(timezone.now()),
        attempts=[attempt for attempt, _ in attempts_of(filters)],
    )
    if not told.attempts:
        raise InputError("filter: no attempt matches")
    folder.mkdir(parents=True, exist_ok=True)
    _put(path, msgspec.json.encode(told))
    return told


def _known(path: Path, query: str, *, resume: bool) -> List:
    try:
        told = msgspec.json.decode(path.read_bytes(), type=List)
    except (OSError, msgspec.DecodeError) as error:
        raise FolderError(f"{path} cannot be read: {error}") from error
    if not resume:
        raise FolderError(f"{path.parent} holds an export that was begun {told.asked_at[:16]}: give --resume to go on")
    if query and filters_of(query, "filter").data.urlencode() != told.filter:
        raise FolderError(f"the export in {path.parent} was begun with the filter {told.filter!r}")
    return told


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else writes into the folder meanwhile. Raises FolderError where somebody does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FolderError(f"another export is writing into {folder}") from error
        yield


def announce(told: List, actor: Actor) -> None:
    """Write into the ledger that all of them are exported."""
    with transaction.atomic():
        record(
            EntryKind.EXPORTED,
            actor=actor,
            subject=("ledger", "records"),
            body={
                "what": "batch of records",
                "via": "command-line",
                "filter": told.filter,
                "records": len(told.attempts),
            },
        )


def fill(
    folder: Path, told: List, actor: Actor, keys: Collection[str], *, at: datetime | None = None
) -> Iterator[Done]:
    """Write what is not there, one after another; `keys` are those that this site signs with."""
    total = len(told.attempts)
    for place, attempt in enumerate(told.attempts, 1):
        path = folder / export.name_of(attempt)
        if _is_whole(path, attempt, keys):
            yield Done(attempt, place, total, "kept")
            continue
        try:
            export.announce(attempt, actor, via="command-line")
            _write(path, attempt, at)
        except (export.NotMade, Attempt.DoesNotExist) as error:
            why = str(error) if isinstance(error, export.NotMade) else "the attempt is not there any more"
            yield Done(attempt, place, total, "failed", why)
        else:
            yield Done(attempt, place, total, "written")


def sums(folder: Path, told: List) -> None:
    """Write the checksums of all records and of what they share, as `sha256sum --check` reads them."""
    lines = []
    for path in [*(folder / export.name_of(attempt) for attempt in told.attempts), *beside.shared(folder)]:
        if path.exists():
            with path.open("rb") as file:
                digest = bag.digest_of(file, path.stat().st_size)
            lines.append(f"{digest}  {path.relative_to(folder).as_posix()}\n")
    _put(folder / SUMS, "".join(lines).encode())


def _is_whole(path: Path, attempt: UUID, keys: Collection[str]) -> bool:
    """Whether a record is there, verifies and is of the attempt: a partial or changed one is written again."""
    try:
        with path.open("rb") as file:
            return open_record(file, keys, beside.near(path)).report.attempt == str(attempt)
    except FileNotFoundError:
        return False
    except BadRecord:
        return False


def _write(path: Path, attempt: UUID, at: datetime | None) -> None:
    with _under(path) as out:
        export.write(attempt, out, at=at, share=path.parent)


def _put(path: Path, content: bytes) -> None:
    with _under(path) as out:
        out.write(content)


@contextmanager
def _under(path: Path) -> Iterator[BinaryIO]:
    """A file that has its name only when it is whole and on the disk."""
    partial = path.with_name(path.name + ".partial")
    # Evidence is for who took it, as on the site.
    with open(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b") as out:
        yield out
        out.flush()
        os.fsync(out.fileno())
    partial.replace(path)
