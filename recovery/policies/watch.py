"""What ends `automatic` without anybody asking: time, the record, a stop, another ruleset, drift in what rules see.

A scope that was suspended because the ruleset changed keeps its `mode_until`: a replay of its latest cases gives it
back what it had, if the new rules say of all of them what the old ones said.
"""

import logging
from datetime import timedelta
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone

from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Brake, Promotion, Proposal, Scope
from recovery.policies import find
from recovery.policies.promote import LASTS, demote, demote_all, end_promotion, held_scope, look, set_mode
from recovery.words import BrakeKind, EntryKind, PolicyMode
from rules.engine import attribute
from verdicts import conclude
from verdicts.evidence import load_evidence
from verdicts.models import DriftCheck

log = logging.getLogger(__name__)

#: A promotion that finds no second person in so long is over.
ASKED_FOR = timedelta(days=14)
#: So many of a scope's latest attempts are replayed, and of each no more observations than this.
REPLAYED, MOST_OBSERVATIONS = 20, 20_000
AUTOMATIC = PolicyMode.AUTOMATIC.value


def sweep() -> int:
    """Do all of it; says how much there was to do."""
    done = expire_due() + obey_brakes() + heed_rulesets() + heed_drift()
    # A label that fell due without being given counts as wrong, and nobody wrote anything at that moment.
    done += sum(bool(look(scope)) for scope in Scope.objects.filter(mode=AUTOMATIC).select_related("policy"))
    return done + replay_suspended()


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
    """Suspend what acts by itself on the word of another ruleset than it was promoted with. Says how many."""
    suspended = 0
    for scope in Scope.objects.filter(mode=AUTOMATIC).select_related("policy"):
        digest = find.ruleset_of(scope)
        if digest == scope.ruleset:
            continue
        with transaction.atomic():
            held = held_scope(scope.pk)
            if held.mode != AUTOMATIC or held.ruleset == digest:
                continue
            until = held.mode_until
            what = f"the ruleset changed from {held.ruleset[:12]} to {digest[:12]}"
            why = f"{what}: suspended until a replay shows no change"
            set_mode(held, PolicyMode.ADVISORY, why, Actor.system("meter"))
            held.mode_until = until
            held.save(update_fields=["mode_until"])
        suspended += 1
    return suspended


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


def replay_suspended() -> int:
    """Replay one suspended scope, and give it back what it had if nothing changed. One: a replay takes a while."""
    scope = (
        Scope.objects.filter(mode=PolicyMode.ADVISORY.value, mode_until__gt=timezone.now())
        .select_related("policy")
        .order_by("mode_since")
        .first()
    )
    if scope is None:
        return 0
    digest = find.ruleset_of(scope)
    if conclude.current_ruleset().digest != digest:
        # This process still has the old rules, or already newer ones: another worker or the next sweep does it.
        return 0
    replayed, changed = replay(scope)
    with transaction.atomic():
        held = held_scope(scope.pk)
        if held.mode != PolicyMode.ADVISORY.value or held.mode_until is None:
            return 0
        if changed or not replayed:
            what = f"{len(changed)} of {replayed} replayed cases come out otherwise"
            what = what if replayed else "there is nothing to replay"
            held.mode_until, held.said = None, f"{held.said}: {what}; it has to be promoted anew"[:2000]
            held.save(update_fields=["mode_until", "said"])
            log.warning("policy %s stays advisory: %s", held, what)
            return 1
        held.mode, held.ruleset = AUTOMATIC, digest
        held.said = f"given back: a replay of {replayed} cases with ruleset {digest[:12]} shows no change"
        held.save(update_fields=["mode", "ruleset", "said"])
        ledger.record(
            EntryKind.POLICY_PROMOTED,
            actor=Actor.system("replay"),
            subject=held,
            body={
                "policy": held.policy.name,
                "cluster": held.cluster,
                "domain": held.domain,
                "to": AUTOMATIC,
                "until": held.mode_until,
                "ruleset": digest,
                "replayed": replayed,
            },
        )
    return 1


def replay(scope: Scope) -> tuple[int, list[str]]:
    """Conclude anew for the latest attempts of a scope: how many there were, and which come out otherwise."""
    latest = (
        Proposal.objects.filter(scope=scope, verdict__isnull=False)
        .select_related("verdict")
        .order_by("-created_at")[:REPLAYED]
    )
    ruleset, seen, changed = conclude.current_ruleset(), 0, []
    for verdict in {proposal.verdict.attempt_id: proposal.verdict for proposal in latest if proposal.verdict}.values():
        if not 0 < verdict.attempt.observations.count() <= MOST_OBSERVATIONS:
            continue
        evidence = load_evidence(verdict.attempt_id)
        if evidence.generation != verdict.generation:
            continue
        again = attribute(evidence.attempt, evidence.observations, evidence.reports, ruleset, mode=verdict.mode)
        seen += 1
        if _said(msgspec.to_builtins(again)) != _said(verdict.body):
            changed.append(str(verdict.attempt_id))
    return seen, changed


def _said(body: dict[str, Any]) -> Any:
    """What a policy reads of a verdict."""
    causes = [(cause["symptom"], cause["locus"]) for cause in body["causes"]]
    nodes = [node["name"] for node in body["affected_nodes"]]
    return body["attributed_domain"], body["strength"], causes, nodes
