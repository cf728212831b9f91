"""The watchdog, which fails open: what a half-done action left held is given back, or a person is told.

The dispatcher gives back by itself at an action's deadline. The watchdog sees to what it can not: rows that every
worker which took them died of, and calls that took effect after their action had been given up. Neither a brake nor
the kill switch stops it, for it only gives back.
"""

import logging
from dataclasses import replace
from datetime import timedelta

from django.db import InterfaceError, OperationalError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from recovery import find, moves
from recovery.acting import dispatch, sites
from recovery.actuators.base import ActError, BadAim
from recovery.actuators.stepper import Answer
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Action, Proposal
from recovery.words import ENDED_ACTIONS, RELIEF, ActionState, EntryKind
from verdicts import limits
from verdicts.choices import RequestState
from verdicts.lease import LeaseLost, take
from verdicts.redaction import clean_text
from verdicts.storable import storable, storable_text

log = logging.getLogger(__name__)

WATCHDOG = Actor.system("watchdog")
#: For so long after its end an action that was given up is looked at for calls that took effect late.
WATCHED = timedelta(hours=1)
AT_ONCE = 50
ENDED = [state.value for state in ENDED_ACTIONS]


def sweep() -> int:
    """Give back what is left half done; says how much was."""
    done = revive() + release_late()
    tell_overdue()
    return done


def revive() -> int:
    """Take up actions that nobody works on any more and have not ended, only to give back; says how many."""
    open_ones = Action.objects.exclude(outcome__in=ENDED)
    failed = open_ones.filter(state=RequestState.FAILED.value)
    died_of = open_ones.takeable(Now()).filter(tries__gte=limits.MAX_TRIES)
    done = 0
    for pk, error in [*failed.values_list("pk", "error")[:AT_ONCE], *died_of.values_list("pk", "error")[:AT_ONCE]]:
        stop = f"the dispatcher could not go on with it: {error or 'each worker that took it ended before it was done'}"
        with transaction.atomic():
            # Whoever comes first takes it up; the others find it taken.
            Action.objects.filter(pk=pk).filter(state=RequestState.FAILED.value).update(
                state=RequestState.PENDING.value, finished_at=None
            )
            Action.objects.takeable(Now()).filter(pk=pk).update(
                state=RequestState.PENDING.value, lease_owner="", lease_until=None, tries=0, due_at=Now(), turn_at=Now()
            )
            lease = take(Action, pk, "watchdog")
        if lease is None:
            continue
        done += 1
        try:
            dispatch.advance(lease, stop=stop)
        except (OperationalError, InterfaceError):
            raise
        except LeaseLost:
            log.warning("action %s was taken over by another worker", lease.row.mark)
        except Exception as error:
            log.exception("action %s could not be given back: a person is needed", lease.row.mark)
            lease.give_back(error)
    return done


def release_late() -> int:
    """Give back what took effect after its action had been given up; says how many."""
    since = timezone.now() - WATCHED
    rows = Action.objects.filter(
        outcome__in=[ActionState.ABANDONED.value, ActionState.FAILED.value], finished_at__gt=since
    ).exclude(calls=[])
    released = 0
    for row in rows.select_related("cluster")[:AT_ONCE]:
        try:
            released += _release_late(row)
        except (ActError, BadAim) as error:
            log.warning("action %s: whether it left something held is not known: %s", row.mark, error)
    return released


def _release_late(row: Action) -> bool:
    """Send the first step that gives back, if there is anything to; the next sweep looks what came of it."""
    proposal = Proposal.objects.select_related("attempt__cluster").defer("attempt__body").get(pk=row.proposal_id)
    plan = moves.plan_of(proposal)
    way = sites.actuator(row.cluster.name if row.cluster else "")
    if way is None or plan.action in RELIEF:
        return False
    aim = replace(dispatch.aim_of(row, plan, proposal), begun=True)
    look = way.look(aim)
    left = [step for step in way.undo(plan.action) if step not in look.done]
    if not left or not look.settled:
        return False
    call = {
        "step": left[0],
        "at": timezone.now().isoformat(),
        "answer": Answer.NONE.value,
        "words": "",
        "gives_back": row.outcome,
        "why": "it took effect after its action was given up",
    }
    with transaction.atomic():
        # Of two watchdogs that look at once, one finds the calls as they were.
        mine = Action.objects.filter(pk=row.pk, calls=row.calls)
        if not mine.update(calls=[*row.calls, call], observed=storable(dict(look.facts)), observed_at=look.at):
            return False
        ledger.record(
            EntryKind.ACTION_SENT,
            actor=WATCHDOG,
            subject=row,
            attempt=proposal.attempt_id,
            body={
                "step": left[0],
                "number": len(row.calls) + 1,
                "mark": row.mark,
                "gives_back": True,
                "why": call["why"],
            },
        )
    try:
        way.do(left[0], aim, look)
        call["answer"] = Answer.OK.value
    except ActError as error:
        call["words"] = storable_text(clean_text(str(error)))[:1000]
        log.error("action %s: a person is needed: %s was not done: %s", row.mark, left[0], call["words"])
    Action.objects.filter(pk=row.pk).update(calls=[*row.calls, call])
    return True


def tell_overdue() -> int:
    """Say in the log which actions need a person; says how many."""
    rows = list(find.overdue()[:AT_ONCE])
    for row in rows:
        log.error("action %s should have ended at %s: a person is needed: %s", row.mark, row.deadline, row.why)
    return len(rows)
