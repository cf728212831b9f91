"""Who wants to be told of which verdicts, and what is owed to them."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verdicts.choices import Channel, RequestState
from verdicts.models.checks import OPEN, closed
from verdicts.models.judgements import Verdict


class Subscription(models.Model):
    """A filter of the list whose new verdicts somebody is told of.

    Mail goes to the owner's own address, a webhook to one that the settings name: nobody types an address.
    `looked_until` is up to when verdicts were looked through for it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="subscriptions")
    name = models.CharField(max_length=80)
    query = models.TextField(blank=True, help_text="The filters, as in the list's address.")
    channel = models.CharField(max_length=16)
    webhook = models.CharField(max_length=80, blank=True, help_text="Its name in the settings.")
    active = models.BooleanField(default=True)
    problem = models.TextField(blank=True, help_text="Why it was switched off by itself.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    looked_until = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name", "id"]
        permissions = [("manage_webhooks", "Can have verdicts told to the site's webhooks")]
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="subscription_name_of_owner"),
            models.CheckConstraint(name="subscription_has_name", condition=~Q(name="")),
            models.CheckConstraint(
                name="subscription_webhook_named",
                condition=Q(channel=Channel.WEBHOOK.value) & ~Q(webhook="")
                | ~Q(channel=Channel.WEBHOOK.value) & Q(webhook=""),
            ),
            closed("subscription", "channel", Channel),
        ]

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One verdict owed to one subscription; the row is the queue, held by a lease while somebody delivers it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="deliveries")
    verdict = models.ForeignKey(Verdict, on_delete=models.CASCADE, related_name="deliveries")
    state = models.CharField(max_length=16, default=RequestState.PENDING.value)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    due_at = models.DateTimeField(db_default=Now())
    lease_until = models.DateTimeField(null=True, blank=True)
    fence = models.PositiveBigIntegerField(default=0)
    tries = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["subscription", "verdict"], name="delivery_once"),
            models.CheckConstraint(
                name="delivery_running_has_lease",
                condition=~Q(state=RequestState.RUNNING.value) | Q(lease_until__isnull=False),
            ),
            closed("delivery", "state", RequestState),
        ]
        indexes = [models.Index(fields=["due_at"], name="delivery_open_due", condition=OPEN)]

    def __str__(self) -> str:
        return self.state
