"""What ends `automatic` without anybody asking: time, the record, a stop, another ruleset, drift in what rules see.

A scope that was suspended because the ruleset changed keeps its `mode_until`: a replay that speaks for it gives it back
what it had, see `recovery.replay.gate`.
"""

import logging
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from recovery.ledger.entries import Actor
from recovery.models import Brake, Promotion, Scope
from recovery.policies import find
from recovery.policies.promote import LASTS, demote, demote_all, end_promotion, held_scope, look, set_mode
from recovery.replay import gate
from recovery.words import BrakeKind, PolicyMode
from verdicts import conclude
from verdicts.models import DriftCheck

log = logging.getLogger(__name__)

#: A promotion that finds no second person in so long is over.
ASKED_FOR = timedelta(days=14)
AUTOMATIC = PolicyMode.AUTOMATIC.value


def sweep() -> int:
    """Do all of it; says how much there was to do."""
    done = expire_due() + obey_brakes() + heed_rulesets() + heed_drift()
    # A label that fell due without being given counts as wrong, and nobody wrote anything at that moment.
    done += sum(bool(look(scope)) for scope in Scope.objects.filter(mode=AUTOMATIC).select_related("policy"))
    return done + settle_suspended()


def expire_due() -> int:
    """End what has run out: `automatic` after its 90 days, promotions without a second person. Says how many."""
    now, ended = timezone.now(), 0
    for scope in Scope.objects.filter(mode=AUTOMATIC, mode_until__lte=now):
        demote(scope, f"automatic lasts {LASTS.days} days, then it has to be earned again", Actor.system("meter"))
        ended += 1
    for promotion in Promotion.objects.filter(ended_at__isnull=True, asked_at__lt=now - ASKED_FOR):
        with transaction.atomic():
            scope = held_scope(promotion.scope_id)
            end_promotion(scope, Actor.system("meter"), f"nobody agreed within {ASKED_FOR.days} days")
        ended += 1
    return ended


def obey_brakes() -> int:
    """Where a stop was pulled, nothing goes on by itself after its release unless it is promoted anew."""
    stops = Brake.objects.filter(kind=BrakeKind.STOP.value, released_at__isnull=True).select_related("cluster")
    return sum(
        demote_all(stop.cluster.name if stop.cluster else None, "a stop was pulled", Actor.system("breaker"))
        for stop in stops
    )


def heed_rulesets() -> int:
    """Suspend what acts by itself on the word of another ruleset than it was promoted with, unless a replay of that
    ruleset speaks for it already. Says how many changed.
    """
    changed = 0
    for scope in Scope.objects.filter(mode=AUTOMATIC).select_related("policy"):
        digest = find.ruleset_of(scope)
        if digest == scope.ruleset:
            continue
        told = gate.of_scope(scope, digest)
        if told.passes:
            changed += gate.keep_automatic(scope, told)
            continue
        with transaction.atomic():
            held = held_scope(scope.pk)
            if held.mode != AUTOMATIC or held.ruleset == digest:
                continue
            until = held.mode_until
            what = f"the ruleset changed from {held.ruleset[:12]} to {digest[:12]}"
            why = f"{what}: suspended until a replay speaks for it"
            set_mode(held, PolicyMode.ADVISORY, why, Actor.system("meter"))
            held.mode_until = until
            held.save(update_fields=["mode_until"])
        changed += 1
    return changed


def heed_drift() -> int:
    """End what acts by itself where the look for drift found that a rule of its class sees something else now.

    A replay of old logs cannot show that new ones are read rightly: this has to be promoted anew.
    """
    check = DriftCheck.objects.first()
    if check is None or not check.signs:
        return 0
    rules, ended = conclude.current_ruleset().by_id, 0
    signs: dict[str, dict[str, Any]] = {}
    for sign in check.signs:
        rule = rules.get(sign.get("rule", ""))
        if rule is not None and rule.domain is not None:
            signs.setdefault(rule.domain.value, sign)
    scopes = Scope.objects.filter(mode=AUTOMATIC, domain__in=list(signs), mode_since__lt=check.checked_at)
    for scope in scopes:
        sign = signs[scope.domain]
        why = f"drift: the rule {sign['rule']} no longer sees what it saw ({sign.get('text', '')[:200]})"
        demote(scope, why, Actor.system("meter"))
        ended += 1
    return ended


def settle_suspended() -> int:
    """Look whether a replay speaks for what was suspended, and begin one where there is none. Says how many moved."""
    return sum(gate.settle(scope) for scope in gate.suspended())
