"""A cluster without a database: the real guards, moves, steps and Slurm actuator over a scheduler that misbehaves.

What is simulated is the store (proposals, vetoes, brakes, exclusions in memory), the clock and Slurm; what the dispatcher
does between two rows is `recovery.acting.dispatch`'s loop with the same pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from recovery import guards, machine
from recovery.actuators.base import Aim, MaybeApplied, NotApplied, Refused
from recovery.actuators.slurm import Slurm
from recovery.actuators.stepper import Answer, Call, Next, Turn, next_thing
from recovery.caps import Caps
from recovery.facts import Away, BrakeNow, Element, Facts, Shared, Took, VetoNow, WrongExclusion
from recovery.plan import Plan
from recovery.words import (
    ENDED_ACTIONS,
    EXCLUDING,
    OPEN_PROPOSALS,
    RELIEF,
    ActionKind,
    ActionState,
    BrakeKind,
    ProposalState,
    VetoKind,
)
from tests.recovery.fake_slurm import SUBMIT, FakeSlurm, Killed, a_job
from tests.recovery.worlds import a_plan

NODES = [f"gpu-{number:02d}" for number in range(1, 41)]
SWITCHES = {f"sw-{place}": frozenset(NODES[place * 10 : place * 10 + 10]) for place in range(4)}
START = datetime.fromtimestamp(SUBMIT, UTC) + timedelta(hours=2)
SETTLE = 10.0
DEADLINE = timedelta(minutes=15)
#: Asked before the first call and not in mid-flight, as the dispatcher has it.
BEFORE_THE_FIRST = frozenset({"job", "age"})
CAPS = Caps(
    nodes_per_action=2,
    nodes_per_job=2,
    nodes_per_hour=3,
    nodes_per_day=5,
    actions_per_hour=5,
    partition_share=0.1,
    rack_share=1,
    switch_share=0.2,
    cluster_share=0.1,
    exclusions_alive=3,
    healthy_share=0.5,
    cooldown_minutes=1,
    max_age_minutes=600,
)
GOING_ON = (ProposalState.APPROVED, ProposalState.ACTING)


@dataclass
class Act:
    """An action's row."""

    outcome: ActionState = ActionState.INTENDED
    calls: list[Call] = field(default_factory=list)
    kept: frozenset[str] = frozenset()
    deadline: datetime = START
    stuck: bool = False


@dataclass
class Row:
    """A proposal's row."""

    plan: Plan
    state: ProposalState
    act: Act | None = None
    begun_at: datetime | None = None

    def move(self, to: ProposalState) -> None:
        machine.require_proposal(self.state, to)
        self.state = to


@dataclass
class Kept:
    """An exclusion's row."""

    node: str
    row: Row
    since: datetime
    standing: bool = True
    wrong: bool = False


@dataclass
class World:
    """Everything there is."""

    now: datetime = START
    slurm: dict[str, FakeSlurm] = field(default_factory=dict)
    verdicts: dict[str, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    vetoes: set[tuple[VetoKind, str]] = field(default_factory=set)
    brakes: dict[BrakeKind, datetime | None] = field(default_factory=dict)
    incidents: set[str] = field(default_factory=set)
    killed: bool = False
    sent: int = 0
    set_back: bool = False
    under_way: float = 0.0

    def __post_init__(self) -> None:
        for job in ("1", "2", "3"):
            self.slurm[job] = FakeSlurm(a_job(id=job, state="RUNNING", partition="batch"))
            self.verdicts[job] = 0

    # What is so

    def facts(self, plan: Plan) -> Facts:
        own = {id(row) for row in self.rows if row.plan.id == plan.id}
        others = [row for row in self.rows if id(row) not in own and row.plan.action in EXCLUDING]
        away = [
            Away(node=one.node, workload=one.row.plan.workload, since=one.since)
            for one in self.kept
            if one.standing and id(one.row) not in own
        ]
        away += [
            Away(node=node, workload=row.plan.workload, since=row.plan.created)
            for row in others
            if row.state in GOING_ON
            for node in row.plan.nodes
        ]
        gone = frozenset(one.node for one in away)
        mine = frozenset(plan.nodes)
        elements = [
            Element(kind=kind, name=name, of=len(members), away=gone & members, taken=mine & members)
            for kind, name, members in (
                ("cluster", "alpha", frozenset(NODES)),
                ("partition", "batch", frozenset(NODES)),
                ("rack", "r-1", frozenset(NODES)),
                *(("switch", name, members) for name, members in SWITCHES.items() if members & mine),
            )
        ]
        took = [
            Took(
                at=row.begun_at or row.plan.created,
                workload=row.plan.workload,
                nodes=row.plan.nodes if row.plan.action in EXCLUDING else [],
            )
            for row in self.rows
            if id(row) not in own
            and row.plan.action not in RELIEF
            and (row.begun_at or row.state is ProposalState.APPROVED)
        ]
        job = self.slurm[plan.job_id].record
        assert job is not None
        groups = {name for name, members in SWITCHES.items() if members & mine}
        named = {VetoKind.NODE: mine, VetoKind.JOB: {plan.job_id}, VetoKind.GROUP: groups}
        return Facts(
            now=self.now,
            killed="the stop file is there" if self.killed else "",
            brakes=[BrakeNow(kind=kind, reason="x", clears_at=at) for kind, at in self.brakes.items()],
            vetoes=[VetoNow(kind=kind, value=value, reason="x") for kind, value in self.vetoes if value in named[kind]],
            verdict_current=plan.verdict_number == self.verdicts[plan.job_id],
            verdict_sha256=plan.verdict_sha256,
            job_changed="" if job.restarts == plan.restart_count else "it was restarted meanwhile",
            failed_at=START,
            away=away,
            took=took,
            elements=elements,
            wrong=[
                WrongExclusion(
                    symptom=one.row.plan.symptom, workload=one.row.plan.workload, node=one.node, since=one.since
                )
                for one in self.kept
                if one.wrong
            ],
            shared=[Shared(element="switch", name=name) for name in self.incidents if SWITCHES[name] & mine],
        )

    # What policies and people do

    def propose(self, job: str, nodes: list[str], action: ActionKind, *, automatic: bool) -> Row | None:
        """As `propose` does: a case that a guard refuses for good leads to nothing."""
        record = self.slurm[job].record
        assert record is not None
        cause = f"{action}:{job}"
        if any(row.plan.cause == cause and row.state in OPEN_PROPOSALS for row in self.rows):
            return None
        plan = a_plan(
            *nodes,
            action=action,
            id=f"{len(self.rows):032x}",
            job_id=job,
            workload=f"w{job}",
            restart_count=record.restarts,
            submit_time=datetime.fromtimestamp(record.submit, UTC),
            cause=cause,
            verdict_number=self.verdicts[job],
            created=self.now,
            expires=self.now + timedelta(minutes=10),
            caps=CAPS,
            job_nodes=2,
        )
        refusals = guards.check(plan, self.facts(plan), CAPS)
        if guards.stands(refusals):
            return None
        row = Row(plan, ProposalState.APPROVED if automatic and not refusals else ProposalState.OPEN)
        self.rows.append(row)
        return row

    def approve(self, row: Row) -> bool:
        """As `decide.approve` does: nothing that a guard refuses is approved."""
        if guards.recheck(row.plan, self.facts(row.plan)):
            return False
        row.move(ProposalState.APPROVED)
        return self.begin(row)

    def begin(self, row: Row) -> bool:
        """As `moves.begin` does."""
        if guards.recheck(row.plan, self.facts(row.plan)):
            return False
        row.move(ProposalState.ACTING)
        row.act, row.begun_at = Act(deadline=self.now + DEADLINE), self.now
        return True

    def sweep(self) -> None:
        """As `decide.sweep` does, without its actions."""
        for row in self.rows:
            if row.state not in (ProposalState.OPEN, ProposalState.APPROVED) or row.plan.action in RELIEF:
                continue
            found = {refusal.guard for refusal in guards.recheck(row.plan, self.facts(row.plan))}
            if "expired" in found:
                row.move(ProposalState.EXPIRED)
            elif "veto" in found:
                row.move(ProposalState.VETOED)
            elif found & {"verdict", "job", "common_cause"}:
                row.move(ProposalState.WITHDRAWN)
            elif row.state is ProposalState.APPROVED:
                self.begin(row)

    def lift(self, one: Kept) -> Row:
        """As `exclusions.lift` does: it gives back, whatever the brakes say."""
        plan = a_relief(self, one)
        assert guards.recheck(plan, self.facts(plan)) == [], "giving back was held up"
        one.standing = False
        row = Row(plan, ProposalState.APPROVED)
        self.rows.append(row)
        assert self.begin(row)
        return row

    # What the dispatcher does

    def dispatch(self, row: Row, turns: int) -> bool:
        """So many turns of the dispatcher for an action; False if it was killed. A new one goes on from the row."""
        assert row.act is not None
        try:
            for _ in range(turns):
                if row.act.outcome in ENDED_ACTIONS:
                    return True
                self._turn(row, row.act)
        except Killed:
            return False
        return True

    def _turn(self, row: Row, act: Act) -> None:
        slurm = self.slurm[row.plan.job_id]
        way = Slurm(slurm, can=frozenset(ActionKind), partitions=frozenset(), settle=SETTLE, deadline=900.0)  # type: ignore[arg-type]
        aim = Aim(
            action=row.plan.action,
            mark=f"inquest-{row.plan.id[-8:]}",
            job_id=row.plan.job_id,
            submitted=row.plan.submit_time,
            restart_count=row.plan.restart_count,
            nodes=tuple(row.plan.nodes),
            begun=bool(act.calls),
            kept=act.kept,
            undoes=frozenset(f"inquest-{one.row.plan.id[-8:]}" for one in self.kept if one.node in row.plan.nodes),
        )
        look = way.look(aim)
        stop, wait_for = self._hindered(row, act)
        thing = next_thing(
            way.steps(row.plan.action),
            way.undo(row.plan.action),
            look,
            act.calls,
            now=self.now,
            settle=SETTLE,
            stop=stop,
        )
        if thing.turn is Turn.END:
            self._finish(row, act, thing)
        elif thing.turn is Turn.LOOK_AGAIN:
            self.pass_time(thing.pause)
        elif wait_for and not thing.relief:
            return
        else:
            if not act.calls:
                act.kept = frozenset(look.facts.get("excluded", ()))
            call = Call(thing.step, self.now, gives_back=thing.outcome if thing.relief else None, why=thing.why)
            act.calls.append(call)
            self._outcome(act, ActionState.SENT)
            slurm.before_call = lambda _: self._reaches(row, relief=thing.relief)
            answer, words = Answer.OK, ""
            try:
                way.do(thing.step, aim, look)
            except NotApplied:
                answer = Answer.NOT_APPLIED
            except MaybeApplied:
                answer = Answer.MAYBE
            except Refused as error:
                answer, words = Answer.REFUSED, str(error)
            act.calls[-1] = Call(call.step, call.at, answer, words, gives_back=call.gives_back, why=call.why)

    def _hindered(self, row: Row, act: Act) -> tuple[str, str]:
        if row.state not in GOING_ON:
            return f"the proposal is {row.state}", ""
        if self.now >= act.deadline and row.plan.action not in RELIEF:
            return "its deadline has passed", ""
        refusals = guards.recheck(row.plan, self.facts(row.plan))
        if act.calls:
            refusals = [one for one in guards.stands(refusals) if one.guard not in BEFORE_THE_FIRST]
        if lasting := guards.stands(refusals):
            return guards.in_words(lasting), ""
        return "", guards.in_words(refusals)

    def _reaches(self, row: Row, *, relief: bool) -> None:
        """A call reaches the scheduler: told here in its own words what must hold for it, beside the guards."""
        self.sent += 1
        if relief or row.plan.action in RELIEF:
            return
        plan = row.plan
        touched = {*plan.nodes, plan.job_id, *(name for name, members in SWITCHES.items() if members & {*plan.nodes})}
        assert row.state is ProposalState.ACTING, f"acted on a proposal that is {row.state}"
        assert self.now < plan.expires, "acted after it had expired"
        assert plan.verdict_number == self.verdicts[plan.job_id], "acted on a superseded verdict"
        assert not touched & {value for _, value in self.vetoes}, "acted against a veto"
        assert BrakeKind.STOP not in self.brakes and not self.killed, "acted against a brake"
        assert not touched & self.incidents, "took a node away for a shared cause"

    def _finish(self, row: Row, act: Act, thing: Next) -> None:
        assert thing.outcome is not None
        self._outcome(act, thing.outcome)
        act.stuck = thing.stuck
        if thing.outcome is ActionState.CONVERGED and row.plan.action is ActionKind.RESTART_EXCLUDING:
            self.kept += [Kept(node, row, self.now) for node in row.plan.nodes]
        if row.state is ProposalState.ACTING:
            row.move(ProposalState.CLOSED)

    @staticmethod
    def _outcome(act: Act, to: ActionState) -> None:
        if act.outcome is not to:
            machine.require_action(act.outcome, to)
            act.outcome = to

    # What the world does

    def pass_time(self, seconds: float) -> None:
        """Time passes; what is under way for as long as a scheduler takes at most arrives."""
        self.now += timedelta(seconds=seconds)
        if seconds < 0:
            self.set_back = True
            return
        self.under_way += seconds
        if self.under_way < SETTLE - 1:
            return
        self.under_way = 0.0
        for slurm in self.slurm.values():
            arrived, slurm.late = slurm.late, []
            for apply in arrived:
                # Nobody hears any more that it was refused.
                with suppress(Refused):
                    apply()


def _between(one: Row, other: Row) -> timedelta:
    assert one.begun_at is not None and other.begun_at is not None
    return other.begun_at - one.begun_at


def a_relief(world: World, one: Kept) -> Plan:
    """The plan that gives a node back."""
    before = one.row.plan
    return msgspec.structs.replace(
        before,
        id=f"{len(world.rows):032x}",
        action=ActionKind.LIFT_EXCLUSION,
        nodes=[one.node],
        cause=f"exclusion:{one.node}:{before.id}",
        verdict=None,
        created=world.now,
        expires=world.now + timedelta(days=7),
    )


VERBS = ("requeuehold", "admincomment", "excnodelist", "release")
FATES = ("timeout", "timeout", "late", "lost", "down", "no", "dies_before", "dies_after")
SECONDS = (1, 5, 11, 60, 700, 4000, -30, -400)
JOBS = ("1", "2", "3")


class Story:
    """One history: events that are chosen by `pick`, and what must be so after each."""

    #: How often each event happens, beside the others.
    WEIGHTS = {
        "fail_and_propose": 12,
        "approve": 10,
        "dispatch": 20,
        "misbehave": 8,
        "start": 5,
        "pass_time": 6,
        "sweep": 4,
        "lift": 3,
        "reject": 1,
        "requeue_by_hand": 1,
        "judge_again": 1,
        "veto": 1,
        "end_vetoes": 1,
        "share": 1,
        "brake": 1,
        "release": 2,
        "kill": 1,
    }

    def __init__(self, pick: Callable[[Sequence[Any]], Any]) -> None:
        self.world, self.pick = World(), pick
        self.told: Counter[str] = Counter()

    # Events

    def fail_and_propose(self) -> None:
        job = self.pick(JOBS)
        slurm = self.world.slurm[job]
        if slurm.record is not None and slurm.record.state == "RUNNING":
            slurm._change(state="FAILED")
            self.world.verdicts[job] += 1
        count = self.pick((0, 1, 1, 1, 2, 3))
        first = self.pick(range(len(NODES)))
        nodes = sorted({NODES[(first + 13 * place) % len(NODES)] for place in range(count)})
        action = ActionKind.RESTART_EXCLUDING if nodes else ActionKind.RESTART
        self.world.propose(job, nodes, action, automatic=self.pick((False, True)))

    def approve(self) -> None:
        if rows := self._rows(ProposalState.OPEN):
            self.world.approve(self.pick(rows))

    def reject(self) -> None:
        if rows := self._rows(ProposalState.OPEN):
            self.pick(rows).move(ProposalState.REJECTED)

    def dispatch(self) -> None:
        rows = [row for row in self.world.rows if row.act and row.act.outcome not in ENDED_ACTIONS]
        if rows and not self.world.dispatch(self.pick(rows), self.pick(range(1, 9))):
            self.told["killed"] += 1

    def misbehave(self) -> None:
        self.world.slurm[self.pick(JOBS)].fates.setdefault(self.pick(VERBS), []).append(self.pick(FATES))

    def start(self) -> None:
        self.world.slurm[self.pick(JOBS)].start()

    def requeue_by_hand(self) -> None:
        slurm = self.world.slurm[self.pick(JOBS)]
        if slurm.record is not None and slurm.record.state == "FAILED":
            restarts, submit = slurm.record.restarts + 1, slurm.record.submit + 100
            slurm._change(state="PENDING", reason="None", restarts=restarts, submit=submit)

    def judge_again(self) -> None:
        self.world.verdicts[self.pick(JOBS)] += 1

    def pass_time(self) -> None:
        self.world.pass_time(self.pick(SECONDS))

    def veto(self) -> None:
        nodes = [node for row in self.world.rows for node in row.plan.nodes] or NODES
        kind = self.pick(tuple(VetoKind))
        values = {VetoKind.NODE: nodes, VetoKind.JOB: JOBS, VetoKind.GROUP: sorted(SWITCHES)}[kind]
        self.world.vetoes.add((kind, self.pick(values)))

    def end_vetoes(self) -> None:
        self.world.vetoes.clear()

    def share(self) -> None:
        self.world.incidents ^= {self.pick(sorted(SWITCHES))}

    def brake(self) -> None:
        kind = self.pick(tuple(BrakeKind))
        self.world.brakes[kind] = self.world.now + timedelta(minutes=5) if kind is BrakeKind.PACE else None

    def release(self) -> None:
        self.world.brakes.pop(BrakeKind.STOP, None)
        self.world.killed = False

    def kill(self) -> None:
        self.world.killed = True

    def sweep(self) -> None:
        self.world.sweep()

    def lift(self) -> None:
        if standing := [one for one in self.world.kept if one.standing]:
            one = self.pick(standing)
            one.wrong = self.pick((False, False, True))
            self.world.lift(one)

    def _rows(self, *states: ProposalState) -> list[Row]:
        return [row for row in self.world.rows if row.state in states]

    # What must be so after each

    def check(self) -> None:
        self._nothing_twice()
        self._caps()
        self._nobody_held()
        for one in self.world.kept:
            if one.standing:
                plan = a_relief(self.world, one)
                assert guards.recheck(plan, self.world.facts(plan)) == [], "giving back would be held up"

    def end(self) -> None:
        """When all misfortune ends and the dispatcher works on, every action ends, and no job is left held."""
        for slurm in self.world.slurm.values():
            slurm.fates.clear()
        for row in self.world.rows:
            if row.act is None:
                continue
            for _ in range(30):
                if row.act.outcome in ENDED_ACTIONS:
                    break
                self.world.dispatch(row, 10)
                self.world.pass_time(SETTLE + 1)
            # What waits for a pace or a brake before its first call waits until its deadline.
            assert row.act.outcome in ENDED_ACTIONS or not row.act.calls, (row.plan.action, row.act)
            self.told[f"{row.plan.action} {row.act.outcome}"] += 1
        self.check()
        for slurm in self.world.slurm.values():
            self.told.update(slurm.effects)
        self.told["calls"] += self.world.sent
        self.told.update(f"proposal {row.state}" for row in self.world.rows)

    def _nothing_twice(self) -> None:
        for job, slurm in self.world.slurm.items():
            begun = [row for row in self.world.rows if row.act and row.act.calls and row.plan.job_id == job]
            restarts = [row for row in begun if row.plan.action not in RELIEF]
            assert slurm.effects.get("requeue", 0) <= len(restarts), "requeued twice"
            assert slurm.effects.get("exclude", 0) <= sum(row.plan.action in EXCLUDING for row in restarts)
            # One attempt of a job is requeued once, whatever was proposed for it.
            assert slurm.effects.get("requeue", 0) <= len({row.plan.restart_count for row in restarts})

    def _caps(self) -> None:
        under_way = [row for row in self.world.rows if row.state in GOING_ON and row.plan.action in EXCLUDING]
        away = {one.node for one in self.world.kept if one.standing} | {n for row in under_way for n in row.plan.nodes}
        assert len(away) <= min(
            CAPS.exclusions_alive, CAPS.partition_share * len(NODES), CAPS.cluster_share * len(NODES)
        )
        assert all(len(away & members) <= max(1, CAPS.switch_share * len(members)) for members in SWITCHES.values())
        for job in JOBS:
            kept = {one.node for one in self.world.kept if one.standing and one.row.plan.job_id == job}
            assert len(kept) <= CAPS.nodes_per_job
        begun = [row for row in self.world.rows if row.begun_at and row.plan.action not in RELIEF]
        for row in begun:
            assert len(row.plan.nodes) <= CAPS.nodes_per_action
            if self.world.set_back:  # then what was begun later stands at an earlier time
                continue
            hour = [one for one in begun if timedelta() <= _between(one, row) < timedelta(hours=1)]
            assert len(hour) <= CAPS.actions_per_hour, "too many actions in an hour"
            assert sum(len(one.plan.nodes) for one in hour) <= CAPS.nodes_per_hour, "too many nodes in an hour"
            cool = [one for one in hour if one is not row and one.plan.job_id == row.plan.job_id]
            assert all(_between(one, row) >= timedelta(minutes=CAPS.cooldown_minutes) for one in cool), "no cool-down"

    def _nobody_held(self) -> None:
        for job, slurm in self.world.slurm.items():
            acts = [row.act for row in self.world.rows if row.act and row.plan.job_id == job]
            going_on = any(act.outcome not in ENDED_ACTIONS for act in acts)
            if slurm.record is not None and slurm.record.held and not going_on and not slurm.late:
                assert any(act.stuck for act in acts), f"job {job} was left held"
