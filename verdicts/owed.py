"""Reading the queue of record: what is owed, what may be taken, whose turn it is."""

from datetime import datetime
from typing import Self, TypeVar

from django.db import models
from django.db.models import Count, Q
from django.db.models.expressions import Combinable

from verdicts.choices import OPEN_STATES, RequestState

#: A time, or the database's own.
Moment = datetime | Combinable
R = TypeVar("R", bound=models.Model)


class OwedQuerySet(models.QuerySet[R]):
    """Rows of work, see `models.leased`."""

    def open(self) -> Self:
        """Those that are still owed."""
        return self.filter(state__in=[state.value for state in OPEN_STATES])

    def takeable(self, now: Moment) -> Self:
        """Those that a worker may take: due and nobody's, or held by a lease that ran out."""
        return self.filter(
            Q(state=RequestState.PENDING.value, due_at__lte=now)
            | Q(state=RequestState.RUNNING.value, lease_until__lte=now)
        )

    def unheard(self, now: Moment, resend_before: Moment) -> Self:
        """Those that may be taken and whose last wake-up was not heard: never sent, or sent before `resend_before`."""
        return self.takeable(now).filter(Q(sent_at__isnull=True) | Q(sent_at__lte=resend_before)).order_by("turn_at")

    def busy(self, now: Moment) -> "dict[object, int]":
        """How many rows of each cluster are being worked on."""
        held = self.filter(state=RequestState.RUNNING.value, lease_until__gt=now).order_by()
        return dict(held.values_list("cluster").annotate(number=Count("pk")))

    def clusters(self, now: Moment) -> "list[object]":
        """The clusters that have something to be taken."""
        return list(self.takeable(now).order_by().values_list("cluster", flat=True).distinct())
