"""The dispatcher: the only writer of actions, and the only caller of schedulers.

An action is a row that was written before anything is sent. Each turn looks at the scheduler afresh, asks what comes
next, and, where that is a call, asks every guard and the kill switch once more, writes down the call, sends it, and
writes down what is known of its fate. Whoever is killed in between leaves a call without an answer: the next one
to hold the row looks what came of it. A veto, a brake or the deadline in mid-flight ends the action before its next
step, and what was half done is given back.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import InterfaceError, OperationalError, transaction
from django.utils import timezone

from recovery import guards, machine, moves, standing
from recovery.acting import end as act_end
from recovery.acting import sites
from recovery.acting.notify import Notify
from recovery.actuators.base import Actuator, Aim, BadAim, Look, MaybeApplied, NotApplied, Refused, Unseen
from recovery.actuators.stepper import Answer, Call, Next, Turn, next_thing
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Action, Exclusion, Proposal
from recovery.plan import Plan
from recovery.stop_file import killed
from recovery.words import (
    RELIEF,
    ActionKind,
    ActionState,
    EntryKind,
    ExclusionKind,
    ExclusionState,
    ProposalState,
)
from verdicts import limits
from verdicts.choices import RequestState
from verdicts.lease import Kept, Lease, LeaseLost, Turns
from verdicts.redaction import clean_text
from verdicts.storable import storable, storable_text
from verdicts.waking import wake_again

log = logging.getLogger(__name__)

DISPATCHER = Actor.system("dispatcher")
#: So long one action is waited for before the worker looks after others; then it comes back after a pause.
PATIENCE, LATER = 4.0, timedelta(seconds=2)
#: Between two looks at a scheduler that does not answer, longer each time.
UNSEEN_PAUSE, LONGEST_PAUSE = 2.0, 60.0
#: Guards whose facts our own beginning changes: they are asked before the first call, and not in mid-flight.
BEFORE_THE_FIRST = frozenset({"job", "age"})
GOING_ON = frozenset({ProposalState.APPROVED.value, ProposalState.ACTING.value})


def sweep() -> int:
    """Wake the dispatcher for actions that nobody took; says how many."""
    return wake_again(Action)


def work(pause: Callable[[float], object] | None = None) -> int:
    """Work off actions, each in its turn, until none is left or it is time to let the worker look for other tasks."""
    end, done, turns = time.monotonic() + limits.WORK_SECONDS, 0, Turns(Action)
    while time.monotonic() < end and (lease := turns.take()) is not None:
        done += 1
        try:
            advance(lease, pause=pause)
        except (OperationalError, InterfaceError):
            raise
        except LeaseLost:
            log.warning("action %s was taken over by another worker", lease.row.mark)
        except Exception as error:
            # The row has the error and when it is tried again; the others must not wait for it.
            log.exception("action %s failed", lease.row.mark)
            lease.give_back(error)
    return done


def advance(lease: Lease[Action], *, stop: str = "", pause: Callable[[float], object] | None = None) -> None:
    """Bring one action further, to its end if that comes soon. `stop` says why nothing may go forward any more.

    Raises LeaseLost.
    """
    proposal = Proposal.objects.select_related("attempt__cluster").defer("attempt__body").get(pk=lease.row.proposal_id)
    plan = moves.plan_of(proposal)
    told: list[dict[str, Any]] = list(lease.row.calls)
    notifies = plan.action is ActionKind.NOTIFY
    way = Notify(proposal, plan, told) if notifies else sites.actuator(proposal.attempt.cluster.name)
    if why := _no_way(way, plan.action):
        act_end.finish(lease, proposal, Next(Turn.END, outcome=_without_a_way(lease.row), why=why), None)
        return
    assert way is not None
    try:
        aim = aim_of(lease.row, plan, proposal)
    except BadAim as error:
        act_end.finish(lease, proposal, Next(Turn.END, outcome=ActionState.FAILED, why=str(error)), None)
        return
    with Kept(lease):
        _Acting(lease, proposal, plan, way, aim, stop, calls=told).run(pause or threading.Event().wait)


def _no_way(way: Actuator | None, action: ActionKind) -> str:
    if way is None:
        return "no way to this cluster's scheduler is configured where the dispatcher runs (INQUEST_RECOVERY_FILE)"
    return "" if action in way.can else f"{action} is none of the actions that may be done on this cluster"


def _without_a_way(row: Action) -> ActionState:
    return ActionState.ABANDONED if not row.calls else ActionState.FAILED


def aim_of(row: Action, plan: Plan, proposal: Proposal) -> Aim:
    """What an actuator is told of an action. Raises BadAim."""
    before = row.calls[0].get("before", {}) if row.calls else {}
    ended = Exclusion.objects.filter(
        cluster=row.cluster_id, attempt__job_id=plan.job_id, kind=ExclusionKind.JOB.value
    ).exclude(state=ExclusionState.STANDING.value)
    undoes = Exclusion.objects.filter(pk=plan.exclusion) if plan.exclusion else Exclusion.objects.none()
    named = f"{plan.symptom or plan.cause}, verdict {plan.verdict_number}" if plan.verdict_number else plan.reason
    return Aim(
        action=plan.action,
        mark=row.mark,
        job_id=plan.job_id,
        submitted=plan.submit_time,
        restart_count=plan.restart_count,
        nodes=tuple(plan.nodes),
        started=proposal.attempt.started_at,
        begun=bool(row.calls),
        kept=frozenset(before.get("excluded", [])),
        ended=frozenset(ended.values_list("node", flat=True)) - set(plan.nodes),
        undoes=frozenset(undoes.values_list("proposal__acted__mark", flat=True)) - {None},
        reason="".join(sign if sign.isascii() and sign.isprintable() else " " for sign in named)[:120].strip(),
    )


@dataclass
class _Acting:
    """One action while its lease is held."""

    lease: Lease[Action]
    proposal: Proposal
    plan: Plan
    way: Actuator
    aim: Aim
    stop: str
    unseen: int = 0
    calls: list[dict[str, Any]] = field(default_factory=list)
    outcome: ActionState = ActionState.INTENDED
    deadline: datetime = field(default_factory=timezone.now)

    def __post_init__(self) -> None:
        self.outcome = ActionState(self.lease.row.outcome)
        self.deadline = self.lease.row.deadline

    def run(self, pause: Callable[[float], object]) -> None:
        """Turn by turn, to the end or until it is time to let others have their turn."""
        until = time.monotonic() + PATIENCE
        while True:
            look, thing = self._turn()
            if thing.turn is Turn.END:
                act_end.finish(self.lease, self.proposal, thing, look)
                return
            if thing.turn is Turn.CALL and look is not None:
                self._call(thing, look)
                continue
            if thing.pause > LATER.total_seconds() or time.monotonic() > until:
                self._come_back(thing, look)
                return
            pause(thing.pause)

    def _turn(self) -> tuple[Look | None, Next]:
        """A fresh look, and what follows from it."""
        try:
            look = self.way.look(replace(self.aim, begun=bool(self.calls)))
        except Unseen as error:
            self.unseen += 1
            wait = min(UNSEEN_PAUSE * 2 ** (self.unseen - 1), LONGEST_PAUSE)
            return None, Next(Turn.LOOK_AGAIN, pause=wait, why=f"the scheduler cannot be looked at: {error}")
        self.unseen = 0
        stop, wait_for = self._hindered()
        thing = next_thing(
            self.way.steps(self.plan.action),
            self.way.undo(self.plan.action),
            look,
            [_call(one) for one in self.calls],
            now=timezone.now(),
            settle=self.way.settle,
            stop=stop,
        )
        if thing.turn is Turn.CALL and wait_for and not thing.relief:
            return look, Next(Turn.LOOK_AGAIN, pause=LONGEST_PAUSE / 2, why=wait_for)
        return look, thing

    def _hindered(self) -> tuple[str, str]:
        """Why nothing more may be done, and what the first call has to wait for. Asked before every call."""
        if self.stop:
            return self.stop, ""
        state, why = Proposal.objects.values_list("state", "ended_why").get(pk=self.proposal.pk)
        if state not in GOING_ON:
            return f"the proposal is {state}: {why}", ""
        # What gives back is tried until the scheduler answers.
        if timezone.now() >= self.deadline and self.plan.action not in RELIEF:
            return "its deadline has passed", ""
        refusals = guards.recheck(self.plan, standing.facts(self.plan))
        if self.calls:
            refusals = [one for one in guards.stands(refusals) if one.guard not in BEFORE_THE_FIRST]
        if lasting := guards.stands(refusals):
            return guards.in_words(lasting), ""
        return "", guards.in_words(refusals)

    def _call(self, thing: Next, look: Look) -> None:
        """Write down a call, send it, and write down what is known of its fate."""
        first = not self.calls
        record = {
            "step": thing.step,
            "at": timezone.now().isoformat(),
            "answer": Answer.NONE.value,
            "words": "",
            "gives_back": thing.outcome.value if thing.relief and thing.outcome else "",
            "why": storable_text(clean_text(thing.why)),
        }
        if first:
            record["before"] = storable(dict(look.facts))
            self.deadline = min(self.deadline, timezone.now() + timedelta(seconds=self.way.deadline))
        self.calls.append(record)
        with transaction.atomic():
            mine = self.lease.locked()
            self._move(ActionState.SENT)
            mine.update(
                outcome=self.outcome.value,
                step=thing.step,
                calls=self.calls,
                observed=storable(dict(look.facts)),
                observed_at=look.at,
                deadline=self.deadline,
            )
            ledger.record(
                EntryKind.ACTION_SENT,
                actor=DISPATCHER,
                subject=self.lease.row,
                attempt=self.proposal.attempt_id,
                body={
                    "step": thing.step,
                    "number": len(self.calls),
                    "mark": self.aim.mark,
                    "gives_back": thing.relief,
                    "why": record["why"],
                },
            )
        answer, words = self._send(thing, look)
        record["answer"], record["words"] = answer.value, storable_text(clean_text(words))[:1000]
        with transaction.atomic():
            mine = self.lease.locked()
            if answer is Answer.MAYBE:
                self._move(ActionState.UNKNOWN)
            mine.update(outcome=self.outcome.value, calls=self.calls)

    def _send(self, thing: Next, look: Look) -> tuple[Answer, str]:
        """Send one call, unless the kill switch was thrown or the row was taken over at the last moment."""
        relief = thing.relief or self.plan.action in RELIEF
        if not relief and (why := killed()):
            return Answer.NOT_APPLIED, f"not sent: {why}"
        if not self.lease.renew():
            raise LeaseLost(self.aim.mark)
        try:
            self.way.do(thing.step, self.aim, look)
        except NotApplied as error:
            return Answer.NOT_APPLIED, str(error)
        except MaybeApplied as error:
            return Answer.MAYBE, str(error)
        except Refused as error:
            return Answer.REFUSED, str(error)
        return Answer.OK, ""

    def _move(self, to: ActionState) -> None:
        if self.outcome is not to:
            machine.require_action(self.outcome, to)
            self.outcome = to

    def _come_back(self, thing: Next, look: Look | None) -> None:
        """Let others have their turn; this one comes back after a pause. To look again is no failed try."""
        if self.outcome is ActionState.SENT:
            self._move(ActionState.UNKNOWN)
        seen = {} if look is None else {"observed": storable(dict(look.facts)), "observed_at": look.at}
        due = timezone.now() + max(LATER, timedelta(seconds=thing.pause))
        with transaction.atomic():
            self.lease.locked()
            self.lease.release(
                RequestState.PENDING,
                due_at=due,
                turn_at=due,
                tries=0,
                outcome=self.outcome.value,
                why=storable_text(clean_text(thing.why))[:2000],
                **seen,
            )


def _call(record: dict[str, Any]) -> Call:
    """A call as it was written down."""
    return Call(
        step=record["step"],
        at=datetime.fromisoformat(record["at"]),
        answer=Answer(record["answer"]),
        words=record["words"],
        gives_back=ActionState(record["gives_back"]) if record["gives_back"] else None,
        why=record["why"],
    )
