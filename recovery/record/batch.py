"""The writer of batches: many records exported at once, by the filters of the verdict list.

A row is owed for each record; workers take rows by lease (`batch_work`). What is written lies in the batch's folder.
"""

import logging
import shutil
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from recovery import permissions
from recovery.ledger.entries import Actor, record
from recovery.models import ExportBatch, ExportedRecord
from recovery.words import EntryKind
from rules.attempt import InputError
from verdicts.choices import RequestState
from verdicts.lease import give_up
from verdicts.listing.filter_form import filters_of
from verdicts.listing.filters import VerdictFilter
from verdicts.models import ListRow
from verdicts.record import NotPermitted
from verdicts.waking import wake_task

log = logging.getLogger(__name__)

TASK = "recovery.export_records"
#: Records of one batch, and batches of one person that are not finished.
MOST_RECORDS, MOST_OPEN = 20_000, 5
#: Rows that are written at once, and batches that one sweep removes.
AT_ONCE, MOST_REMOVED = 1000, 100
STOPPED = "stopped before its turn came"
_OPEN_ROWS = ExportedRecord.objects.filter(batch=OuterRef("pk")).open()


def ask(query: str, *, by: User, via: str) -> ExportBatch:
    """Ask for the records of all attempts that the verdict list shows at an address.

    Raises NotPermitted, and InputError that names the field.
    """
    if not by.has_perm(permissions.EXPORT_LEDGER):
        raise NotPermitted("Exporting records needs the role lead or administrator.")
    filters = filters_of(query, "filter")
    with transaction.atomic():
        User.objects.select_for_update(of=("self",), no_key=True).only("pk").get(pk=by.pk)
        if ExportBatch.objects.filter(asked_by=by, finished_at=None).count() >= MOST_OPEN:
            raise InputError(f"filter: {MOST_OPEN} exports of yours are not finished; wait for one, or stop it")
        found = _found(filters)
        actor = Actor.user(by)
        batch = ExportBatch.objects.create(
            query=filters.data.urlencode(), asked_by=by, roles=list(actor.roles), total=len(found)
        )
        ExportedRecord.objects.bulk_create(
            [
                ExportedRecord(batch=batch, attempt_id=attempt, cluster_id=cluster, place=place)
                for place, (attempt, cluster) in enumerate(found, 1)
            ],
            batch_size=AT_ONCE,
        )
        record(
            EntryKind.EXPORTED,
            actor=actor,
            subject=batch,
            body={"what": "batch of records", "via": via, "filter": batch.query, "records": batch.total},
        )
        transaction.on_commit(lambda: wake(batch.total))
    return batch


def attempts_of(filters: VerdictFilter) -> Iterator[tuple[UUID, UUID | None]]:
    """The attempts that a list shows, in its order and each once, with their clusters."""
    seen: set[UUID] = set()
    for rows in filters.found().every():
        ids = [row.pk for row in rows]
        named = ListRow.objects.filter(pk__in=ids).values_list("pk", "attempt_id", "attempt__cluster_id")
        of = {pk: (attempt, cluster) for pk, attempt, cluster in named}
        for pk in ids:
            # A row may have gone since it was found.
            if pk in of and of[pk][0] not in seen:
                seen.add(of[pk][0])
                yield of[pk]


def _found(filters: VerdictFilter) -> list[tuple[UUID, UUID | None]]:
    found = list(islice(attempts_of(filters), MOST_RECORDS + 1))
    if not found:
        raise InputError("filter: no attempt matches")
    if len(found) > MOST_RECORDS:
        raise InputError(f"filter: more than {MOST_RECORDS:,} attempts match; narrow it, by time for one")
    return found


def wake(rows: int) -> None:
    """Wake as many workers as may export at once. What is not heard is found by the sweep."""
    for _ in range(min(rows, settings.INQUEST_EXPORT_WORKERS)):
        if not wake_task(TASK, queue=None):
            break


@transaction.atomic
def stop(batch_id: UUID, *, by: User) -> int:
    """Take back what no worker has begun; says how many. What is written already stays. Raises DoesNotExist."""
    _held(batch_id, by)
    number = _take_back(batch_id, RequestState.PENDING)
    transaction.on_commit(lambda: settle(batch_id))
    return number


def _take_back(batch_id: UUID, *states: RequestState) -> int:
    rows = ExportedRecord.objects.filter(batch=batch_id, state__in=[state.value for state in states])
    number = rows.update(
        state=RequestState.FAILED.value, error=STOPPED, finished_at=Now(), lease_owner="", lease_until=None
    )
    if number:
        ExportBatch.objects.filter(pk=batch_id).update(stopped_at=Now())
    return number


@transaction.atomic
def again(batch_id: UUID, *, by: User) -> int:
    """Owe anew what was stopped or failed; says how many. Raises DoesNotExist."""
    batch = _held(batch_id, by)
    if batch.removed_at is not None:
        raise InputError("its files were removed: ask for a new export")
    rows = ExportedRecord.objects.filter(batch=batch_id, state=RequestState.FAILED.value)
    number = rows.update(
        state=RequestState.PENDING.value, tries=0, error="", finished_at=None, due_at=Now(), turn_at=Now()
    )
    if number:
        ExportBatch.objects.filter(pk=batch_id).update(stopped_at=None, finished_at=None, expires_at=None)
        transaction.on_commit(lambda: wake(number))
    return number


def remove(batch_id: UUID, *, by: User) -> None:
    """Remove a batch's files at once. Who is writing one just now has lost its lease. Raises DoesNotExist."""
    with transaction.atomic():
        _held(batch_id, by)
        _take_back(batch_id, RequestState.PENDING, RequestState.RUNNING)
        settle(batch_id)
        ExportBatch.objects.filter(pk=batch_id, removed_at=None).update(expires_at=Now())
    clean_up()
    if ExportBatch.objects.filter(pk=batch_id, removed_at=None).exists():
        raise InputError("its files could not be removed now; it is tried again, and the log says why")


def _held(batch_id: UUID, by: User) -> ExportBatch:
    if not by.has_perm(permissions.EXPORT_LEDGER):
        raise NotPermitted("Exporting records needs the role lead or administrator.")
    return ExportBatch.objects.select_for_update(of=("self",)).get(pk=batch_id)


# --- Its end --------------------------------------------------------------------------------------


def settle(batch_id: UUID) -> None:
    """Say that a batch is finished where nothing of it is owed any more: from then on its time runs."""
    _settle(ExportBatch.objects.filter(pk=batch_id))


def _settle(batches: QuerySet[ExportBatch]) -> int:
    until = Now() + timedelta(days=settings.INQUEST_EXPORT_DAYS)
    return batches.filter(~Exists(_OPEN_ROWS), finished_at=None).update(finished_at=Now(), expires_at=until)


def folder_of(batch_id: UUID) -> Path:
    """A batch's own folder; it may not be there."""
    return Path(settings.INQUEST_EXPORT_DIR) / str(batch_id)


def sweep() -> None:
    """What comes with time: rows that nobody finished, batches that are finished or expired, workers to be woken."""
    give_up(ExportedRecord)
    _settle(ExportBatch.objects.all())
    waiting = ExportedRecord.objects.takeable(Now()).count()
    if waiting:
        wake(waiting)
    clean_up()


def clean_up() -> int:
    """Remove the files of batches whose time is over, and what no batch has; says how many batches."""
    over = ExportBatch.objects.filter(finished_at__isnull=False, removed_at=None, expires_at__lte=Now())
    removed = 0
    for batch in over[:MOST_REMOVED]:
        if not _remove(folder_of(batch.pk)):
            continue
        ExportedRecord.objects.filter(batch=batch).exclude(file="").update(file="")
        removed += ExportBatch.objects.filter(pk=batch.pk, removed_at=None).update(removed_at=Now())
    kept = Path(settings.INQUEST_EXPORT_DIR)
    for path in kept.iterdir() if kept.is_dir() else ():
        if not _is_kept(path.name):
            _remove(path)
        elif path.is_dir():
            _remove_unnamed(path)
    return removed


def _remove_unnamed(folder: Path) -> None:
    """Remove the records that no row names: their evidence expired, and who should have removed them was killed."""
    rows = ExportedRecord.objects.filter(batch=UUID(folder.name))
    # In this order: what is in the folder now is being written, is named, or is nobody's.
    files = [path for path in folder.glob("*.zip") if path.is_file()]
    running = rows.filter(state=RequestState.RUNNING.value).values_list("attempt_id", flat=True)
    busy = {str(attempt_id) for attempt_id in running}
    named = set(rows.exclude(file="").values_list("file", flat=True))
    for path in files:
        if path.name not in named and path.name.partition(".")[0] not in busy:
            _unlink(path)


def _is_kept(name: str) -> bool:
    try:
        batch_id = UUID(name)
    except ValueError:
        return True  # nothing that a batch made
    return ExportBatch.objects.filter(pk=batch_id, removed_at=None).exists()


def _remove(path: Path) -> bool:
    """Remove a folder. What cannot be removed is told, and tried again by the next sweep."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        log.error("exported records in %s could not be removed: %s", path, error)
        return False
    return True


def forget(attempts: Iterable[UUID], why: str) -> int:
    """Remove the records of some attempts from all batches, as expiry of their evidence wants; says how many.

    One that is being written from what was there is begun anew: who writes it has lost its lease. In a transaction the
    files go after its end; from then on no row names them, so that none is handed out, and what a process that was
    killed left of them goes with the next sweep.
    """
    rows = ExportedRecord.objects.filter(attempt__in=list(attempts))
    rows.filter(state=RequestState.RUNNING.value).update(
        state=RequestState.PENDING.value, lease_owner="", lease_until=None, due_at=Now()
    )
    files = [
        (row.pk, folder_of(row.batch_id) / row.file) for row in rows.exclude(file="").only("pk", "batch_id", "file")
    ]
    forgotten = ExportedRecord.objects.filter(pk__in=[pk for pk, _ in files]).update(
        file="", state=RequestState.FAILED.value, error=why, finished_at=timezone.now()
    )

    def remove() -> None:
        for _, path in files:
            _unlink(path)

    transaction.on_commit(remove)
    return forgotten


def _unlink(path: Path) -> None:
    """Remove a file. What cannot be removed is told, and tried again by the next sweep."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.error("the exported record %s could not be removed: %s", path, error)
