"""The writers of attribution requests and verdicts.

A request is a row; Celery only wakes a worker. A worker takes the row for the time of a lease, reads the
evidence, asks the engine and writes the verdict in one transaction that also ends the request. Whoever is
killed in between leaves a row that the sweep offers again; whoever outlived the lease finds the fence
raised and writes nothing.
"""

import logging
import time
from datetime import timedelta
from functools import cache
from uuid import UUID, uuid4

from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, transaction
from django.db.models.functions import Now

from rules.engine import attribute
from rules.ruleset import Ruleset, load_ruleset
from rules.verdict import Verdict as EngineVerdict
from rules.verdict import canonical_json
from verdicts import limits
from verdicts.choices import Mode, RequestState
from verdicts.evidence import load_evidence
from verdicts.expired import require_lines
from verdicts.lease import Kept, Lease, LeaseLost, Turns, give_up, take
from verdicts.models import Attempt, AttributionRequest, Verdict
from verdicts.verdict_rows import write_verdict
from verdicts.waking import go_on, wake, wake_again, worthwhile

log = logging.getLogger(__name__)

#: How long late evidence may gather before the attempt is attributed again by itself.
LATE_EVIDENCE_DELAY = timedelta(seconds=3)


@cache
def current_ruleset() -> Ruleset:
    """The ruleset of this process: changed rules take effect when its workers are restarted."""
    return load_ruleset()


@transaction.atomic
def request_attribution(
    attempt_id: UUID,
    mode: Mode,
    *,
    by: User | None = None,
    delay: timedelta = timedelta(),
) -> AttributionRequest:
    """Ask for an attribution; the open request of the same mode is the answer if there is one.

    Raises Attempt.DoesNotExist and EvidenceExpired.
    """
    needed = ("id", "cluster_id", "workload_id", "lines_expired_at")
    attempt = Attempt.objects.select_for_update(of=("self",)).only(*needed).get(pk=attempt_id)
    require_lines(attempt)
    request = ask(attempt, mode, by=by, delay=delay)
    request.refresh_from_db()
    return request


def ask(
    attempt: Attempt,
    mode: Mode,
    *,
    by: User | None = None,
    delay: timedelta = timedelta(),
) -> AttributionRequest:
    """The same for who holds the attempt's lock."""
    request = _made(attempt, mode, by=by, delay=delay)
    send = not delay and (request is None or request.sent_at is not None)
    if request is None:
        standing = AttributionRequest.objects.open().filter(attempt=attempt, mode=mode.value)
        if not delay:
            standing.filter(due_at__gt=Now()).update(due_at=Now())
        # One that was given up just now, for which nobody takes the attempt's lock, does not stand any more.
        request = standing.first() or _made(attempt, mode, by=by, delay=delay) or standing.get()
    if send:
        transaction.on_commit(lambda: wake([request.pk]))
    return request


def _made(attempt: Attempt, mode: Mode, *, by: User | None, delay: timedelta) -> AttributionRequest | None:
    """A new request, None where one of that mode is open; in one statement, for every attempt passes here.

    An attempt lets others go first: a little for each that its workload has in the queue already.
    """
    made = AttributionRequest.objects.raw(
        """
        INSERT INTO verdicts_attributionrequest (id, attempt_id, cluster_id, mode, requested_by_id, state, due_at,
            turn_at, sent_at, lease_owner, fence, tries, error)
        SELECT %(id)s, %(attempt)s, %(cluster)s, %(mode)s, %(by)s, 'pending', due_at, due_at + %(step)s * crowd.size,
            CASE WHEN %(send)s THEN due_at END, '', 0, 0, ''
        FROM (SELECT statement_timestamp() + %(delay)s AS due_at) AS time,
            (SELECT count(*) AS size FROM (
                SELECT FROM verdicts_attributionrequest AS request
                JOIN verdicts_attempt AS attempt ON attempt.id = request.attempt_id
                WHERE attempt.workload_id = %(workload)s AND request.state IN ('pending', 'running')
                LIMIT %(most)s) AS open_ones) AS crowd
        ON CONFLICT DO NOTHING RETURNING *
        """,
        {
            "id": uuid4(),
            "attempt": attempt.pk,
            "cluster": attempt.cluster_id,
            "mode": mode.value,
            "by": by.pk if by else None,
            # Somebody may wait for the answer.
            "send": not delay and (by is not None or worthwhile(AttributionRequest)),
            "delay": delay,
            # Nobody goes before a person who asks.
            "workload": None if by else attempt.workload_id,
            "step": limits.CROWD_STEP,
            "most": limits.MAX_CROWD,
        },
    )
    return next(iter(made), None)


def sweep() -> int:
    """Wake workers for requests that nobody took: never sent, sent in vain, or left by a worker that died.

    Any number of sweeps may run at once.
    """
    give_up(AttributionRequest)
    return wake_again(AttributionRequest)


def work() -> int:
    """Work off requests, each in its turn, until none is left or it is time to let the worker look for other tasks."""
    end, done, turns = time.monotonic() + limits.WORK_SECONDS, 0, Turns(AttributionRequest)
    while time.monotonic() < end and (lease := turns.take()) is not None:
        done += 1
        try:
            _answer(lease)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            # The row has the error and when it is tried again; the others must not wait for it.
            log.exception("attribution of request %s failed", lease.row.pk)
    if time.monotonic() >= end:
        go_on(AttributionRequest)
    return done


def attribute_now(request_id: UUID, *, owner: str = "") -> Verdict | None:
    """Work off a request if it is there to be taken; None if it is done, held by another or given up.

    May be called any number of times by any number of workers.
    """
    lease = take(AttributionRequest, request_id, owner)
    return _answer(lease) if lease is not None else None


def _answer(lease: Lease[AttributionRequest]) -> Verdict | None:
    """Attribute what a request asks for, and write it."""
    try:
        with Kept(lease):
            evidence = load_evidence(lease.row.attempt_id)
            ruleset = current_ruleset()
            concluded = attribute(
                evidence.attempt,
                evidence.observations,
                evidence.reports,
                ruleset,
                mode=lease.row.mode,
            )
        return _finish(lease, concluded, ruleset, evidence.generation)
    except LeaseLost:
        log.warning(
            "request %s was taken over while it was worked on; nothing was written",
            lease.row.pk,
        )
        return None
    except (OperationalError, InterfaceError):
        # The database is away. Nothing can be recorded now. The lease runs out and the sweep offers the request again.
        raise
    except Exception as error:
        lease.give_back(error)
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
def _finish(lease: Lease[AttributionRequest], concluded: EngineVerdict, ruleset: Ruleset, generation: int) -> Verdict:
    """Write the verdict where it says something new, and end the request, or renew it if evidence came meanwhile.

    A fast answer is from what was there; what came meanwhile has asked for a slow one by itself.
    """
    attempt = Attempt.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=lease.row.attempt_id)
    mode = Mode(lease.row.mode)
    verdict = _standing_or_new(attempt, mode, concluded, ruleset, generation)
    if attempt.generation > generation and mode is Mode.SLOW:
        lease.release(
            RequestState.PENDING, due_at=Now(), tries=0, generation=generation, verdict=verdict, error="", sent_at=Now()
        )
        transaction.on_commit(lambda: wake([lease.row.pk]))
    else:
        lease.release(RequestState.DONE, generation=generation, verdict=verdict, error="")
    return verdict


def _standing_or_new(
    attempt: Attempt,
    mode: Mode,
    concluded: EngineVerdict,
    ruleset: Ruleset,
    generation: int,
) -> Verdict:
    """The standing verdict where the new one adds nothing to it, else the new one, which supersedes it."""
    raw = canonical_json(concluded)
    last = attempt.verdicts.order_by("-number").first()
    standing = last if last is not None and last.is_current else None
    if standing is not None:
        outdated = generation < standing.generation
        lesser = mode is Mode.FAST and standing.mode == Mode.SLOW and generation <= standing.generation
        if outdated or lesser or standing.body_json.encode() == raw:
            return standing
        attempt.verdicts.current().update(is_current=False, superseded_at=Now())
    number = last.number + 1 if last is not None else 1
    return write_verdict(attempt, raw, number=number, ruleset=ruleset, generation=generation)
