"""The writers of holds."""

from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from recovery import permissions
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Hold
from recovery.retention.lock import for_a_hold
from recovery.words import EntryKind
from rules.attempt import InputError
from verdicts.models import Attempt, Cluster, Workload
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

MAX_TEXT = 4000
#: Nobody is asked after a hold for longer than this.
MOST_DAYS = 3660


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a hold is over: an attempt, a workload, or what ran on a cluster from `after` until `before`."""

    attempt: Attempt | None = None
    workload: Workload | None = None
    cluster: Cluster | None = None
    after: datetime | None = None
    before: datetime | None = None


def place(scope: Scope, *, reason: str, owner: User, review_on: date, by: User) -> Hold:
    """Place a hold. From then on nothing expires of what it is over, until it is released.

    What expires at this moment is waited for. Raises NotPermitted, and InputError that names the field.
    """
    _permitted(by)
    _fits(scope)
    reason = _text("reason", reason)
    review_on = _day(review_on)
    if not owner.is_active:
        raise InputError(f"owner: the account {owner.get_username()} is closed")
    with transaction.atomic():
        for_a_hold()
        hold = Hold.objects.create(
            attempt=scope.attempt,
            workload=scope.workload,
            cluster=scope.cluster,
            after=scope.after,
            before=scope.before,
            reason=reason,
            owner=owner,
            review_on=review_on,
            placed_by=by,
        )
        hold.refresh_from_db()
        _entry(EntryKind.HOLD_SET, hold, by, reason)
    return hold


@transaction.atomic
def review(hold_id: UUID, *, review_on: date, by: User, reason: str, owner: User | None = None) -> Hold:
    """Say that a hold is still needed, and when somebody looks again; it may get another owner.

    Raises NotPermitted, InputError, Hold.DoesNotExist.
    """
    _permitted(by)
    hold = _held(hold_id)
    if hold.released_at is not None:
        raise InputError("hold: it is released already")
    hold.review_on = _day(review_on)
    hold.owner = owner or hold.owner
    hold.save(update_fields=["review_on", "owner"])
    _entry(EntryKind.HOLD_SET, hold, by, _text("reason", reason), reviewed=True)
    return hold


def release(hold_id: UUID, *, by: User, reason: str) -> Hold:
    """Release a hold: what it was over expires by its time again. One that is released already is the answer.

    Raises NotPermitted, InputError, Hold.DoesNotExist.
    """
    _permitted(by)
    reason = _text("reason", reason)
    with transaction.atomic():
        for_a_hold()
        hold = _held(hold_id)
        if hold.released_at is None:
            hold.released_at, hold.released_by, hold.released_why = timezone.now(), by, reason
            hold.save(update_fields=["released_at", "released_by", "released_why"])
            _entry(EntryKind.HOLD_ENDED, hold, by, reason)
    return hold


def _held(hold_id: UUID) -> Hold:
    rows = Hold.objects.select_for_update(of=("self",))
    return rows.select_related("attempt__cluster", "workload__cluster", "cluster", "owner").get(pk=hold_id)


def _permitted(by: User) -> None:
    if not by.has_perm(permissions.HOLD):
        raise NotPermitted("Holds are placed and released with the role lead or administrator.")


def _fits(scope: Scope) -> None:
    given = [one for one in (scope.attempt, scope.workload, scope.cluster) if one is not None]
    if len(given) != 1:
        raise InputError("scope: one attempt, one workload, or one cluster with a time range")
    if scope.cluster is None:
        if scope.after is not None or scope.before is not None:
            raise InputError("after: a time range belongs to a cluster")
    elif scope.after is None or scope.before is None:
        raise InputError("after: of a cluster, say from when and until when")
    elif scope.after >= scope.before:
        raise InputError("before: lies before its beginning")


def _text(field: str, text: str) -> str:
    text = storable_text(text).strip()
    if not text or len(text) > MAX_TEXT:
        raise InputError(f"{field}: say why, in 1 to {MAX_TEXT} characters")
    return text


def _day(day: date) -> date:
    days = (day - timezone.now().date()).days
    if not 0 <= days <= MOST_DAYS:
        raise InputError(f"review_on: today or a day of the next {MOST_DAYS // 366} years")
    return day


def _entry(kind: EntryKind, hold: Hold, by: User, reason: str, *, reviewed: bool = False) -> None:
    body = {
        "over": what(hold),
        "owner": hold.owner.get_username(),
        "review_on": hold.review_on,
        "reviewed": reviewed,
        "workload": hold.workload_id,
        "cluster": hold.cluster.name if hold.cluster else None,
        "after": hold.after,
        "before": hold.before,
    }
    ledger.record(
        kind,
        actor=Actor.user(by),
        subject=hold,
        attempt=hold.attempt_id,
        body={name: said for name, said in body.items() if said is not None},
        erasable={"reason": reason},
    )


def what(hold: Hold) -> str:
    """What a hold is over, in words."""
    if hold.attempt is not None:
        return f"job {hold.attempt}"
    if hold.workload is not None:
        return f"workload {hold.workload}"
    assert hold.cluster is not None
    assert hold.after is not None
    assert hold.before is not None
    return f"{hold.cluster} from {ledger.spelled(hold.after)[:16]}Z to {ledger.spelled(hold.before)[:16]}Z"
