"""What comes next, given what is there and what was sent. Pure: no clock, no scheduler, no database.

The rules, in their order: what is wanted is there → it has ended. Somebody or something says stop, or it cannot be
reached any more → what was half done is given back, then it has ended. Something was sent and does not show yet →
look again; only after the settling time, and a look that shows that nothing came of it, it is sent once more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from recovery.actuators.base import Look
from recovery.words import ActionState


class Answer(StrEnum):
    """What became of a call, as far as its sender knows."""

    NONE = ""  # written down; the sender may have died before or after it was sent
    OK = "ok"
    NOT_APPLIED = "not_applied"
    MAYBE = "maybe"
    REFUSED = "refused"


@dataclass(frozen=True)
class Call:
    """One call that was written down before it was sent. `gives_back` is the outcome that it leads to where it only
    gives back, and `why` that is so: once giving back has begun, nothing goes forward any more.
    """

    step: str
    at: datetime
    answer: Answer = Answer.NONE
    words: str = ""
    gives_back: ActionState | None = None
    why: str = ""


class Turn(StrEnum):
    """What to do."""

    CALL = "call"
    LOOK_AGAIN = "look_again"
    END = "end"


@dataclass(frozen=True)
class Next:
    """The next thing. `outcome` and `why` are of an end, or of the one that a giving back leads to; `pause` in seconds
    is of a wait.

    `relief` says that a call only gives back, so that no brake stands in its way; `stuck` that what was half done could
    not be given back, for a person to see.
    """

    turn: Turn
    step: str = ""
    outcome: ActionState | None = None
    why: str = ""
    pause: float = 0.0
    relief: bool = False
    stuck: bool = False


_WITHOUT_EFFECT = frozenset({Answer.NOT_APPLIED, Answer.REFUSED})
#: Between two looks, and before what was surely not done is tried again.
PAUSE = 2.0
#: How often a step is sent that shows no effect, each time after the settling time.
MOST_SENT = 2


def next_thing(
    steps: Sequence[str],
    undo: Sequence[str],
    look: Look,
    calls: Sequence[Call],
    *,
    now: datetime,
    settle: float,
    stop: str = "",
) -> Next:
    """Say what comes next. `stop` is why nothing more may be done: a veto, a brake, a guard, the deadline."""
    if look.done.issuperset(steps) and not any(call.gives_back for call in calls):
        if not calls:
            return Next(Turn.END, outcome=ActionState.ALREADY_SO, why=look.said)
        return Next(Turn.END, outcome=ActionState.CONVERGED, why=look.said)
    if back := next((call for call in calls if call.gives_back), None):
        return _give_back(undo, look, calls, back.gives_back or ActionState.ABANDONED, back.why, now, settle)
    if stop or look.lost:
        why = (f"{stop} ({look.said})" if look.said else stop) or look.lost
        return _give_back(undo, look, calls, ActionState.ABANDONED, why, now, settle)
    step = next(step for step in steps if step not in look.done)
    sent = [call for call in calls if call.step == step]
    if sent and sent[-1].answer is Answer.REFUSED:
        why = f"{step} was refused: {sent[-1].words}"
        return _give_back(undo, look, calls, ActionState.FAILED, why, now, settle)
    if not look.settled:
        return Next(Turn.LOOK_AGAIN, pause=PAUSE, why=look.said or "the scheduler is still at it")
    if wait := _wait(sent, now, settle):
        return Next(Turn.LOOK_AGAIN, step, pause=min(PAUSE, wait), why=f"what came of {step} does not show yet")
    if len([call for call in sent if call.answer not in _WITHOUT_EFFECT]) >= MOST_SENT:
        why = f"{step} was sent {MOST_SENT} times and a look shows no effect"
        return _give_back(undo, look, calls, ActionState.FAILED, why, now, settle)
    return Next(Turn.CALL, step)


def _give_back(
    undo: Sequence[str],
    look: Look,
    calls: Sequence[Call],
    outcome: ActionState,
    why: str,
    now: datetime,
    settle: float,
) -> Next:
    """End it, after what was half done was given back. Nothing is assumed of what was sent without an answer."""
    if all(call.answer in _WITHOUT_EFFECT for call in calls):
        return Next(Turn.END, outcome=outcome, why=why)
    if not look.settled:
        return Next(Turn.LOOK_AGAIN, pause=PAUSE, why=f"{why}; the scheduler is still at it")
    left = [step for step in undo if step not in look.done]
    if not left:
        # What was sent last may come late: to end before would leave it to nobody.
        if wait := _wait([call for call in calls[-1:] if call.step not in look.done], now, settle):
            return Next(Turn.LOOK_AGAIN, pause=min(PAUSE, wait), why=f"{why}; the last call may still take effect")
        return Next(Turn.END, outcome=outcome, why=why)
    sent = [call for call in calls if call.step == left[0]]
    if sent and sent[-1].answer is Answer.REFUSED:
        why = f"{why}; it could not be given back: {left[0]} was refused: {sent[-1].words}"
        return Next(Turn.END, outcome=ActionState.FAILED, why=why, stuck=True)
    if wait := _wait(sent, now, settle):
        return Next(Turn.LOOK_AGAIN, left[0], pause=min(PAUSE, wait), why=f"{why}; {left[0]} does not show yet")
    return Next(Turn.CALL, left[0], outcome=outcome, why=why, relief=True)


def _wait(sent: Sequence[Call], now: datetime, settle: float) -> float:
    """Seconds until the last of these calls counts as without effect; 0 where none is to be waited for."""
    if not sent or sent[-1].answer is Answer.REFUSED:
        return 0.0
    patience = PAUSE if sent[-1].answer is Answer.NOT_APPLIED else settle
    # A clock that was set back must not make it wait for ever.
    age = now - sent[-1].at
    left = timedelta(seconds=patience) - max(age, timedelta())
    return max(0.0, left.total_seconds())
