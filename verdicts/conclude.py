"""The writers of attribution requests and verdicts.

A request is a row; Celery only wakes a worker. A worker takes the row for the time of a lease, reads the
evidence, asks the engine and writes the verdict in one transaction that also ends the request. Whoever is
killed in between leaves a row that the sweep offers again; whoever outlived the lease finds the fence
raised and writes nothing.
"""

import logging
import os
import socket
import time
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Max
from django.db.models.functions import Now

from rules.engine import attribute
from rules.ruleset import Ruleset, load_ruleset
from rules.verdict import Verdict as EngineVerdict
from rules.verdict import canonical_json
from verdicts import limits
from verdicts.choices import Mode, RequestState
from verdicts.evidence import load_evidence
from verdicts.lease import Kept, Lease, LeaseLost, take
from verdicts.models import Attempt, AttributionRequest, Verdict
from verdicts.storable import storable_text
from verdicts.verdict_rows import write_verdict
from verdicts.waking import wake

log = logging.getLogger(__name__)


@cache
def current_ruleset() -> Ruleset:
    """The ruleset of this process: changed rules take effect when its workers are restarted."""
    return load_ruleset()


def worker_name() -> str:
    """Who holds a lease, for people who look at the row."""
    return f"{socket.gethostname()}:{os.getpid()}"[:255]


@transaction.atomic
def request_attribution(
    attempt_id: UUID,
    mode: Mode,
    *,
    by: User | None = None,
    delay: timedelta = timedelta(),
) -> AttributionRequest:
    """Ask for an attribution; the open request of the same mode is the answer if there is one.

    Raises Attempt.DoesNotExist.
    """
    attempt = Attempt.objects.select_for_update(of=("self",)).only("id").get(pk=attempt_id)
    request = AttributionRequest.objects.open().filter(attempt=attempt, mode=mode.value).first()
    if request is None:
        request = AttributionRequest.objects.create(
            attempt=attempt, mode=mode.value, requested_by=by, due_at=Now() + delay
        )
    elif not delay:
        AttributionRequest.objects.filter(pk=request.pk, due_at__gt=Now()).update(due_at=Now())
    request.refresh_from_db()
    if not delay:
        transaction.on_commit(lambda: wake([request.pk]))
    return request


def sweep() -> int:
    """Wake workers for requests that nobody took: never sent, sent in vain, or left by a worker that died.

    Any number of sweeps may run at once.
    """
    unheard = AttributionRequest.objects.unheard(Now(), Now() - limits.RESEND_AFTER)
    ids = list(unheard.values_list("pk", flat=True)[: limits.SWEEP_SIZE])
    return wake(ids) if ids else 0


def attribute_now(request_id: UUID, *, owner: str = "") -> Verdict | None:
    """Work off a request if it is there to be taken; None if it is done, held by another or given up.

    May be called any number of times by any number of workers.
    """
    lease = take(request_id, owner or worker_name())
    if lease is None:
        return None
    try:
        with Kept(lease):
            evidence = load_evidence(lease.attempt)
            ruleset = current_ruleset()
            concluded = attribute(
                evidence.attempt,
                evidence.observations,
                evidence.reports,
                ruleset,
                mode=lease.mode.value,
            )
        return _finish(lease, concluded, ruleset, evidence.generation)
    except LeaseLost:
        log.warning(
            "request %s was taken over while it was worked on; nothing was written",
            request_id,
        )
        return None
    except (OperationalError, InterfaceError):
        # The database is away. Nothing can be recorded now. The lease runs out and the sweep offers the request again.
        raise
    except Exception as error:
        _give_back(lease, error)
        raise


def answer_within(request_id: UUID, seconds: float) -> AttributionRequest:
    """Wait for a request to be answered, for `seconds` at most, and return it as it then stands.

    A fast request that no worker took within half of that time is worked off here: a caller's
    deadline does not depend on how busy the workers are.
    """
    start = time.monotonic()
    end = start + min(max(seconds, 0.0), limits.MAX_WAIT)
    own_try = start + (end - start) / 2
    pause = 0.02
    while True:
        request = AttributionRequest.objects.select_related("verdict").get(pk=request_id)
        now = time.monotonic()
        if request.state not in (RequestState.PENDING, RequestState.RUNNING) or now >= end:
            return request
        if request.mode == Mode.FAST and request.state == RequestState.PENDING and now >= own_try:
            own_try = end
            try:
                attribute_now(request_id)
            except Exception:
                # The row has the error and when it is tried again; the caller is shown the row.
                log.exception("attribution of request %s failed", request_id)
            continue
        time.sleep(min(pause, max(end - now, 0.0)))
        pause = min(pause * 1.5, 0.25)


@transaction.atomic
def _finish(lease: Lease, concluded: EngineVerdict, ruleset: Ruleset, generation: int) -> Verdict:
    """Write the verdict where it says something new, and end the request, or renew it if evidence came meanwhile.

    A fast answer is from what was there; what came meanwhile has asked for a slow one by itself.
    """
    attempt = Attempt.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=lease.attempt)
    mine = lease.row()
    verdict = _standing_or_new(attempt, lease, concluded, ruleset, generation)
    if attempt.generation > generation and lease.mode is Mode.SLOW:
        mine.update(
            state=RequestState.PENDING.value,
            due_at=Now(),
            sent_at=None,
            lease_owner="",
            lease_until=None,
            tries=0,
            generation=generation,
            verdict=verdict,
            error="",
        )
        transaction.on_commit(lambda: wake([lease.request]))
    else:
        mine.update(
            state=RequestState.DONE.value,
            finished_at=Now(),
            lease_owner="",
            lease_until=None,
            generation=generation,
            verdict=verdict,
            error="",
        )
    return verdict


def _standing_or_new(
    attempt: Attempt,
    lease: Lease,
    concluded: EngineVerdict,
    ruleset: Ruleset,
    generation: int,
) -> Verdict:
    """The standing verdict where the new one adds nothing to it, else the new one, which supersedes it."""
    raw = canonical_json(concluded)
    standing = attempt.verdicts.current().first()
    if standing is not None:
        outdated = generation < standing.generation
        lesser = lease.mode is Mode.FAST and standing.mode == Mode.SLOW and generation <= standing.generation
        if outdated or lesser or standing.body_json.encode() == raw:
            return standing
        attempt.verdicts.current().update(is_current=False, superseded_at=Now())
    number = (attempt.verdicts.aggregate(last=Max("number"))["last"] or 0) + 1
    return write_verdict(attempt, raw, number=number, ruleset=ruleset, generation=generation)


def _give_back(lease: Lease, error: Exception) -> None:
    """Note why a try failed and let the request be tried again later, or leave it as failed for a person."""
    text = storable_text(f"{type(error).__name__}: {error}"[:2000])
    given_up = lease.tries >= limits.MAX_TRIES
    outcome: dict[str, Any] = (
        {
            "state": RequestState.FAILED.value,
            "finished_at": Now(),
            "error": f"given up after {lease.tries} tries: {text}",
        }
        if given_up
        else {
            "state": RequestState.PENDING.value,
            "due_at": Now() + limits.RETRY_AFTER * lease.tries,
            "sent_at": None,
            "error": text,
        }
    )
    with transaction.atomic():
        try:
            held = lease.row()
        except LeaseLost:
            return
        held.update(lease_owner="", lease_until=None, **outcome)
