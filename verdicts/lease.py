"""A worker's hold on a row of work, kept alive while it works."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import DatabaseError, connection, connections, transaction
from django.db.models import F
from django.db.models.functions import Now

from verdicts import limits
from verdicts.choices import RequestState
from verdicts.models.leased import Leased
from verdicts.owed import OwedQuerySet
from verdicts.redaction import clean_text
from verdicts.storable import storable_text

log = logging.getLogger(__name__)

#: So many seconds a worker believes that no other cluster has anything to do.
ALONE_SECONDS = 1.0

R = TypeVar("R", bound=Leased)


class LeaseLost(RuntimeError):
    """The row was taken over by another worker."""


def worker_name() -> str:
    """Who holds a lease, for people who look at the row."""
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident() % 10_000}"[:255]


@dataclass(frozen=True)
class Lease(Generic[R]):
    """A hold on a row as it was when it was taken: valid while it is running and its fence is still this one."""

    row: R

    def locked(self) -> "OwedQuerySet[R]":
        """The row as a queryset, locked until the transaction ends. Raises LeaseLost."""
        mine = self._mine()
        if not mine.select_for_update(of=("self",)).exists():
            raise LeaseLost(str(self.row.pk))
        return mine

    def renew(self, **progress: Any) -> bool:
        """Hold it for another while, and say how far the work is; False if it is lost."""
        return bool(self._mine().update(lease_until=Now() + limits.LEASE, **progress))

    def release(self, state: RequestState, **said: Any) -> None:
        """End the hold, with the row in its new state. Raises LeaseLost: then the transaction must not commit."""
        final = state in (RequestState.DONE, RequestState.FAILED)
        said = ({"finished_at": Now()} if final else {"sent_at": None}) | said
        if not self._mine().update(state=state.value, lease_owner="", lease_until=None, **said):
            raise LeaseLost(str(self.row.pk))

    def give_back(self, error: Exception, *, retry_after: timedelta = limits.RETRY_AFTER) -> None:
        """Note why a try failed and let it be tried again later, or leave it as failed for a person to see."""
        text = storable_text(clean_text(f"{type(error).__name__}: {error}")[:2000])
        tries = self.row.tries
        with transaction.atomic():
            try:
                self.locked()
            except LeaseLost:
                return
            if tries >= limits.MAX_TRIES:
                self.release(RequestState.FAILED, error=f"given up after {tries} tries: {text}")
            else:
                self.release(RequestState.PENDING, error=text, due_at=Now() + retry_after * tries)

    def _mine(self) -> "OwedQuerySet[R]":
        rows: OwedQuerySet[R] = type(self.row).objects  # type: ignore[attr-defined]
        return rows.filter(pk=self.row.pk, state=RequestState.RUNNING.value, fence=self.row.fence)


def take(model: type[R], pk: UUID, owner: str = "") -> Lease[R] | None:
    """Take a row that is due and nobody's; None if there is nothing to take, or if it was tried too often."""
    rows: OwedQuerySet[R] = model.objects  # type: ignore[attr-defined]
    with transaction.atomic():
        return _hold(rows.takeable(Now()).filter(pk=pk), owner)


class Turns(Generic[R]):
    """Takes the rows of a table one after another, each in its turn.

    Clusters take turns: the one with the fewest rows being worked on comes first, and within it the row whose
    turn came first. Two workers that look at once may both pick the same cluster; neither picks the other's row.
    """

    def __init__(self, model: type[R], owner: str = "") -> None:
        self._model, self._owner = model, owner or worker_name()
        self._alone: object = None
        self._believed_until = 0.0

    def take(self) -> Lease[R] | None:
        """Take the row whose turn it is; None if there is nothing to take."""
        # Where only one cluster had anything a moment ago, it is not asked before each row whether another has.
        if time.monotonic() < self._believed_until and (lease := self._hold_first(self._alone)):
            return lease
        self._believed_until = 0.0
        rows: OwedQuerySet[R] = self._model.objects  # type: ignore[attr-defined]
        waiting = rows.clusters(Now())
        if len(waiting) > 1:
            busy = rows.busy(Now())
            waiting.sort(key=lambda cluster: (busy.get(cluster, 0), str(cluster)))
        elif waiting:
            self._alone, self._believed_until = waiting[0], time.monotonic() + ALONE_SECONDS
        for cluster in waiting:
            if lease := self._hold_first(cluster):
                return lease
        return None

    def _hold_first(self, cluster: object) -> Lease[R] | None:
        """Take a cluster's row whose turn came first, in one statement: workers do this all the time."""
        table = connection.ops.quote_name(self._model._meta.db_table)  # noqa: SLF001
        taken: Any = self._model._default_manager.raw(  # noqa: SLF001
            f"""
            UPDATE {table}
            SET state = 'running', lease_owner = %(owner)s, lease_until = statement_timestamp() + %(lease)s,
                fence = fence + 1, tries = tries + 1
            WHERE id = (
                SELECT id FROM {table}
                WHERE cluster_id IS NOT DISTINCT FROM %(cluster)s AND state IN ('pending', 'running')
                  AND (state = 'pending' AND due_at <= statement_timestamp()
                       OR state = 'running' AND lease_until <= statement_timestamp())
                  AND tries < %(most)s
                ORDER BY turn_at LIMIT 1 FOR UPDATE SKIP LOCKED
            ) RETURNING *
            """,  # noqa: S608 - the table's own name
            {"owner": self._owner, "lease": limits.LEASE, "cluster": cluster, "most": limits.MAX_TRIES},
        )
        row = next(iter(taken), None)
        return Lease(row) if row is not None else None


def give_up(model: type[Leased]) -> int:
    """Leave the rows as failed that every worker which took them died of; says how many."""
    rows: OwedQuerySet[Any] = model.objects  # type: ignore[attr-defined]
    lost = rows.takeable(Now()).filter(tries__gte=limits.MAX_TRIES)
    left = 0
    for row in lost.only("pk", "tries", "error")[: limits.SWEEP_SIZE]:
        said = row.error or "each worker that took it ended before it was done"
        left += (
            rows.takeable(Now())
            .filter(pk=row.pk, tries=row.tries)
            .update(
                state=RequestState.FAILED.value,
                error=f"given up after {row.tries} tries: {said}",
                lease_until=None,
                lease_owner="",
                finished_at=Now(),
            )
        )
    return left


def _hold(rows: "OwedQuerySet[R]", owner: str) -> Lease[R] | None:
    row = rows.select_for_update(skip_locked=True, of=("self",)).first()
    if row is None:
        return None
    mine = type(row).objects.filter(pk=row.pk)  # type: ignore[attr-defined]
    if row.tries >= limits.MAX_TRIES:
        return None
    row.state, row.lease_owner = RequestState.RUNNING.value, owner or worker_name()
    row.fence, row.tries = row.fence + 1, row.tries + 1
    mine.update(
        state=row.state,
        lease_owner=row.lease_owner,
        lease_until=Now() + limits.LEASE,
        fence=F("fence") + 1,
        tries=F("tries") + 1,
    )
    return Lease(row)


class Kept:
    """Renews a lease from a thread of its own while the block runs, so that a short lease can cover long work.

    A killed worker takes the thread with it: its lease then runs out within seconds. A lost lease only
    ends the renewing: the fence keeps the loser from writing.
    """

    def __init__(self, lease: Lease[Any], progress: Callable[[], dict[str, Any]] = dict) -> None:
        self._lease, self._progress = lease, progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease-{lease.row.pk}", daemon=True)

    def __enter__(self) -> Lease[Any]:
        self._thread.start()
        return self._lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join(timeout=limits.RENEW_EVERY.total_seconds())

    def _said(self) -> dict[str, Any]:
        """How far the work is, which goes on in another thread: that it cannot be said must not lose the lease."""
        try:
            return self._progress()
        except Exception:
            log.warning("how far the work on %s is could not be said", self._lease.row.pk, exc_info=True)
            return {}

    def _renew(self) -> None:
        try:
            while not self._done.wait(limits.RENEW_EVERY.total_seconds()):
                try:
                    if not self._lease.renew(**self._said()):
                        return
                except DatabaseError as error:
                    log.warning(
                        "lease of %s not renewed: %s",
                        self._lease.row.pk,
                        error,
                    )
                    connections.close_all()
        finally:
            connections.close_all()
