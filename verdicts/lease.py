"""A worker's hold on an attribution request, kept alive while it works."""

import logging
import threading
from dataclasses import dataclass
from types import TracebackType
from uuid import UUID

from django.db import DatabaseError, connections, transaction
from django.db.models import F
from django.db.models.functions import Now

from verdicts import limits
from verdicts.choices import Mode, RequestState
from verdicts.find import RequestQuerySet
from verdicts.models import AttributionRequest

log = logging.getLogger(__name__)


class LeaseLost(RuntimeError):
    """The request was taken over by another worker."""


@dataclass(frozen=True)
class Lease:
    """A hold on a request: valid while the row is running and its fence is still this one."""

    request: UUID
    attempt: UUID
    mode: Mode
    fence: int
    tries: int

    def row(self) -> RequestQuerySet:
        """The request's row, locked until the transaction ends. Raises LeaseLost."""
        mine = self._mine()
        if not mine.select_for_update(of=("self",)).exists():
            raise LeaseLost(str(self.request))
        return mine

    def renew(self) -> bool:
        """Hold it for another while; False if it is lost."""
        return bool(self._mine().update(lease_until=Now() + limits.LEASE))

    def _mine(self) -> RequestQuerySet:
        return AttributionRequest.objects.filter(pk=self.request, state=RequestState.RUNNING.value, fence=self.fence)


@transaction.atomic
def take(request_id: UUID, owner: str) -> Lease | None:
    """Take a request that is due and nobody's; None if there is nothing to take, or if it was tried too often."""
    row = (
        AttributionRequest.objects.takeable(Now())
        .select_for_update(skip_locked=True, of=("self",))
        .filter(pk=request_id)
        .first()
    )
    if row is None:
        return None
    mine = AttributionRequest.objects.filter(pk=row.pk)
    if row.tries >= limits.MAX_TRIES:
        left = row.error or "each worker that took it ended before it was done"
        mine.update(
            state=RequestState.FAILED.value,
            error=f"given up after {row.tries} tries: {left}",
            lease_until=None,
            lease_owner="",
            finished_at=Now(),
        )
        return None
    mine.update(
        state=RequestState.RUNNING.value,
        lease_owner=owner,
        lease_until=Now() + limits.LEASE,
        fence=F("fence") + 1,
        tries=F("tries") + 1,
    )
    return Lease(row.pk, row.attempt_id, Mode(row.mode), row.fence + 1, row.tries + 1)


class Kept:
    """Renews a lease from a thread of its own while the block runs, so that a short lease can cover long work.

    A killed worker takes the thread with it: its lease then runs out within seconds. A lost lease only
    ends the renewing: the fence keeps the loser from writing.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease-{lease.request}", daemon=True)

    def __enter__(self) -> Lease:
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

    def _renew(self) -> None:
        try:
            while not self._done.wait(limits.RENEW_EVERY.total_seconds()):
                try:
                    if not self._lease.renew():
                        return
                except DatabaseError as error:
                    log.warning(
                        "lease of request %s not renewed: %s",
                        self._lease.request,
                        error,
                    )
                    connections.close_all()
        finally:
            connections.close_all()
