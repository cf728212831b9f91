"""An incident folder into the store: what `inquest ingest` and `make demo` call."""

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from django.contrib.auth.models import User

from rules.collect import Collected, collect
from rules.incident import open_incident
from verdicts import conclude, limits, record
from verdicts.choices import Mode, RequestState
from verdicts.models import AttributionRequest
from verdicts.redaction import current_redactor
from verdicts.serializers import page_of

#: What the engine calls an attempt that nothing names.
UNNAMED = "unknown"


@dataclass(frozen=True)
class Stored:
    """What became of an incident folder."""

    attempt: UUID
    job_id: str
    request: UUID
    stored: int
    repeated: int
    cut: int
    notes: list[str]


def ingest_path(path: Path, *, cluster: str = "", job: str = "", by: User | None = None) -> Stored:
    """Read an incident, store it, and ask for its verdict, in the name of `by`. Raises InputError and OSError.

    `cluster` and `job` name what the incident itself does not. Files that belong to no named job get a
    name from their content: the same files are the same attempt, other files another one.
    """
    redactor = current_redactor()
    incident = open_incident([path], redactor=redactor)
    collected = collect(incident, conclude.current_ruleset(), redactor=redactor)
    given = msgspec.structs.replace(incident.attempt, collectors=[], cluster=incident.attempt.cluster or cluster)
    notes = [redactor.redact(note) for note in incident.notes]
    if given.job_id == UNNAMED:
        given = msgspec.structs.replace(given, job_id=job or _name_of(collected))
        if not job:
            notes.append(f"no attempt.json: stored as job {given.job_id}, a name made from the content")
    attempt, _ = record.record_attempt(given)
    stored = repeated = cut = 0
    for start in range(0, len(collected.observations), limits.MAX_BATCH):
        delivery = record.add_observations(attempt.pk, collected.observations[start : start + limits.MAX_BATCH])
        stored += 0 if delivery.replayed else delivery.stored
        repeated += delivery.received - delivery.cut if delivery.replayed else delivery.repeated
        cut += delivery.cut
    record.record_reports(attempt.pk, collected.reports)
    request = conclude.request_attribution(attempt.pk, Mode.SLOW, by=by)
    return Stored(attempt.pk, attempt.job_id, request.pk, stored, repeated, cut, notes)


def _name_of(collected: Collected) -> str:
    """A job id for files that belong to no named job."""
    found = hashlib.sha256()
    for digest in sorted(observation.digest() for observation in collected.observations):
        found.update(digest.encode())
    for files, read, size in sorted((report.files, report.read, report.bytes) for report in collected.reports):
        found.update(f"{files}{read}{size}".encode(errors="backslashreplace"))
    return f"unnamed-{found.hexdigest()[:12]}"


def wait_for(stored: Stored, seconds: float) -> dict[str, Any]:
    """Wait for the verdict, for `seconds` at most; says in words if none came."""
    end = time.monotonic() + seconds
    pause = 0.05
    while True:
        request = AttributionRequest.objects.select_related("verdict").get(pk=stored.request)
        over = request.state in (RequestState.DONE, RequestState.FAILED)
        if over or time.monotonic() >= end:
            break
        time.sleep(min(pause, max(end - time.monotonic(), 0)))
        pause = min(pause * 1.5, 0.5)
    verdict = request.verdict if request.state == RequestState.DONE else None
    return {
        "attempt": str(stored.attempt),
        "job_id": stored.job_id,
        "stored": stored.stored,
        "repeated": stored.repeated,
        "cut": stored.cut,
        "notes": stored.notes,
        "attribution": str(stored.request),
        "state": request.state,
        "verdict": str(verdict.pk) if verdict else None,
        "domain": verdict.domain if verdict else None,
        "strength": (verdict.strength or None) if verdict else None,
        "headline": verdict.headline if verdict else None,
        "doubt": "" if verdict else _doubt(request, seconds),
        "page": page_of(verdict) if verdict else "",
    }


def _doubt(request: AttributionRequest, seconds: float) -> str:
    """Why there is no verdict yet."""
    if request.state == RequestState.FAILED:
        return f"none: {request.error}"
    if request.state == RequestState.RUNNING:
        return f"not yet: {request.lease_owner} is at it"
    if request.error:
        return f"not yet: {request.error}; it is tried again"
    if seconds == 0:
        return "asked for"
    return f"not yet: no worker took it within {seconds:g} seconds; is one running? It is kept and done when one is."
