"""What stands between a plan and its action, whatever the policy says. Pure: facts in, refusals out.

An empty list of refusals lets the plan go on. What only gives back (`RELIEF`) is held up by nothing but a plan that
names no definite thing: no brake, cap, veto or kill switch stands in its way.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from recovery import plan as plans
from recovery.caps import Caps
from recovery.facts import (
    Away,
    BrakeNow,
    Element,
    Facts,
    Refusal,
    Restarted,
    Shared,
    Took,
    VetoNow,
    WrongExclusion,
)
from recovery.plan import Plan
from recovery.policy import NODE_DOMAINS, UNDECIDED
from recovery.recurrence import too_many
from recovery.wording import GUARDS
from recovery.words import EXCLUDING, RELIEF, ActionKind, BrakeKind

__all__ = [
    "Away",
    "BrakeNow",
    "Caps",
    "Element",
    "Facts",
    "Refusal",
    "Restarted",
    "Shared",
    "Took",
    "VetoNow",
    "WrongExclusion",
    "check",
    "doubt_of_room",
    "gained",
    "in_words",
    "recheck",
    "stands",
]

RESTARTS = frozenset({ActionKind.RESTART, ActionKind.RESTART_EXCLUDING})
#: What changes nothing on a scheduler: brakes on acting do not concern it.
HARMLESS = frozenset({ActionKind.NOTIFY})
#: How far a clock may be behind the one that wrote the plan.
CLOCK_SLACK = timedelta(minutes=2)
#: How long a wrong exclusion speaks against more of its kind.
WRONG_MEMORY = timedelta(days=7)


def check(plan: Plan, facts: Facts, caps: Caps) -> list[Refusal]:
    """Why the plan may not go on, by every guard; empty if it may."""
    found = list(_identity(plan, facts))
    if plan.action in RELIEF:
        return found
    found += _vetoes(facts)
    if plan.action in HARMLESS:
        return found
    found += _brakes(facts)
    found += _age(facts, caps)
    found += _pace(plan, facts, caps)
    if plan.action in RESTARTS:
        found += _budget(plan, facts, caps)
    if plan.action in EXCLUDING:
        found += _domain(plan)
        found += _shared(facts)
        found += _wrong(plan, facts)
        found += _numbers(plan, facts, caps)
        found += _shares(plan, facts, caps)
        found += _capacity(plan, facts, caps)
    return found


def recheck(plan: Plan, facts: Facts, *, begun: bool = False) -> list[Refusal]:
    """The same at the moment of acting: is the plan still about the world as it is? Its own caps apply.

    What only gives back stays right when the verdict or the job has changed. `begun` is for the steps of an action
    whose first call was sent: what that call changes by itself (the job, the pace) does not speak against the next.
    """
    found = check(plan, facts, plan.caps)
    if plan.action in RELIEF:
        return found
    if begun:
        found = [refusal for refusal in found if not refusal.clears and refusal.guard != "age"]
    if facts.now >= plan.expires:
        found.append(Refusal(guard="expired", said=f"it was good until {_clock(plan.expires)}"))
    if facts.now < plan.created - CLOCK_SLACK:
        found.append(Refusal(guard="clock", said="the clock stands before the time at which the plan was made"))
    if plan.verdict is not None:
        if not facts.verdict_current:
            found.append(Refusal(guard="verdict", said="its verdict was superseded by a newer one"))
        elif facts.verdict_sha256 != plan.verdict_sha256:
            found.append(Refusal(guard="verdict", said="its verdict is not the one that the plan was made on"))
    if facts.demoted:
        found.append(Refusal(guard="mode", said=facts.demoted))
    if facts.moving and not begun:
        found.append(Refusal(guard="moving", said=facts.moving))
    if facts.job_changed and not begun:
        found.append(Refusal(guard="job", said=facts.job_changed))
    return found


def gained(
    *, checkpoint: int | None, step: int | None, new_checkpoint: int | None, new_step: int | None
) -> bool | None:
    """Whether a restart came farther than what it restarted; None where that is not known.

    Farther is a later checkpoint or a later step than ever before: a job that dies at the same step again and again
    passes its checkpoint each time, and gains nothing.
    """
    if checkpoint is not None and new_checkpoint is not None and new_checkpoint > checkpoint:
        return True
    if step is not None and new_step is not None:
        return new_step > step
    if checkpoint is not None and new_step is not None and new_step <= checkpoint:
        return False
    return None


def stands(refusals: Sequence[Refusal]) -> list[Refusal]:
    """The refusals that waiting does not clear."""
    return [refusal for refusal in refusals if not refusal.clears]


def in_words(refusals: Sequence[Refusal]) -> str:
    """All refusals in one line, each with what its guard looks after."""
    return "; ".join(f"{GUARDS.get(refusal.guard, refusal.guard)}: {refusal.said}" for refusal in refusals)


def _identity(plan: Plan, facts: Facts) -> Iterator[Refusal]:
    """A plan must name definite things. Unknown is an error, not a wildcard."""
    if why := plans.wrong_nodes(plan.action, plan.nodes):
        yield Refusal(guard="nodes", said=why)
    if not plan.job_id and plan.action not in (ActionKind.DRAIN, ActionKind.UNDRAIN):
        yield Refusal(guard="job", said="it names no job")
    if plan.action in EXCLUDING:
        known = {node for element in facts.elements if element.kind == "cluster" for node in element.taken}
        unknown = sorted(set(plan.nodes) - known)
        if unknown:
            yield Refusal(guard="nodes", said=f"not known as nodes of {_cluster(plan)}: {_some(unknown)}")
    if plan.action in RELIEF and not facts.exclusion_ours:
        yield Refusal(guard="ours", said="what it would give back was not taken by Inquest")


def _brakes(facts: Facts) -> Iterator[Refusal]:
    if facts.killed:
        yield Refusal(guard="kill_switch", said=facts.killed)
    for brake in facts.brakes:
        if brake.kind is BrakeKind.STOP:
            yield Refusal(guard="stop", said=f"recovery is stopped: {brake.reason}")
        elif brake.clears_at is None or brake.clears_at > facts.now:
            until = f" until {_clock(brake.clears_at)}" if brake.clears_at else ""
            yield Refusal(guard="pace", said=f"recovery is slowed down{until}: {brake.reason}", clears=True)


def _vetoes(facts: Facts) -> Iterator[Refusal]:
    for veto in facts.vetoes:
        yield Refusal(guard="veto", said=f"{veto.kind} {veto.value} is left alone: {veto.reason}")


def _age(facts: Facts, caps: Caps) -> Iterator[Refusal]:
    if facts.failed_at is None:
        return
    age = facts.now - facts.failed_at
    if age > timedelta(minutes=caps.max_age_minutes):
        said = f"what it answers happened {_span(age)} ago, and {caps.max_age_minutes} min are allowed"
        yield Refusal(guard="age", said=said)


def _pace(plan: Plan, facts: Facts, caps: Caps) -> Iterator[Refusal]:
    hour = facts.now - timedelta(hours=1)
    # What a clock that jumped back makes look like the future counts as just now.
    actions = sum(took.at > hour for took in facts.took)
    if actions >= caps.actions_per_hour:
        said = f"{actions} actions in the last hour, and {caps.actions_per_hour} are allowed"
        yield Refusal(guard="actions_per_hour", said=said, clears=True)
    cool = facts.now - timedelta(minutes=caps.cooldown_minutes)
    for took in facts.took:
        same = (took.workload == plan.workload and plan.workload) or set(took.nodes) & set(plan.nodes)
        if took.at > cool and same:
            said = f"acted on at {_clock(took.at)}; {caps.cooldown_minutes} min must pass"
            yield Refusal(guard="cooldown", said=said, clears=True)
            return


def _budget(plan: Plan, facts: Facts, caps: Caps) -> Iterator[Refusal]:
    """Restarts without progress past the checkpoint are counted; one that progressed earns the budget back."""
    since = facts.now - timedelta(hours=caps.budget_hours)
    history = sorted((one for one in facts.restarts if one.at > since), key=lambda one: one.at)
    for place in range(len(history) - 1, -1, -1):
        if history[place].progressed:
            history = history[place + 1 :]
            break
    most = (
        caps.restarts_per_workload if plan.max_restarts is None else min(caps.restarts_per_workload, plan.max_restarts)
    )
    spent = [one for one in history if one.progressed is False]
    # What is not known is not the same thing again: two faults without a name may be two faults.
    of_cause = [one for one in spent if plan.symptom and one.symptom == plan.symptom]
    of_locus = [one for one in of_cause if one.locus == plan.locus]
    for name, ones, allowed, what in (
        ("budget", spent, most, "of this workload"),
        ("budget_cause", of_cause, caps.restarts_per_cause, f"for {plan.symptom or 'this cause'}"),
        (
            "budget_locus",
            of_locus,
            caps.restarts_per_locus,
            f"for {plan.symptom or 'this cause'} at {plan.locus or 'this place'}",
        ),
    ):
        if len(ones) >= allowed:
            said = f"{_restarts(len(ones))} {what} made no progress past the checkpoint, and {allowed} are allowed"
            yield Refusal(guard=name, said=said)
    unknown = [one for one in history if one.progressed is None]
    if unknown and facts.now - unknown[0].at > timedelta(hours=caps.unknown_hours):
        said = (
            f"{_restarts(len(unknown))} since {_clock(unknown[0].at)}, and of none is it known whether it progressed; "
            f"{caps.unknown_hours} h are allowed"
        )
        yield Refusal(guard="budget_unknown", said=said)


def _domain(plan: Plan) -> Iterator[Refusal]:
    """A person may name a node without a verdict; a verdict that holds no node at fault takes none away."""
    if plan.verdict is None or plan.policy == "":
        return
    if plan.domain in UNDECIDED or plan.domain not in NODE_DOMAINS:
        yield Refusal(guard="domain", said=f"a verdict of {plan.domain} takes no node away")


def _shared(facts: Facts) -> Iterator[Refusal]:
    for shared in facts.shared:
        said = f"{shared.element} {shared.name} is the shared cause of an open incident: leaving nodes out is no remedy"
        yield Refusal(guard="common_cause", said=said)


def _wrong(plan: Plan, facts: Facts) -> Iterator[Refusal]:
    recent = [one for one in facts.wrong if one.symptom == plan.symptom and facts.now - one.since < WRONG_MEMORY]
    mine = [one for one in recent if plan.workload and one.workload == plan.workload]
    if mine:
        said = f"{plan.symptom} came again in this workload after {_some([one.node for one in mine])} was left out"
        yield Refusal(guard="wrong_exclusion", said=said)
    elif too_many(len(recent), facts.alike):
        of = f" of {facts.alike}" if facts.alike > len(recent) else ""
        said = f"{len(recent)}{of} exclusions for {plan.symptom} were wrong in the last 7 days"
        yield Refusal(guard="wrong_exclusion", said=said)


def _numbers(plan: Plan, facts: Facts, caps: Caps) -> Iterator[Refusal]:
    mine, away = set(plan.nodes), {one.node for one in facts.away}
    if len(mine) > caps.nodes_per_action:
        said = f"{len(mine)} nodes at once, and {caps.nodes_per_action} are allowed"
        yield Refusal(guard="nodes_per_action", said=said)
    of_job = {one.node for one in facts.away if plan.workload and one.workload == plan.workload} | mine
    if len(of_job) > caps.nodes_per_job:
        said = f"{len(of_job)} nodes would be kept away from this workload, and {caps.nodes_per_job} are allowed"
        yield Refusal(guard="nodes_per_job", said=said, clears=True)
    for name, hours, allowed in (("nodes_per_hour", 1, caps.nodes_per_hour), ("nodes_per_day", 24, caps.nodes_per_day)):
        since = facts.now - timedelta(hours=hours)
        taken = sum(len(set(took.nodes)) for took in facts.took if took.at > since) + len(mine)
        if taken > allowed:
            said = f"{taken} nodes would be taken in {hours} h, and {allowed} are allowed"
            yield Refusal(guard=name, said=said, clears=True)
    if len(away | mine) > caps.exclusions_alive:
        said = f"{len(away | mine)} nodes would be away at once, and {caps.exclusions_alive} are allowed"
        yield Refusal(guard="exclusions_alive", said=said, clears=True)


def _shares(plan: Plan, facts: Facts, caps: Caps) -> Iterator[Refusal]:
    """A share allows one node where nothing else of the element is away, or small clusters could do nothing."""
    allowed = {
        "partition": caps.partition_share,
        "rack": caps.rack_share,
        "switch": caps.switch_share,
        "cluster": caps.cluster_share,
    }
    for kind in allowed:
        known = {node for one in facts.elements if one.kind == kind and one.of is not None for node in one.taken}
        if len(plan.nodes) > 1 and set(plan.nodes) - known:
            said = f"how much of a {kind} {len(plan.nodes)} nodes are is not known: one at a time"
            yield Refusal(guard=f"{kind}_share", said=said)
    for element in facts.elements:
        gone = element.away | element.taken
        if element.kind not in allowed or element.of is None or len(gone) <= 1:
            continue
        if len(gone) > allowed[element.kind] * element.of:
            said = (
                f"{len(gone)} of {element.of} nodes of {element.kind} {element.name or '(not named)'} would be away, "
                f"and {allowed[element.kind]:.0%} are allowed"
            )
            yield Refusal(guard=f"{element.kind}_share", said=said, clears=True)


def _capacity(plan: Plan, facts: Facts, caps: Caps) -> Iterator[Refusal]:
    """Enough must stay for everybody, and for the job itself: a restart that never starts helps nobody.

    Nodes that nobody named lately are not counted, so that one node alone is refused only where the count is exact.
    """
    for element in _places(facts):
        gone = element.away | element.taken
        if element.of is None:
            if len(plan.nodes) > 1:
                yield Refusal(guard="capacity", said=f"how many nodes {element.name or 'it'} has is not known")
            continue
        if len(gone) <= 1 and not element.exact:
            continue
        left = element.of - len(gone | element.down)
        what = f"{element.kind} {element.name or '(not named)'}"
        if plan.action is ActionKind.RESTART_EXCLUDING and left < plan.job_nodes:
            said = f"{left} nodes of {what} would be left, and the job needs {plan.job_nodes}"
            yield Refusal(guard="capacity", said=said, clears=True)
        elif len(gone) > 1 and left < caps.healthy_share * element.of:
            said = f"{left} of {element.of} nodes of {what} would be left, and {caps.healthy_share:.0%} must stay"
            yield Refusal(guard="capacity", said=said, clears=True)


def doubt_of_room(plan: Plan, facts: Facts) -> str:
    """What is not known of the room that a job needs to start again without its nodes; empty where there is enough."""
    for element in _places(facts):
        left = (element.of or 0) - len(element.away | element.taken | element.down)
        if plan.action is ActionKind.RESTART_EXCLUDING and not element.exact and left < plan.job_nodes:
            where = f"{element.kind} {element.name or '(not named)'}"
            return f"the job needs {plan.job_nodes} nodes, and of {where} {left} others are known: it may have to wait"
    return ""


def _places(facts: Facts) -> list[Element]:
    """The partitions that a job can run in; the cluster where none is known."""
    parts = [element for element in facts.elements if element.kind == "partition"]
    return parts or [element for element in facts.elements if element.kind == "cluster"]


def _cluster(plan: Plan) -> str:
    return f"cluster {plan.cluster}" if plan.cluster else "the cluster that has no name"


def _restarts(number: int) -> str:
    return "1 restart" if number == 1 else f"{number} restarts"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _clock(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _span(age: timedelta) -> str:
    minutes = int(age.total_seconds() // 60)
    if minutes < 180:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 72 * 60 else f"{minutes // (24 * 60)} days"
