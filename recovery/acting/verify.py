"""Looking whether an action worked: milestones are what was observed of the job afterwards, never what was sent.

What follows an action is the next attempt of the same job, as discovery finds it, and the progress that it shows.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Max, OuterRef, Subquery
from django.utils import timezone

from recovery import successors
from recovery.acting.milestones import reached
from recovery.goodput.timings import Moments
from recovery.models import Action, Milestone, ProgressSample, RankProgress
from recovery.progress import record as progress
from recovery.words import ActionKind, ActionState, MilestoneKind
from rules.terminal import scheduler_state
from rules.words import State
from verdicts.models import Attempt

log = logging.getLogger(__name__)

#: How long milestones of an action are looked for, and of how many actions in one go.
LOOKED_FOR, AT_ONCE = timedelta(days=30), 500
#: Progress of an attempt that ended may still come in for so long.
LATE = timedelta(minutes=10)
RESTARTS = [ActionKind.RESTART.value, ActionKind.RESTART_EXCLUDING.value]
REACHED = [ActionState.CONVERGED.value, ActionState.ALREADY_SO.value]


def work() -> int:
    """Look what came of restarts that were done; says how many milestones were seen that were not known."""
    rows = (
        Action.objects.filter(kind__in=RESTARTS, outcome__in=REACHED, finished_at__gt=timezone.now() - LOOKED_FOR)
        .exclude(milestones__kind=MilestoneKind.COMPLETED.value)
        .select_related("proposal__attempt")
        .prefetch_related("milestones")
        .order_by("-finished_at")[:AT_ONCE]
    )
    return sum(_look(row) for row in rows)


def _look(action: Action) -> int:
    before = action.proposal.attempt
    after = successors.successor(before)
    if after is None:
        return 0
    known = {milestone.kind for milestone in action.milestones.all()}
    seen = 0
    if MilestoneKind.ALLOCATION_RESTARTED.value not in known and after.started_at is not None:
        seen += _restarted(action, after)
    if MilestoneKind.PROGRESS_RESTORED.value not in known and not _long_over(after):
        seen += _progressed(action, before, after)
    if after.ended_at is not None and scheduler_state(after.state) is State.SUCCEEDED:
        evidence = {"state": after.state}
        seen += reached(action, MilestoneKind.COMPLETED, at=after.ended_at, attempt=after, evidence=evidence)
    return seen


def _long_over(attempt: Attempt) -> bool:
    return attempt.ended_at is not None and attempt.ended_at < timezone.now() - LATE


def _restarted(action: Action, after: Attempt) -> int:
    assert after.started_at is not None
    nodes = set(after.nodes.values_list("name", flat=True))
    there = sorted(nodes & set(action.proposal.nodes))
    if there:
        log.warning("action %s: the job was started on %s all the same", action.mark, ", ".join(there))
    evidence = {"restart_count": after.restart_count, "nodes": len(nodes), "on_excluded": there}
    return reached(action, MilestoneKind.ALLOCATION_RESTARTED, at=after.started_at, attempt=after, evidence=evidence)


def _progressed(action: Action, before: Attempt, after: Attempt) -> int:
    """Whether the new attempt is beyond the last checkpoint of the old one. Unknown is not "no", and not "yes"."""
    was, became = progress.latest(before.pk), progress.latest(after.pk)
    if was is None or became is None or became.step_max is None:
        return 0
    # Without a checkpoint that is known, only a step beyond all that it had done is surely beyond it.
    base = was.checkpoint_step if was.checkpoint_step is not None else was.step_max
    if base is None or became.step_max <= base:
        return 0
    evidence = {"checkpoint": was.checkpoint_step, "stood_at": was.step_max, "step": became.step_max}
    at = became.at or became.observed_at
    return reached(action, MilestoneKind.PROGRESS_RESTORED, at=at, attempt=after, evidence=evidence)


def moments(actions: Sequence[Action]) -> list[Moments]:
    """When each thing about some restarts happened, for `timings.parts`."""
    caught_up = _caught_up(actions)
    return [_moments(action, caught_up.get(action.pk)) for action in actions]


def _moments(action: Action, caught_up: datetime | None) -> Moments:
    proposal, anomaly = action.proposal, action.proposal.anomaly
    at = {milestone.kind: milestone.at for milestone in action.milestones.all()}
    return Moments(
        failed=(anomaly.event_at if anomaly else None) or proposal.attempt.ended_at,
        observed=anomaly.observed_at if anomaly else None,
        detected=anomaly.detected_at if anomaly else None,
        proposed=proposal.created_at,
        begun=action.created_at,
        done=at.get(MilestoneKind.ACTION_DONE.value),
        restarted=at.get(MilestoneKind.ALLOCATION_RESTARTED.value),
        progressed=at.get(MilestoneKind.PROGRESS_RESTORED.value),
        caught_up=caught_up,
        automatic=not proposal.decisions.all(),
    )


def _caught_up(actions: Iterable[Action]) -> dict[UUID, datetime]:
    """When the new attempt of each was first seen as far as the old one had been, to the minute."""
    seen = Milestone.objects.filter(action__in=[action.pk for action in actions]).order_by()
    stood = RankProgress.objects.filter(attempt=OuterRef("action__proposal__attempt")).order_by().values("attempt")
    as_far = ProgressSample.objects.filter(attempt=OuterRef("attempt"), most_step__gte=OuterRef("stood"))
    found = (
        seen.filter(kind=MilestoneKind.PROGRESS_RESTORED.value)
        .annotate(stood=Subquery(stood.annotate(most=Max("step")).values("most")))
        .annotate(at_last=Subquery(as_far.order_by("at").values("at")[:1]))
    )
    return dict(found.filter(at_last__isnull=False).values_list("action", "at_last"))
