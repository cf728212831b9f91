"""What a ruleset has to show before policies act by themselves on its word.

A policy that acts by itself on a class of verdict is suspended when verdicts come from other rules than it was promoted
with. A replay of the last 30 days speaks for it when it is done, tried those rules on every attempt of its cluster that
ended in the 30 days before at least, found some of its class, failed at none of them, and every change to them that
policies could act on, and every verdict of theirs that did not come out again, was accepted by a person other than who
began the replay or brought the rules. A replay that was done before the rules are in force keeps the policy from being
suspended at all.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.http import QueryDict
from django.utils import timezone

from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Replay, ReplayItem, Scope
from recovery.policies import find as policy_find
from recovery.policies.promote import held_scope
from recovery.replay import begin, people, rulesets
from recovery.replay.words import Again, ItemOutcome, Judgement, ReplayKind, ReplayState
from recovery.words import EntryKind, PolicyMode
from rules.attempt import InputError

log = logging.getLogger(__name__)

AUTOMATIC, ADVISORY = PolicyMode.AUTOMATIC.value, PolicyMode.ADVISORY.value
#: How far back a replay has to look.
LOOKS_BACK = timedelta(days=30)
#: Filters that do not keep a replay from speaking for a whole cluster.
_WHOLE = {"cluster", "after"}
#: What policies could act on, and what did not come out of its own rules again.
_MATTERS = Q(outcome=ItemOutcome.CHANGED.value, weighty=True) | Q(again=Again.DIFFERS.value)
#: How the list of verdicts is asked for attempts that name no cluster.
NO_CLUSTER = "none"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Whether a replay speaks for a policy's scope under a ruleset, and what is wanting if not."""

    scope: Scope
    ruleset: str
    replay: Replay | None
    looked: int
    changed: int
    accepted: int
    wanting: list[str]
    hopeless: bool  # nothing that people could accept would make it pass

    @property
    def passes(self) -> bool:
        """Whether the policy may act by itself on verdicts of the ruleset."""
        return not self.wanting

    @property
    def said(self) -> str:
        """The same as a sentence."""
        if self.wanting:
            return " ".join(self.wanting)
        changes = f"{self.changed} changes, all accepted" if self.changed else "no change"
        return f"A replay of {self.looked} cases with ruleset {self.ruleset[:12]} shows {changes}."


def of_scope(scope: Scope, digest: str) -> Gate:
    """What the newest replay of a ruleset that speaks for a scope says of it."""
    told = newest(scope, digest)
    if told is None:
        said = f"No replay of ruleset {digest[:12]} has looked at all attempts of the last {LOOKS_BACK.days} days."
        return _gate(scope, digest, None, [said])
    if told.state != ReplayState.DONE:
        return _gate(scope, digest, told, [f"The replay of ruleset {digest[:12]} is {told.state}, not done."])
    return of_replay(told, scope)


def of_replay(replay: Replay, scope: Scope) -> Gate:
    """What a replay that is done says of a scope."""
    digest = replay.ruleset_id or ""
    if not speaks_for(replay, scope):
        said = f"It did not look at all attempts of the cluster that ended in the last {LOOKS_BACK.days} days."
        return _gate(scope, digest, replay, [said])
    if replay.state != ReplayState.DONE:
        return _gate(scope, digest, replay, [f"It is {replay.state}, not done."])
    own = people.concerned(replay)
    counts = _counts(of_class(replay, scope), list(own))
    wanting = []
    if not counts["looked"]:
        wanting.append("There is nothing of its class that could be replayed: it has to be promoted anew.")
    if counts["failed"]:
        wanting.append(f"{counts['failed']} of its cases failed.")
    if counts["rejected"]:
        wanting.append(f"{counts['rejected']} changes to its cases were rejected.")
    if counts["open"]:
        by = f" by another person than {' and '.join(sorted(own))}" if own else ""
        wanting.append(f"{counts['open']} changes to its cases wait to be accepted{by}.")
    if counts["own"]:
        wanting.append(
            f"{counts['own']} changes to its cases were accepted by who began it or brought its rules:"
            " another person has to accept them."
        )
    hopeless = not counts["looked"]
    return _gate(scope, digest, replay, wanting, counts["looked"], counts["changed"], counts["accepted"], hopeless)


def gates_of(replay: Replay) -> list[Gate]:
    """What a replay says of every policy that acts by itself, or waits to do so again."""
    if replay.kind != ReplayKind.RULES:
        return []
    return [of_replay(replay, scope) for scope in scopes_at_stake()]


def scopes_at_stake() -> QuerySet[Scope]:
    """Where a policy acts by itself, or was suspended and would again."""
    suspended = Q(mode=ADVISORY, mode_until__gt=timezone.now())
    return Scope.objects.filter(Q(mode=AUTOMATIC) | suspended).select_related("policy")


def speaks_for(replay: Replay, scope: Scope) -> bool:
    """Whether a replay looked at every attempt of the scope's cluster that ended lately."""
    data = QueryDict(replay.query)
    if replay.kind != ReplayKind.RULES or set(data) - _WHOLE:
        return False
    clusters = data.getlist("cluster")
    if clusters and (scope.cluster or NO_CLUSTER) not in clusters:
        return False
    if not (after := data.get("after")):
        return True
    try:
        since = datetime.fromisoformat(after)
    except ValueError:
        return False
    since = since if since.tzinfo is not None else timezone.make_aware(since)
    return since <= replay.created_at - LOOKS_BACK


def newest(scope: Scope, digest: str) -> Replay | None:
    """The newest replay of a ruleset that speaks for a scope: one that is done before others, none that is too old."""
    lately = Replay.objects.filter(ruleset=digest, created_at__gte=timezone.now() - LOOKS_BACK)
    found = [replay for replay in lately.order_by("-created_at")[:50] if speaks_for(replay, scope)]
    done = [replay for replay in found if replay.state == ReplayState.DONE]
    return next(iter([*done, *found]), None)


def of_class(replay: Replay, scope: Scope) -> QuerySet[ReplayItem]:
    """The attempts of a replay that were or would be of a scope's class."""
    same = Q(outcome=ItemOutcome.CHANGED.value) & (Q(domain_before=scope.domain) | Q(domain_after=scope.domain))
    stands = ~Q(outcome=ItemOutcome.CHANGED.value) & Q(verdict__domain=scope.domain)
    # What another site concluded says nothing of policies here.
    return replay.items.filter(same | stands, attempt__cluster__name=scope.cluster, attempt__imported=None)


def not_theirs(replay: Replay, by: User, rows: QuerySet[ReplayItem]) -> str:
    """Why this person is not the one to accept changes that a policy which acts by itself hangs on, or nothing."""
    why = people.concerned(replay).get(by.get_username())
    for scope in scopes_at_stake() if why else ():
        cases = of_class(replay, scope).filter(_MATTERS, pk__in=rows.values("pk"))
        if speaks_for(replay, scope) and cases.exists():
            acts = "acts" if scope.mode == AUTOMATIC else "waits to act"
            return f"{why}: policy {scope.policy.name} {acts} by itself on such cases, so another person accepts them."
    return ""


def _counts(rows: QuerySet[ReplayItem], own: list[str]) -> dict[str, int]:
    looked = Q(outcome__in=[ItemOutcome.SAME.value, ItemOutcome.CHANGED.value])
    accepted = _MATTERS & Q(judged=Judgement.ACCEPTED.value)
    # An account that is gone accepted as somebody.
    theirs = Q(pk__in=rows.filter(judged_by__username__in=own).values("pk")) if own else Q(pk__in=[])
    found: dict[str, int] = rows.aggregate(
        looked=Count("pk", filter=looked),
        failed=Count("pk", filter=Q(outcome=ItemOutcome.FAILED.value)),
        changed=Count("pk", filter=_MATTERS),
        accepted=Count("pk", filter=accepted & ~theirs),
        own=Count("pk", filter=accepted & theirs),
        rejected=Count("pk", filter=_MATTERS & Q(judged=Judgement.REJECTED.value)),
        open=Count("pk", filter=_MATTERS & Q(judged="")),
    )
    return found


def _gate(
    scope: Scope,
    digest: str,
    replay: Replay | None,
    wanting: list[str],
    looked: int = 0,
    changed: int = 0,
    accepted: int = 0,
    hopeless: bool = False,
) -> Gate:
    return Gate(
        scope=scope,
        ruleset=digest,
        replay=replay,
        looked=looked,
        changed=changed,
        accepted=accepted,
        wanting=wanting,
        hopeless=hopeless,
    )


# --- What follows from it ---------------------------------------------------------------------------


def look(replay_id: UUID) -> int:
    """Look at the policies that wait for a replay's ruleset, now that it is done or was judged. Says how many moved."""
    replay = Replay.objects.filter(pk=replay_id, kind=ReplayKind.RULES.value, state=ReplayState.DONE.value).first()
    if replay is None:
        return 0
    return sum(settle(scope) for scope in suspended() if policy_find.ruleset_of(scope) == replay.ruleset_id)


def suspended() -> QuerySet[Scope]:
    """The scopes that wait for a replay to give them back what they had."""
    return (
        Scope.objects.filter(mode=ADVISORY, mode_until__gt=timezone.now())
        .select_related("policy")
        .order_by("mode_since")
    )


def settle(scope: Scope) -> bool:
    """Give a suspended scope back what it had where a replay speaks for it; begin one where there is none.

    Says whether anything was done.
    """
    digest = policy_find.ruleset_of(scope)
    told = of_scope(scope, digest)
    if told.replay is None:
        return _begin(scope, digest)
    if told.replay.state != ReplayState.DONE:
        return False
    if told.passes:
        return keep_automatic(scope, told)
    return _say(scope, told)


def keep_automatic(scope: Scope, told: Gate) -> bool:
    """Let a scope act by itself on verdicts of the ruleset that was replayed. Says whether it changed anything."""
    with transaction.atomic():
        held = held_scope(scope.pk)
        waits = held.mode == ADVISORY and held.mode_until is not None and held.mode_until > timezone.now()
        moves = held.mode == AUTOMATIC and held.ruleset != told.ruleset
        if not (waits or moves) or told.replay is None:
            return False
        verb = "given back" if waits else "kept"
        held.mode, held.ruleset, held.said = AUTOMATIC, told.ruleset, f"{verb}: {told.said}"
        held.save(update_fields=["mode", "ruleset", "said"])
        ledger.record(
            EntryKind.POLICY_PROMOTED,
            actor=Actor.system("replay"),
            subject=held,
            body=_named(held)
            | {
                "to": AUTOMATIC,
                "until": held.mode_until,
                "ruleset": told.ruleset,
                "replay": told.replay.pk,
                "begun_by": told.replay.actor,
                "replayed": told.looked,
                "changed": told.changed,
                "accepted_by": accepted_by(told.replay, held),
            },
        )
    return True


def accepted_by(replay: Replay, scope: Scope) -> list[str]:
    """Who accepted the changes to a scope's cases."""
    rows = of_class(replay, scope).filter(judged=Judgement.ACCEPTED.value, judged_by__isnull=False)
    return sorted(set(rows.values_list("judged_by__username", flat=True)))


def _say(scope: Scope, told: Gate) -> bool:
    """Say in the scope why it stays as it is; where nothing can help it, there is nothing to give back any more."""
    with transaction.atomic():
        held = held_scope(scope.pk)
        if held.mode != ADVISORY or held.mode_until is None:
            return False
        before = held.said
        held.said = f"{before.partition(' — ')[0]} — {told.said}"[:2000]
        if told.hopeless:
            held.mode_until = None
        if held.said == before and not told.hopeless:
            return False
        held.save(update_fields=["mode_until", "said"])
    log.warning("policy %s stays advisory: %s", held, told.said)
    return True


def _begin(scope: Scope, digest: str) -> bool:
    """Begin the replay that a suspended scope waits for; its cluster's others wait for the same one."""
    data = QueryDict(mutable=True)
    data["cluster"] = scope.cluster or NO_CLUSTER
    data["after"] = (timezone.now() - LOOKS_BACK - timedelta(hours=1)).isoformat(timespec="seconds")
    try:
        wish = begin.Wish(
            ruleset=rulesets.keep_used(digest),
            query=data.urlencode(),
            reason=f"policy {scope.policy} waits for it",
        )
        begin.begin(wish, Actor.system("replay"))
    except InputError as error:
        return _say(scope, _gate(scope, digest, None, [f"It cannot be replayed: {error}."], hopeless=True))
    return True


def _named(scope: Scope) -> dict[str, Any]:
    return {"policy": scope.policy.name, "cluster": scope.cluster, "domain": scope.domain}
