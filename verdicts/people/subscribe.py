"""Telling people of verdicts: subscriptions are kept here, and what they are owed is found and written down.

Nothing is called when a verdict is made. What is new is looked for from time to time, so that a slow mail server or a
filter that fails holds up no attribution.
"""

import logging
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import QueryDict
from django.utils import timezone

from rules.attempt import InputError
from verdicts import permissions
from verdicts.choices import Channel, RequestState
from verdicts.listing.filter_form import filters_of
from verdicts.listing.read import PAGING, asked, problems
from verdicts.models import Delivery, ListRow, Subscription
from verdicts.own import own
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

log = logging.getLogger(__name__)

MOST_SUBSCRIPTIONS = 30
LONGEST_NAME = 80
#: A verdict is written with the time at which its transaction began: looked for this much further back than needed.
LATE = timedelta(minutes=5)
#: What a filter that suddenly matches everything may owe in one look; the rest is found in the next.
MOST_AT_ONCE = 200
#: Deliveries are kept so long after they are over.
KEPT = timedelta(days=30)


def subscriptions_of(user: User) -> QuerySet[Subscription]:
    """Somebody's own subscriptions."""
    return Subscription.objects.filter(owner=user)


def mail_address(user: User) -> str:
    """Where mail to somebody goes: the address of their account, if there is one and mail is set up."""
    if not settings.EMAIL_URL:
        return ""
    try:
        validate_email(user.email)
    except ValidationError:
        return ""
    return user.email


@transaction.atomic
def subscribe(name: str, query: str, channel: Channel, *, by: User, webhook: str = "") -> Subscription:
    """Have somebody told of new verdicts that a filter of the list finds.

    Raises InputError, and NotPermitted for a webhook without the right to have the site's told.
    """
    name = " ".join(storable_text(name).split())
    if not name or len(name) > LONGEST_NAME:
        raise InputError(f"name: 1 to {LONGEST_NAME} characters")
    if channel is Channel.EMAIL and not mail_address(by):
        raise InputError("channel: this site sends no mail, or your account has no address")
    if channel is Channel.WEBHOOK:
        if not permissions.may_use_webhooks(by):
            raise NotPermitted("a webhook needs the role policy admin or administrator")
        if webhook not in settings.WEBHOOKS:
            raise InputError(f"webhook: {webhook!r} is none of the site's")
    data = filters_of(query, "query", without=(*PAGING, "order")).data
    User.objects.select_for_update(of=("self",)).only("pk").get(pk=by.pk)
    if subscriptions_of(by).count() >= MOST_SUBSCRIPTIONS:
        raise InputError(f"name: there are {MOST_SUBSCRIPTIONS} subscriptions already; end one first")
    if subscriptions_of(by).filter(name=name).exists():
        raise InputError("name: there is a subscription of this name")
    made = Subscription.objects.create(
        owner=by,
        name=name,
        query=data.urlencode(),
        channel=channel.value,
        webhook=webhook if channel is Channel.WEBHOOK else "",
    )
    made.refresh_from_db()
    return made


def switch(subscription_id: UUID, *, on: bool, by: User) -> None:
    """Pause a subscription of one's own or let it go on; what happened meanwhile is not told. Raises DoesNotExist."""
    changed = subscriptions_of(by).filter(pk=subscription_id).update(active=on, problem="", looked_until=Now())
    if not changed:
        raise Subscription.DoesNotExist
    if not on:
        Delivery.objects.filter(subscription_id=subscription_id, state=RequestState.PENDING.value).delete()


def unsubscribe(subscription_id: UUID, *, by: User) -> None:
    """End a subscription of one's own, with what it is owed. Raises DoesNotExist."""
    deleted, _ = subscriptions_of(by).filter(pk=subscription_id).delete()
    if not deleted:
        raise Subscription.DoesNotExist


def look() -> int:
    """Write down what active subscriptions are owed; says how much is new."""
    owed = 0
    for subscription in Subscription.objects.filter(active=True, owner__is_active=True).select_related("owner"):
        owed += _look_for(subscription)
    Delivery.objects.filter(finished_at__lt=Now() - KEPT).delete()
    return owed


def _look_for(subscription: Subscription) -> int:
    if not permissions.may_read(subscription.owner):
        _end(subscription, "its owner may no longer read verdicts")
        return 0
    now = timezone.now()
    query = QueryDict(subscription.query)
    filters = asked(query, ListRow.objects.filter(own(), verdict__isnull=False, is_current=True))
    if problems(filters):
        _end(subscription, "its filter is no longer understood")
        return 0
    told = Delivery.objects.filter(subscription=subscription).values("verdict_id")
    rows = (
        filters.qs.filter(created_at__gt=subscription.looked_until - LATE, created_at__gte=subscription.created_at)
        .exclude(verdict_id__in=told)
        .order_by("created_at", "id")[:MOST_AT_ONCE]
    )
    new = list(rows.values_list("verdict_id", "created_at"))
    Delivery.objects.bulk_create(
        [Delivery(subscription=subscription, verdict_id=verdict) for verdict, _ in new], ignore_conflicts=True
    )
    until = new[-1][1] if len(new) == MOST_AT_ONCE else now
    Subscription.objects.filter(pk=subscription.pk).update(looked_until=until)
    return len(new)


def _end(subscription: Subscription, why: str) -> None:
    log.warning("subscription %s is switched off: %s", subscription.pk, why)
    Subscription.objects.filter(pk=subscription.pk).update(active=False, problem=why)
