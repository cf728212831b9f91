"""The writers of brakes and vetoes, and the kill switch. None of them ever stops what only gives back.

A pace clears itself when its time is over; a stop stands until a person releases it with a reason. A veto leaves a
node, a job or a shared element alone, also in mid-flight: the dispatcher asks the guards before every step.
"""

from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from recovery import permissions
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Brake, Veto
from recovery.policies.promote import demote_all
from recovery.stop_file import killed
from recovery.words import BrakeKind, EntryKind, VetoKind
from rules.attempt import InputError
from verdicts.models import Cluster
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

__all__ = ["NotPermitted", "clear_due", "end_veto", "killed", "pull", "release", "set_veto"]

#: How long a pace holds where nothing else is said, and at most.
PACE, LONGEST_PACE = timedelta(hours=1), timedelta(days=7)
MAX_TEXT = 4000


def pull(
    cluster: Cluster | None,
    kind: BrakeKind,
    reason: str,
    by: User | None = None,
    *,
    part: str = "breaker",
    lasts: timedelta = PACE,
) -> Brake:
    """Stop or slow down recovery on a cluster, or on all; a brake that is pulled already is the answer.

    `by` is nobody where a part of the system does it. A pace that is pulled again lasts longer, never shorter.
    Raises NotPermitted, InputError.
    """
    if by is not None and not by.has_perm(permissions.PULL_BRAKE):
        raise NotPermitted("Pulling a brake needs the role operator, lead, policy admin or administrator.")
    reason = _reason(reason)
    if not timedelta() < lasts <= LONGEST_PACE:
        raise InputError(f"lasts: more than nothing and at most {LONGEST_PACE.days} days")
    now = timezone.now()
    clears = now + lasts if kind is BrakeKind.PACE else None
    with transaction.atomic():
        _release_if_cleared(cluster, kind, now)
        brake = Brake(cluster=cluster, kind=kind.value, reason=reason, opened_by=by, clears_at=clears)
        Brake.objects.bulk_create([brake], ignore_conflicts=True)
        pulled = Brake.objects.select_for_update(of=("self",)).get(cluster=cluster, kind=kind.value, released_at=None)
        made = pulled.pk == brake.pk
        longer = not made and clears is not None and pulled.clears_at is not None and clears > pulled.clears_at
        if longer:
            pulled.clears_at = clears
            pulled.save(update_fields=["clears_at"])
        if made or longer:
            ledger.record(
                EntryKind.BRAKE_OPENED,
                actor=Actor.user(by) if by else Actor.system(part),
                subject=pulled,
                body={
                    "kind": kind.value,
                    "cluster": cluster.name if cluster else None,
                    "clears_at": pulled.clears_at,
                    "again": longer,
                },
                erasable={"reason": reason},
            )
        if made and kind is BrakeKind.STOP:
            # In the same moment: one that is released before anybody looks must not leave a policy acting by itself.
            demote_all(cluster.name if cluster else None, "a stop was pulled", Actor.system("breaker"))
    return pulled


@transaction.atomic
def release(brake_id: UUID, *, by: User, reason: str) -> Brake:
    """Release a brake, with a reason. A stop needs the right to release; a pace may be let go by who may pull.

    Raises NotPermitted, InputError, Brake.DoesNotExist.
    """
    brake = Brake.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=brake_id)
    stop = brake.kind == BrakeKind.STOP.value
    needed = permissions.RELEASE_BRAKE if stop else permissions.PULL_BRAKE
    if not by.has_perm(needed):
        raise NotPermitted(
            "Releasing a stop needs the role lead, policy admin or administrator."
            if stop
            else "Releasing a pace needs the role operator, lead, policy admin or administrator."
        )
    reason = _reason(reason)
    if brake.released_at is None:
        _release(brake, timezone.now(), reason, Actor.user(by), by)
    return brake


def clear_due() -> int:
    """Release the paces whose time is over; says how many. They hold nothing from that time on, swept or not."""
    now = timezone.now()
    with transaction.atomic():
        due = Brake.objects.filter(kind=BrakeKind.PACE.value, released_at=None, clears_at__lte=now)
        rows = list(due.select_for_update(of=("self",), skip_locked=True).select_related("cluster"))
        for brake in rows:
            _release(brake, now, "its time is over", Actor.system("clock"))
    return len(rows)


def set_veto(
    cluster: Cluster, kind: VetoKind, value: str, *, by: User, reason: str, until: datetime | None = None
) -> Veto:
    """Leave a node, a job or a shared element alone; the veto that stands already is the answer if there is one.

    Raises NotPermitted, InputError.
    """
    if not by.has_perm(permissions.VETO):
        raise NotPermitted("A veto needs the role operator, lead or administrator.")
    reason, value = _reason(reason), storable_text(value).strip()
    if not value or len(value) > 255:
        raise InputError("value: the name of a node, a job or a group, of 1 to 255 characters")
    if any(sign in value for sign in "*?[]"):
        raise InputError("value: one name, no pattern; a group stands for many nodes")
    now = timezone.now()
    if until is not None and until <= now:
        raise InputError("until: lies in the past")
    with transaction.atomic():
        _end_if_over(cluster, kind, value, now)
        veto = Veto(cluster=cluster, kind=kind.value, value=value, reason=reason, by=by, until=until)
        Veto.objects.bulk_create([veto], ignore_conflicts=True)
        standing = Veto.objects.get(cluster=cluster, kind=kind.value, value=value, ended_at=None)
        if standing.pk == veto.pk:
            ledger.record(
                EntryKind.VETO_SET,
                actor=Actor.user(by),
                subject=standing,
                body={"kind": kind.value, "value": value, "cluster": cluster.name, "until": until},
                erasable={"reason": reason},
            )
    return standing


@transaction.atomic
def end_veto(veto_id: UUID, *, by: User, reason: str) -> Veto:
    """End a veto, with a reason. Raises NotPermitted, InputError, Veto.DoesNotExist."""
    if not by.has_perm(permissions.VETO):
        raise NotPermitted("Ending a veto needs the role operator, lead or administrator.")
    reason = _reason(reason)
    veto = Veto.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=veto_id)
    if veto.ended_at is None:
        _end_veto(veto, timezone.now(), Actor.user(by), by, reason)
    return veto


def _release_if_cleared(cluster: Cluster | None, kind: BrakeKind, now: datetime) -> None:
    """A pace whose time is over would be in the way of a new one."""
    over = Brake.objects.select_for_update(of=("self",)).filter(
        cluster=cluster, kind=kind.value, released_at=None, clears_at__lte=now
    )
    for brake in over:
        _release(brake, now, "its time is over", Actor.system("clock"))


def _release(brake: Brake, now: datetime, why: str, actor: Actor, by: User | None = None) -> None:
    brake.released_at, brake.released_by, brake.released_why = now, by, why
    brake.save(update_fields=["released_at", "released_by", "released_why"])
    ledger.record(
        EntryKind.BRAKE_RELEASED,
        actor=actor,
        subject=brake,
        body={"kind": brake.kind, "cluster": brake.cluster.name if brake.cluster else None},
        erasable={"reason": why} if by else None,
    )


def _end_if_over(cluster: Cluster, kind: VetoKind, value: str, now: datetime) -> None:
    over = Veto.objects.select_for_update(of=("self",)).filter(
        cluster=cluster, kind=kind.value, value=value, ended_at=None, until__lte=now
    )
    for veto in over:
        _end_veto(veto, now, Actor.system("clock"))


def _end_veto(veto: Veto, now: datetime, actor: Actor, by: User | None = None, reason: str = "") -> None:
    veto.ended_at, veto.ended_by = now, by
    veto.save(update_fields=["ended_at", "ended_by"])
    ledger.record(
        EntryKind.VETO_ENDED,
        actor=actor,
        subject=veto,
        body={"kind": veto.kind, "value": veto.value, "cluster": veto.cluster.name},
        erasable={"reason": reason} if reason else None,
    )


def _reason(reason: str) -> str:
    reason = storable_text(reason).strip()
    if not reason or len(reason) > MAX_TEXT:
        raise InputError(f"reason: say why, in 1 to {MAX_TEXT} characters")
    return reason
