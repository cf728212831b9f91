"""Delivering what subscriptions are owed, by mail or to a webhook: taken by lease, tried again, given up in the end."""

import json
import logging
import smtplib
from collections.abc import Callable
from datetime import timedelta

import httpx2
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.template.loader import render_to_string
from django.utils import timezone

from verdicts.choices import Channel, RequestState
from verdicts.logs.raw_text import spelled
from verdicts.models import Delivery, Subscription
from verdicts.people.subscribe import mail_address
from verdicts.serializers import page_of
from verdicts.webhook_send import send

log = logging.getLogger(__name__)

#: Longer than the longest a mail server or a webhook may take.
LEASE = timedelta(seconds=90)
MOST_AT_ONCE = 100
#: The pauses before the tries that follow the first; afterwards it is given up.
PAUSES = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 180, 360, 720, 1440))
LONGEST_WAIT = timedelta(days=1)


class Failed(Exception):
    """It was not delivered; `after` is when the other side wants to be asked again, `gone` that it never does."""

    def __init__(self, why: str, *, after: timedelta | None = None, gone: bool = False) -> None:
        super().__init__(why)
        self.after = after
        self.gone = gone


def deliver_due() -> int:
    """Deliver what is due, one after another; says how many were done with."""
    done = 0
    while done < MOST_AT_ONCE and (delivery := _take()) is not None:
        _deliver(delivery)
        done += 1
    return done


@transaction.atomic
def _take() -> Delivery | None:
    due = Q(state=RequestState.PENDING.value, due_at__lte=Now()) | Q(
        state=RequestState.RUNNING.value, lease_until__lte=Now()
    )
    row = (
        Delivery.objects.filter(due, subscription__active=True)
        .select_for_update(skip_locked=True, of=("self",))
        .order_by("due_at", "id")
        .first()
    )
    if row is None:
        return None
    Delivery.objects.filter(pk=row.pk).update(
        state=RequestState.RUNNING.value, lease_until=Now() + LEASE, fence=F("fence") + 1, tries=F("tries") + 1
    )
    return Delivery.objects.select_related(
        "subscription__owner", "verdict__attempt__cluster", "verdict__attempt__workload"
    ).get(pk=row.pk)


def _deliver(delivery: Delivery) -> None:
    send: Callable[[Delivery], None] = _mail if delivery.subscription.channel == Channel.EMAIL.value else _post
    try:
        send(delivery)
    except Failed as error:
        _again(delivery, error)
        return
    _finish(delivery, state=RequestState.DONE.value, error="", finished_at=Now())


def _again(delivery: Delivery, error: Failed) -> None:
    log.warning("delivery %s, try %s: %s", delivery.pk, delivery.tries, error)
    if error.gone:
        Subscription.objects.filter(pk=delivery.subscription_id).update(active=False, problem=str(error))
    if error.gone or delivery.tries > len(PAUSES):
        _finish(delivery, state=RequestState.FAILED.value, error=str(error), finished_at=Now())
        return
    pause = max(PAUSES[delivery.tries - 1], min(error.after or timedelta(), LONGEST_WAIT))
    _finish(delivery, state=RequestState.PENDING.value, error=str(error), due_at=Now() + pause)


def _finish(delivery: Delivery, **said: object) -> None:
    """Write down how it went, unless another took it over meanwhile."""
    mine = Delivery.objects.filter(pk=delivery.pk, fence=delivery.fence, state=RequestState.RUNNING.value)
    if not mine.update(lease_until=None, **said):
        log.warning("delivery %s was taken over by another worker", delivery.pk)


# --- Mail ---------------------------------------------------------------------------------------


def _mail(delivery: Delivery) -> None:
    to = mail_address(delivery.subscription.owner)
    if not to:
        raise Failed("no mail is set up, or the account has no address", gone=True)
    verdict = delivery.verdict
    words = {"verdict": verdict, "attempt": verdict.attempt, "subscription": delivery.subscription, "site": _site()}
    subject = spelled(f"[Inquest] {delivery.subscription.name}: {verdict.headline}").replace("\n", " ")
    message = EmailMessage(
        subject=subject if len(subject) <= 150 else subject[:149] + "…",
        body=render_to_string("telling/mail.txt", words | {"page": _site() + page_of(verdict)}),
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[to],
        # The same mail again after a crash has the same name: a mail program shows it once.
        headers={"Message-ID": f"<{delivery.pk}@inquest>", "Auto-Submitted": "auto-generated"},
    )
    try:
        message.send()
    except (OSError, smtplib.SMTPException) as error:
        raise Failed(f"the mail server: {type(error).__name__}: {str(error)[:300]}") from error


# --- Webhooks -----------------------------------------------------------------------------------


def _post(delivery: Delivery) -> None:
    webhook = settings.WEBHOOKS.get(delivery.subscription.webhook)
    if webhook is None:
        raise Failed(f"the settings name no webhook {delivery.subscription.webhook!r} any more", gone=True)
    body = json.dumps(_body(delivery), ensure_ascii=False, separators=(",", ":")).encode()
    sent_at = int(timezone.now().timestamp())
    try:
        answer = send(webhook, delivery.pk, sent_at, body)
    except httpx2.HTTPError as error:
        raise Failed(f"{type(error).__name__}: {str(error)[:300]}") from error
    if answer.status_code == 410:
        raise Failed("the webhook answered 410: it wants nothing more", gone=True)
    if not 200 <= answer.status_code < 300:
        raise Failed(f"the webhook answered {answer.status_code}", after=_wish(answer.headers.get("Retry-After", "")))


def _body(delivery: Delivery) -> dict[str, object]:
    verdict, attempt = delivery.verdict, delivery.verdict.attempt
    return {
        "type": "verdict.made",
        "timestamp": verdict.created_at.isoformat(),
        "data": {
            "subscription": delivery.subscription.name,
            "verdict": str(verdict.pk),
            "number": verdict.number,
            "attempt": str(attempt.pk),
            "job_id": attempt.job_id,
            "cluster": attempt.cluster.name,
            "workload": attempt.workload.name if attempt.workload else "",
            "state": verdict.state,
            "domain": verdict.domain,
            "strength": verdict.strength or None,
            "headline": verdict.headline,
            "page": _site() + page_of(verdict),
        },
    }


def _wish(text: str) -> timedelta | None:
    """How long the other side wants to be left alone, where it says so in seconds."""
    return timedelta(seconds=min(int(text), 10**6)) if text.isascii() and text.isdigit() and len(text) < 8 else None


def _site() -> str:
    return str(settings.INQUEST_PUBLIC_URL).rstrip("/")
