"""The writers of what people say of a replay's changes: accepted or rejected, why, by whom, when."""

from collections.abc import Sequence
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from recovery import permissions
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Replay, ReplayItem
from recovery.replay import gate
from recovery.replay.words import Again, ItemOutcome, Judgement, ReplayKind
from recovery.words import EntryKind
from rules.attempt import InputError
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

LONGEST_REASON = 4000
#: Attempts that one entry of the ledger names.
IN_ONE_ENTRY = 500
#: What there is to judge: a change, or a verdict that does not come out of its own rules again.
JUDGEABLE = Q(outcome=ItemOutcome.CHANGED.value) | Q(again=Again.DIFFERS.value)


@transaction.atomic
def judge(replay_id: UUID, numbers: Sequence[int] | None, judgement: Judgement, *, by: User, reason: str) -> int:
    """Accept or reject changes of a replay by their numbers, or all that nobody judged yet; says how many.

    Somebody else's judgement may be replaced; the ledger has both. Who began the replay or brought its rules accepts no
    change that decides whether a policy acts by itself. Raises NotPermitted, InputError that names the field, and
    Replay.DoesNotExist.
    """
    if not by.has_perm(permissions.JUDGE_REPLAY):
        raise NotPermitted("Accepting or rejecting changes needs the role reviewer, lead or administrator.")
    if judgement is Judgement.NONE:
        raise InputError("judgement: accepted or rejected")
    reason = storable_text(reason).strip()
    if not reason or len(reason) > LONGEST_REASON:
        raise InputError(f"reason: 1 to {LONGEST_REASON} characters")
    replay = Replay.objects.select_for_update(of=("self",)).get(pk=replay_id)
    if replay.kind == ReplayKind.ABLATION:
        raise InputError("replay: evidence that was changed on purpose leads to nothing that could be accepted")
    rows = ReplayItem.objects.filter(JUDGEABLE, replay=replay)
    if numbers is None:
        rows = rows.filter(judged="")
    else:
        wanted = set(numbers)
        rows = rows.filter(number__in=wanted)
        if strangers := wanted - set(rows.values_list("number", flat=True)):
            said = ", ".join(map(str, sorted(strangers)[:10]))
            raise InputError(f"items: no change of this replay has number {said}")
    if judgement is Judgement.ACCEPTED and (why := gate.not_theirs(replay, by, rows)):
        raise NotPermitted(why)
    chosen = list(rows.order_by("number").values_list("pk", "number", "attempt_id", "judged"))
    if not chosen:
        raise InputError("items: there is no change to judge")
    ReplayItem.objects.filter(pk__in=[pk for pk, *_ in chosen]).update(
        judged=judgement.value, judged_by=by, judged_at=Now(), judged_why=reason
    )
    actor = Actor.user(by)
    for start in range(0, len(chosen), IN_ONE_ENTRY):
        part = chosen[start : start + IN_ONE_ENTRY]
        ledger.record(
            EntryKind.REPLAY_JUDGED,
            actor=actor,
            subject=replay,
            attempt=part[0][2] if len(chosen) == 1 else None,
            body={
                "judgement": judgement.value,
                "ruleset": replay.ruleset_id,
                "begun_by": replay.actor,
                "items": [{"number": number, "attempt": attempt, "before": was} for _, number, attempt, was in part],
            },
            erasable={"reason": reason},
        )
    transaction.on_commit(lambda: gate.look(replay_id))
    return len(chosen)


def judgement_of(text: str) -> Judgement:
    """A judgement by its word. Raises InputError."""
    if text not in (Judgement.ACCEPTED.value, Judgement.REJECTED.value):
        raise InputError("judgement: accepted or rejected")
    return Judgement(text)
