"""How an attempt ended: the scheduler's word, sharpened by a cause that says more; else what the logs say."""

from collections.abc import Sequence

from rules.case import Case
from rules.events import Event, event_order
from rules.stamp import Order, order
from rules.words import Role, Source, State

_SCHEDULER_STATES = {
    "COMPLETED": State.SUCCEEDED, "SUCCEEDED": State.SUCCEEDED, "COMPLETE": State.SUCCEEDED,
    "FINISHED": State.SUCCEEDED,
    "FAILED": State.FAILED, "BOOT_FAIL": State.NODE_FAILED, "NODE_FAIL": State.NODE_FAILED,
    "CANCELLED": State.CANCELLED, "CANCELED": State.CANCELLED, "TIMEOUT": State.TIMED_OUT, "DEADLINE": State.TIMED_OUT,
    "DEADLINEEXCEEDED": State.TIMED_OUT, "PREEMPTED": State.PREEMPTED, "EVICTED": State.PREEMPTED,
    "OUT_OF_MEMORY": State.OUT_OF_MEMORY, "OOMKILLED": State.OUT_OF_MEMORY, "RUNNING": State.RUNNING,
    "HUNG": State.HUNG, "DEGRADED": State.DEGRADED, "ERROR": State.FAILED, "REQUEUED": State.PREEMPTED,
}  # fmt: skip


def scheduler_state(word: str) -> State | None:
    """The terminal state that a scheduler's word stands for ("CANCELLED by 1001", "COMPLETED+"); None if unknown."""
    return _SCHEDULER_STATES.get(word.strip().upper().split(" ")[0].rstrip("+"))


#: What a cause may make of a scheduler's plain "failed": Slurm and Kubernetes often say no more.
_SHARPER = {State.OUT_OF_MEMORY, State.TIMED_OUT, State.PREEMPTED, State.NODE_FAILED}


#: Of several ends that logs state, the one that says most counts.
_ENDS = (
    State.HUNG,
    State.OUT_OF_MEMORY,
    State.TIMED_OUT,
    State.NODE_FAILED,
    State.PREEMPTED,
    State.CANCELLED,
    State.FAILED,
)


#: What the watch says of an attempt that runs, and the rule's symptom that ends it.
_WATCHED = {"progress_stopped": State.HUNG, "rank_slow": State.DEGRADED}
_RESUMED = "progress_resumed"


def terminal_state(case: Case, kept: Sequence[Event], unexplained: Sequence[Event]) -> State:
    """The terminal state, given what nothing explains: possible causes (`kept`) and consequences (`unexplained`)."""
    known = scheduler_state(case.attempt.state)
    stated = {e.rule.state for e in kept if e.rule.state and e.rule.role is Role.CAUSE}
    if known is State.FAILED and len(stated) == 1 and (sharper := next(iter(stated))) in _SHARPER:
        return sharper
    if known is State.RUNNING and (watched := _watched(case)):
        return watched
    if known:
        return known
    if case.attempt.exit_code in (0, "0", "0:0") and not case.attempt.signal and not kept:
        return State.SUCCEEDED
    if len(stated) == 1:
        return next(s for s in stated if s)
    if stated:
        return State.FAILED
    own = [e for e in case.events if not e.first.other_job and not e.rule.blamable]
    ends = [e for e in own if e.rule.state]
    for state in _ENDS:
        if any(e.rule.state is state for e in ends):
            return state
    if any(e.rule.state is State.SUCCEEDED and _believed(e, kept, unexplained) for e in ends):
        return State.SUCCEEDED
    if kept or any(e.rule.role not in (Role.STATE, Role.CONFIRMATION, Role.END) for e in own):
        return State.FAILED
    return State.RUNNING if case.progress else State.UNKNOWN


def _watched(case: Case) -> State | None:
    """What the watch last said of an attempt that runs: hung, degraded, or nothing that still holds."""
    said = [e for e in case.events if e.rule.symptom in _WATCHED]
    over = [e for e in case.events if e.rule.symptom == _RESUMED]
    holds = {
        _WATCHED[e.rule.symptom]
        for e in said
        if not any(order(e.seen[-1].when, end.seen[-1].when) is Order.BEFORE for end in over)
    }
    return next((state for state in (State.HUNG, State.DEGRADED) if state in holds), None)


def _believed(end: Event, kept: Sequence[Event], unexplained: Sequence[Event]) -> bool:
    """Whether a success may be believed.

    The scheduler's own: unless there is a plain cause. A program's own: when it comes after all that went
    wrong, for a program that gets to its end has recovered. A wrapper script's "All done" (a generic
    rule) only when nothing went wrong, for it prints that after its program has died as well.
    """
    if {Source.SCHEDULER, Source.KUBERNETES} & set(end.sources):
        return not any(e.rule.role is Role.CAUSE for e in kept)
    wrong = [*kept, *unexplained]
    return not wrong or (not end.rule.match.generic and all(event_order(e, end) is Order.BEFORE for e in wrong))
