"""The writers of policies: made, changed and retired. `recovery.policies.promote` raises and lowers their modes.

Each writes its entry into the ledger in the same transaction.
"""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from recovery import permissions
from recovery.caps import CEILING, FLOOR
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Policy, PolicyVersion, Scope
from recovery.policies import closing, find, labels, watch
from recovery.policies.diff import differences, tightened
from recovery.policies.promote import (
    NotPromotable,
    ask_promotion,
    decline,
    demote,
    demote_all,
    demote_by_hand,
    end_promotion,
    reason_of,
    require,
    second,
    set_mode,
)
from recovery.policy import NODE_DOMAINS, UNDECIDED, Rule
from recovery.words import EXCLUDING, RELIEF, EntryKind, PolicyMode
from rules.attempt import InputError
from verdicts.storable import storable_text

__all__ = [
    "Changed",
    "NotPromotable",
    "ask_promotion",
    "change",
    "checked",
    "create",
    "decline",
    "demote",
    "demote_all",
    "demote_by_hand",
    "mode_now",
    "retire",
    "scope_for",
    "second",
    "sweep",
]

#: Patterns of one kind that a policy may name: more than a page can show are no policy that anybody has read.
MOST_NAMES = 100
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class Changed(ValueError):
    """The policy is not what it was when the page was made; the message says what to do."""


def checked(body: Mapping[str, Any]) -> Rule:
    """A body as a rule. Raises InputError that names the field."""
    try:
        rule = msgspec.convert(body, Rule)
    except msgspec.ValidationError as error:
        message, _, field = str(error).partition(" - at `$")
        raise InputError(f"{field.strip('.`') or 'body'}: {message}") from error
    for place in ("clusters", "partitions", "symptoms"):
        names = getattr(rule.match, place)
        if len(names) > MOST_NAMES:
            raise InputError(f"match.{place}: at most {MOST_NAMES} patterns")
        if any(storable_text(name) != name for name in names):
            raise InputError(f"match.{place}: a name with a character that cannot be stored")
    if rule.action in RELIEF:
        raise InputError("action: a policy takes nothing back; an exclusion is lifted by a person, or expires")
    for name, most in CEILING.items():
        if getattr(rule.caps, name) > most:
            raise InputError(f"caps.{name}: no policy may go beyond {most}")
    for name, least in FLOOR.items():
        if getattr(rule.caps, name) < least:
            raise InputError(f"caps.{name}: no policy may go below {least}")
    if rule.action in EXCLUDING:
        held = [domain for domain in rule.match.domains if domain not in NODE_DOMAINS]
        if held:
            raise InputError(f"match.domains: {', '.join(held)} is no node's fault, so no node is taken away for it")
    if not rule.match.strengths and not set(rule.match.domains) & UNDECIDED:
        raise InputError("match.strengths: name at least one strength")
    return rule


@transaction.atomic
def create(name: str, body: Mapping[str, Any], *, by: User, reason: str) -> Policy:
    """Make a policy. It observes wherever it applies, until somebody promotes it there."""
    require(by, permissions.WRITE_POLICY, "Making a policy needs the role policy admin or administrator.")
    reason = reason_of(reason)
    if not NAME.fullmatch(name):
        raise InputError("name: small letters, digits and hyphens, at most 64")
    rule = checked(body)
    # Two who make one of the same name at once: the later is told, as if it had come later.
    policy, made = Policy.objects.get_or_create(name=name)
    if not made:
        raise InputError(f"name: there is a policy called {name}; names are not used twice, not even of retired ones")
    version = PolicyVersion.objects.create(
        policy=policy, number=1, body=msgspec.to_builtins(rule), author=by, reason=reason
    )
    ledger.record(
        EntryKind.POLICY_CREATED,
        actor=Actor.user(by),
        subject=policy,
        body={"name": name, "number": version.number, "rule": version.body},
        erasable={"reason": reason},
    )
    return policy


@transaction.atomic
def change(
    policy_id: UUID, body: Mapping[str, Any], *, by: User, reason: str, seen: int | None = None
) -> PolicyVersion:
    """Write a new version. Where more changed than limits that became tighter, it observes again, its record anew.

    `seen` is the number of the version that the change started from. Raises Changed if there is a newer one.
    """
    require(by, permissions.WRITE_POLICY, "Changing a policy needs the role policy admin or administrator.")
    reason = reason_of(reason)
    policy = _held(policy_id)
    before = find.present(policy)
    if seen is not None and seen != before.number:
        raise Changed(f"Version {before.number} was written meanwhile: look at what changed, then change that.")
    rule = checked(body)
    found = differences(before.body, msgspec.to_builtins(rule))
    if not found:
        raise InputError("body: nothing differs from the version in force")
    version = PolicyVersion.objects.create(
        policy=policy, number=before.number + 1, body=msgspec.to_builtins(rule), author=by, reason=reason
    )
    kept = tightened(before.body, version.body)
    ledger.record(
        EntryKind.POLICY_CHANGED,
        actor=Actor.user(by),
        subject=policy,
        body={
            "name": policy.name,
            "number": version.number,
            "rule": version.body,
            "diff": msgspec.to_builtins(found),
            "record_kept": kept,
        },
        erasable={"reason": reason},
    )
    for scope in policy.scopes.select_for_update().order_by("id"):
        end_promotion(scope, Actor.user(by), f"version {version.number} of the policy was written")
        if not kept and scope.mode != PolicyMode.OBSERVE.value:
            why = f"version {version.number} changed more than its limits: what is known of the old one does not hold"
            set_mode(scope, PolicyMode.OBSERVE, why, Actor.user(by))
    return version


@transaction.atomic
def retire(policy_id: UUID, *, by: User, reason: str) -> Policy:
    """End a policy: it proposes nothing more. What it did stays."""
    require(by, permissions.WRITE_POLICY, "Retiring a policy needs the role policy admin or administrator.")
    reason = reason_of(reason)
    policy = _held(policy_id)
    for scope in policy.scopes.select_for_update().order_by("id"):
        end_promotion(scope, Actor.user(by), "the policy was retired")
        if scope.mode != PolicyMode.OBSERVE.value:
            set_mode(scope, PolicyMode.OBSERVE, "the policy was retired", Actor.user(by))
    policy.retired_at = timezone.now()
    policy.save(update_fields=["retired_at"])
    ledger.record(
        EntryKind.POLICY_RETIRED,
        actor=Actor.user(by),
        subject=policy,
        body={"name": policy.name},
        erasable={"reason": reason},
    )
    return policy


def scope_for(version: PolicyVersion, cluster: str, domain: str) -> Scope:
    """The scope of a policy for a class of verdict on a cluster; made in `observe` when it is first met."""
    scope, _ = Scope.objects.get_or_create(
        policy_id=version.policy_id,
        cluster=cluster,
        domain=domain,
        defaults={"mode": PolicyMode.OBSERVE.value, "said": "Every policy begins by observing."},
    )
    return scope


def mode_now(scope: Scope, ruleset: str) -> PolicyMode:
    """The mode for a verdict of this ruleset: `automatic` is only for what it was earned with, and while it lasts."""
    mode = PolicyMode(scope.mode)
    if mode is not PolicyMode.AUTOMATIC:
        return mode
    expired = scope.mode_until is None or scope.mode_until <= timezone.now()
    return PolicyMode.ADVISORY if expired or ruleset != scope.ruleset else mode


def _held(policy_id: UUID) -> Policy:
    """The policy, locked. Raises Policy.DoesNotExist, and InputError where it is retired."""
    policy = Policy.objects.select_for_update().get(pk=policy_id)
    if policy.retired_at is not None:
        raise InputError("policy: it is retired; make another one")
    return policy


def sweep() -> int:
    """What is due: labels that wrong exclusions give, outcomes that are seen, and all of `recovery.policies.watch`.

    Says how much there was. Any number of sweeps may run at once.
    """
    return labels.sweep() + closing.sweep() + watch.sweep()
