"""Workers that write the records of batches: row by row, each under a lease, not more at once than the settings say.

A worker that dies leaves a partial file and a lease that runs out; another takes the row and begins it anew.
"""

import logging
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models.functions import Now

from recovery import permissions
from recovery.ledger.entries import Actor
from recovery.models import ExportBatch, ExportedRecord
from recovery.record import bag, batch, export
from verdicts.choices import RequestState
from verdicts.lease import Kept, Lease, LeaseLost, Turns
from verdicts.record import NotPermitted
from verdicts.waking import wake_task

log = logging.getLogger(__name__)

#: How long one task works off rows before its worker looks for other tasks, in seconds: attributions come first.
WORK_SECONDS = 10.0
#: So much of the disk stays free.
LEAST_FREE = 512 * 1024 * 1024


class NoRoom(Exception):
    """The disk is nearly full; it is tried again later."""


@dataclass(frozen=True)
class Written:
    """A record as a file."""

    path: Path
    size: int
    sha256: str


def work() -> int:
    """Write records, each in its turn, until none is left or it is time to let others go first; says how many."""
    end, done, turns = time.monotonic() + WORK_SECONDS, 0, Turns(ExportedRecord)
    busy = ExportedRecord.objects.filter(state=RequestState.RUNNING.value, lease_until__gt=Now())
    if busy.count() >= settings.INQUEST_EXPORT_WORKERS:
        return 0
    while (lease := turns.take()) is not None:
        done += 1
        _export(lease)
        if time.monotonic() >= end:
            wake_task(batch.TASK, queue=None)
            break
    return done


def _export(lease: Lease[ExportedRecord]) -> None:
    """Write one record and say what became of it."""
    row = lease.row
    try:
        with Kept(lease):
            written = _written(row)
        _keep(lease, written)
    except LeaseLost:
        log.warning("record of %s was taken over by another worker", row.attempt_id)
    except (OperationalError, InterfaceError):
        raise
    except (export.NotMade, NotPermitted) as error:
        _refuse(lease, str(error))
    except Exception as error:
        # The row has the error and when it is tried again; the others must not wait for it.
        log.exception("record of %s was not written", row.attempt_id)
        lease.give_back(error)
    finally:
        batch.settle(row.batch_id)


def _written(row: ExportedRecord) -> Written:
    of = ExportBatch.objects.select_related("asked_by").get(pk=row.batch_id)
    if of.asked_by is None or not of.asked_by.is_active or not of.asked_by.has_perm(permissions.EXPORT_LEDGER):
        raise NotPermitted("who asked for it may not export records any more")
    place = batch.folder_of(row.batch_id)
    for made in (place.parent, place):  # evidence is for the site's own account alone
        made.mkdir(mode=0o700, exist_ok=True)
    if shutil.disk_usage(place).free < LEAST_FREE:
        raise NoRoom("the disk of the exported records is nearly full")
    _tidy(place, row)
    actor = Actor(f"user:{of.asked_by.get_username()}", tuple(of.roles))
    export.announce(row.attempt_id, actor, via="batch", batch=of.pk)
    # Who lost the lease writes into another file than who has it.
    partial = place / f"{row.attempt_id}.{row.fence}.partial"
    try:
        with open(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b") as out:
            export.write(row.attempt_id, out, share=place)
            size = out.seek(0, os.SEEK_END)
            digest = bag.digest_of(out, size)
            out.flush()
            os.fsync(out.fileno())
        return Written(partial.rename(partial.with_suffix(".zip")), size, digest)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _tidy(place: Path, row: ExportedRecord) -> None:
    """Remove what workers left that died with the row. What a later one wrote is not this one's to remove."""
    for left in place.glob(f"{row.attempt_id}.*"):
        if int(left.name.split(".")[1]) < row.fence:
            left.unlink(missing_ok=True)


def _keep(lease: Lease[ExportedRecord], written: Written) -> None:
    try:
        with transaction.atomic():
            lease.locked()
            lease.release(RequestState.DONE, file=written.path.name, size=written.size, sha256=written.sha256, error="")
    except BaseException:
        written.path.unlink(missing_ok=True)
        raise


def _refuse(lease: Lease[ExportedRecord], why: str) -> None:
    try:
        with transaction.atomic():
            lease.locked()
            lease.release(RequestState.FAILED, error=why)
    except LeaseLost:
        log.warning("record of %s was taken over by another worker", lease.row.attempt_id)
