"""Promotion and demotion: up on the record by two people, down by one, or at once by what is found.

Each writes its entry into the ledger in the same transaction.
"""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from recovery import permissions
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Policy, Promotion, Scope
from recovery.policies import find, meter
from recovery.words import EntryKind, PolicyMode
from rules.attempt import InputError
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

log = logging.getLogger(__name__)

#: How long `automatic` lasts until it has to be earned again.
LASTS = timedelta(days=90)
LONGEST_REASON = 4000
ORDER = (PolicyMode.OBSERVE, PolicyMode.ADVISORY, PolicyMode.AUTOMATIC)


class NotPromotable(ValueError):
    """The promotion cannot be had now; the message says what is wanting."""


@transaction.atomic
def ask_promotion(scope_id: UUID, to: PolicyMode, *, by: User, reason: str) -> Promotion:
    """Ask for a scope's next mode. `advisory` is granted at once; `automatic` needs the record and a second person.

    Raises NotPermitted, and NotPromotable with all that is wanting.
    """
    require(by, permissions.PROMOTE, "Promoting a policy needs the role lead or policy admin.")
    reason = reason_of(reason)
    scope = held_scope(scope_id)
    reading = find.reading_of(scope)
    step = find.step_up(scope, reading, by)
    if step is None or step.to is not to:
        raise NotPromotable(f"From {scope.mode} there is no step to {to.value} now.")
    if step.wanting:
        raise NotPromotable(" ".join(step.wanting))
    promotion = Promotion.objects.create(
        scope=scope,
        version=find.present(scope.policy),
        to_mode=to.value,
        asked_by=by,
        reason=reason,
        meter=find.snapshot(reading),
    )
    ledger.record(
        EntryKind.PROMOTION_ASKED,
        actor=Actor.user(by),
        subject=scope,
        body=_named(scope) | {"to": to.value, "promotion": promotion.pk, "meter": promotion.meter},
        erasable={"reason": reason},
    )
    if to is PolicyMode.ADVISORY:
        _grant(promotion, scope, by)
    promotion.refresh_from_db()
    return promotion


@transaction.atomic
def second(promotion_id: UUID, *, by: User) -> Promotion:
    """Agree to a promotion, as the second person. The record is looked at again, and so is who asked."""
    require(by, permissions.PROMOTE, "Promoting a policy needs the role lead or policy admin.")
    scope = held_scope(Promotion.objects.values_list("scope_id", flat=True).get(pk=promotion_id))
    promotion = Promotion.objects.select_related("asked_by", "version", "scope__policy").get(pk=promotion_id)
    if promotion.ended_at is not None:
        raise NotPromotable("This promotion is over: ask anew.")
    wanting = find.second_wanting(promotion, by)
    if not promotion.asked_by.is_active or not promotion.asked_by.has_perm(permissions.PROMOTE):
        wanting.append(f"{promotion.asked_by} may no longer promote: somebody else has to ask.")
    if promotion.version_id != find.present(scope.policy).pk:
        wanting.append("The policy was changed since it was asked for.")
    reading = find.reading_of(scope)
    wanting += find.record_wanting(reading)
    if wanting:
        raise NotPromotable(" ".join(wanting))
    promotion.seconded_by = by
    promotion.meter = find.snapshot(reading)
    promotion.save(update_fields=["seconded_by", "meter"])
    _grant(promotion, scope, by)
    promotion.refresh_from_db()
    return promotion


@transaction.atomic
def decline(promotion_id: UUID, *, by: User, reason: str) -> Promotion:
    """End a promotion without granting it: who asked takes it back, or somebody who may promote says no."""
    require(by, permissions.PROMOTE, "This needs the role lead or policy admin.")
    reason = reason_of(reason)
    scope = held_scope(Promotion.objects.values_list("scope_id", flat=True).get(pk=promotion_id))
    promotion = scope.promotions.filter(pk=promotion_id, ended_at__isnull=True).first()
    if promotion is None:
        raise NotPromotable("This promotion is over already.")
    end_promotion(scope, Actor.user(by), "declined", reason)
    promotion.refresh_from_db()
    return promotion


@transaction.atomic
def demote(scope: Scope, why: str, actor: Actor, *, to: PolicyMode = PolicyMode.ADVISORY) -> Scope:
    """Lower a scope's mode at once; nothing happens where it is as low already. For the system's own reasons."""
    held = held_scope(scope.pk)
    end_promotion(held, actor, why)
    if ORDER.index(PolicyMode(held.mode)) > ORDER.index(to):
        set_mode(held, to, why, actor)
    elif held.mode_until is not None and held.mode != PolicyMode.AUTOMATIC.value:
        # It waited for a replay to give `automatic` back: there is nothing to give back any more.
        held.mode_until, held.said = None, why
        held.save(update_fields=["mode_until", "said"])
    return held


@transaction.atomic
def demote_by_hand(scope_id: UUID, to: PolicyMode, *, by: User, reason: str) -> Scope:
    """Lower a scope's mode: one person, at any time."""
    require(by, permissions.DEMOTE, "Demoting a policy needs the role operator, lead or policy admin.")
    reason = reason_of(reason)
    scope = held_scope(scope_id)
    if ORDER.index(PolicyMode(scope.mode)) <= ORDER.index(to):
        raise InputError(f"to: it is in {scope.mode} already, which is not above {to.value}")
    end_promotion(scope, Actor.user(by), "the policy was demoted")
    set_mode(scope, to, f"demoted by {by}", Actor.user(by), erasable={"reason": reason})
    return scope


def demote_all(cluster: str | None, why: str, actor: Actor) -> int:
    """Nothing acts by itself any more on a cluster, or anywhere if none is named: for a breaker. Says how many did.

    What only waits for a replay to be given `automatic` back is not given it.
    """
    scopes = Scope.objects.filter(Q(mode=PolicyMode.AUTOMATIC.value) | Q(mode_until__isnull=False))
    found = list(scopes if cluster is None else scopes.filter(cluster=cluster))
    for scope in found:
        demote(scope, why, actor)
    return len(found)


def look(scope: Scope) -> str:
    """Look whether the record still allows a scope to act by itself, and demote it if not; says why."""
    if scope.mode != PolicyMode.AUTOMATIC.value:
        return ""
    cases = find.cases_of(scope, found_wrong=True)
    why = meter.why_demote(cases, since=scope.mode_since, now=timezone.now())
    if why:
        demote(scope, why, Actor.system("meter"))
    return why


def _grant(promotion: Promotion, scope: Scope, by: User) -> None:
    """Raise the mode; whoever completed it is the actor, and the entry names both."""
    now, to = timezone.now(), PolicyMode(promotion.to_mode)
    promotion.granted, promotion.ended_at = True, now
    promotion.save(update_fields=["granted", "ended_at"])
    people = [person.get_username() for person in (promotion.asked_by, promotion.seconded_by) if person]
    scope.mode, scope.mode_since = to.value, now
    scope.mode_until = now + LASTS if to is PolicyMode.AUTOMATIC else None
    scope.ruleset = find.ruleset_of(scope)
    scope.said = f"promoted by {' and '.join(people)}"
    scope.save(update_fields=["mode", "mode_since", "mode_until", "ruleset", "said"])
    ledger.record(
        EntryKind.POLICY_PROMOTED,
        actor=Actor.user(by),
        subject=scope,
        body=_named(scope)
        | {
            "to": to.value,
            "until": scope.mode_until,
            "version": promotion.version.number,
            "ruleset": scope.ruleset,
            "promotion": promotion.pk,
            "people": people,
            "meter": promotion.meter,
        },
    )


def set_mode(scope: Scope, to: PolicyMode, why: str, actor: Actor, erasable: Mapping[str, str] | None = None) -> None:
    """Lower the mode of a scope that is held, with its entry."""
    before = scope.mode
    scope.mode, scope.mode_since, scope.mode_until, scope.said = to.value, timezone.now(), None, why
    scope.save(update_fields=["mode", "mode_since", "mode_until", "said"])
    ledger.record(
        EntryKind.POLICY_DEMOTED,
        actor=actor,
        subject=scope,
        body=_named(scope) | {"from": before, "to": to.value, "why": why},
        erasable=erasable,
    )
    log.warning("policy %s was demoted from %s to %s: %s", scope, before, to.value, why)


def end_promotion(scope: Scope, actor: Actor, why: str, reason: str = "") -> None:
    """End what was asked for and not granted, if there is something."""
    promotion = scope.promotions.filter(ended_at__isnull=True).first()
    if promotion is None:
        return
    promotion.ended_at = timezone.now()
    promotion.save(update_fields=["ended_at"])
    ledger.record(
        EntryKind.PROMOTION_ASKED,
        actor=actor,
        subject=scope,
        body=_named(scope) | {"to": promotion.to_mode, "promotion": promotion.pk, "ended": why, "granted": False},
        erasable={"reason": reason} if reason else None,
    )


def _named(scope: Scope) -> dict[str, Any]:
    return {"policy": scope.policy.name, "cluster": scope.cluster, "domain": scope.domain}


def held_scope(scope_id: UUID) -> Scope:
    """The scope, locked. Its policy is locked first, as in a change: two writers never wait for each other."""
    policy_id = Scope.objects.values_list("policy_id", flat=True).get(pk=scope_id)
    Policy.objects.select_for_update().get(pk=policy_id)
    return Scope.objects.select_for_update(of=("self",)).select_related("policy").get(pk=scope_id)


def require(by: User, permission: str, needs: str) -> None:
    """Raise NotPermitted unless they may."""
    if not by.has_perm(permission):
        raise NotPermitted(needs)


def reason_of(text: str) -> str:
    """A reason as it is stored. Raises InputError where there is none."""
    text = storable_text(text).strip()
    if not text or len(text) > LONGEST_REASON:
        raise InputError(f"reason: 1 to {LONGEST_REASON} characters")
    return text
