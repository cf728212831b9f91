"""What every row of the queue of record has: whose turn it is, and who works on it until when."""

import uuid

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verdicts.choices import RequestState
from verdicts.models.attempts import Cluster


class Leased(models.Model):
    """Work that is owed. A worker holds the row for the time of its lease.

    `fence` rises with each taking, so that a worker that outlived its lease cannot finish what another took over.
    `turn_at` orders the rows of a cluster: when it was due, later by a little for each open row that its workload
    had already, so that a job which fails over and over does not keep the others waiting.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=16, default=RequestState.PENDING.value)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    due_at = models.DateTimeField(db_default=Now())
    turn_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(null=True, blank=True)
    lease_owner = models.CharField(max_length=255, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    fence = models.PositiveBigIntegerField(default=0)
    tries = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


RUNNING_HAS_LEASE = ~Q(state=RequestState.RUNNING.value) | Q(lease_until__isnull=False) & ~Q(lease_owner="")
