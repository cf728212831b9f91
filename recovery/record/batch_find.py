"""Reads of batches for page and API: how far they are, and their files."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from django.db.models import BooleanField, Count, ExpressionWrapper, Q, QuerySet, Sum
from django.utils import timezone

from recovery.models import ExportBatch, ExportedRecord
from recovery.record import bag, beside, export
from recovery.record.batch import STOPPED, folder_of
from verdicts.choices import RequestState


def batches() -> QuerySet[ExportBatch]:
    """All batches, the newest first."""
    return ExportBatch.objects.select_related("asked_by").order_by("-created_at", "id")


@dataclass(frozen=True)
class Progress:
    """How far a batch is. `state` is one word for all of it; `left` how long it will take at its pace so far."""

    state: str
    done: int
    failed: int
    stopped: int
    running: int
    pending: int
    total: int
    bytes: int
    left: timedelta | None

    @property
    def left_words(self) -> str:
        """The same for a reader, never more exact than it is."""
        seconds = self.left.total_seconds() if self.left else 0
        if seconds < 90:
            return "about a minute"
        return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"

    @property
    def over(self) -> int:
        """Those that nothing is owed of any more."""
        return self.total - self.running - self.pending


def progress(batches: Sequence[ExportBatch]) -> list[Progress]:
    """How far each of some batches is, in one query."""
    rows = ExportedRecord.objects.filter(batch__in=[batch.pk for batch in batches]).order_by()
    counted: dict[UUID, Counter[str]] = {batch.pk: Counter() for batch in batches}
    stopped_early = ExpressionWrapper(Q(error=STOPPED), output_field=BooleanField())
    told = rows.values_list("batch", "state", stopped_early).annotate(number=Count("pk"), bytes=Sum("size"))
    for batch, state, stopped, number, size in told:
        counted[batch]["stopped" if stopped and state == RequestState.FAILED.value else state] += number
        counted[batch]["bytes"] += size if state == RequestState.DONE.value else 0
    return [_progress(batch, counted[batch.pk]) for batch in batches]


def _progress(batch: ExportBatch, counted: Counter[str]) -> Progress:
    done, running, pending = counted["done"], counted["running"], counted["pending"]
    return Progress(
        state=_state(batch, running=running, done=done),
        done=done,
        failed=counted["failed"],
        stopped=counted["stopped"],
        running=running,
        pending=pending,
        total=batch.total,
        bytes=counted["bytes"],
        left=_left(batch, done, running + pending),
    )


def _state(batch: ExportBatch, *, running: int, done: int) -> str:
    if batch.removed_at is not None:
        return "removed"
    if batch.finished_at is not None:
        return "stopped" if batch.stopped_at is not None else "finished"
    return "running" if running or done else "waiting"


def _left(batch: ExportBatch, done: int, owed: int) -> timedelta | None:
    if batch.finished_at is not None or done < 3:
        return None
    return (timezone.now() - batch.created_at) / done * owed


def records_of(batch: ExportBatch) -> QuerySet[ExportedRecord]:
    """A batch's records in the order of the list that was asked for."""
    return (
        ExportedRecord.objects.filter(batch=batch)
        .select_related("attempt__cluster", "attempt__workload")
        .defer("attempt__body")
        .order_by("place", "pk")
    )


def path_of(row: ExportedRecord) -> Path | None:
    """Where a record's file is; None where it is not, or not on this machine."""
    if not row.file:
        return None
    path = folder_of(row.batch_id) / row.file
    return path if path.is_file() else None


@dataclass(frozen=True)
class OfWhole:
    """A record as it stands in the download of a whole batch."""

    name: str
    path: Path
    sha256: str


def of_whole(batch: ExportBatch) -> list[OfWhole]:
    """All records that are written, and the rulesets that they share."""
    rows = ExportedRecord.objects.filter(batch=batch).exclude(file="").order_by("place", "pk")
    folder = folder_of(batch.pk)
    records = [
        OfWhole(export.name_of(attempt), folder / file, digest)
        for attempt, file, digest in rows.values_list("attempt_id", "file", "sha256")
    ]
    return records and records + [_shared(path) for path in beside.shared(folder)]


def _shared(path: Path) -> OfWhole:
    with path.open("rb") as file:
        return OfWhole(f"{beside.FOLDER}/{path.name}", path, bag.digest_of(file, path.stat().st_size))


def not_written(batch: ExportBatch) -> Iterable[tuple[str, str]]:
    """The attempts of which there is no record, each with why."""
    rows = ExportedRecord.objects.filter(batch=batch, file="").order_by("place", "pk")
    return [(str(attempt), error or "not written yet") for attempt, error in rows.values_list("attempt_id", "error")]
