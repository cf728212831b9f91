"""Random histories over a scheduler that may apply and then time out, with crashes, expiries, vetoes and clock jumps.

Never an action after rejection, expiry, veto or supersession; never two effects; caps never exceeded; release never
blocked; no job left held. INQUEST_HISTORIES asks for more of them.
"""

import os
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from recovery import guards
from recovery.words import (
    ENDED_ACTIONS,
    EXCLUDING,
    RELIEF,
    ActionKind,
    BrakeKind,
    ProposalState,
    VetoKind,
)
from tests.recovery.simulated import CAPS, GOING_ON, NODES, SWITCHES, World, a_relief

JOBS = st.sampled_from(["1", "2", "3"])
FATES = st.sampled_from(["ok", "timeout", "late", "lost", "down", "no", "dies_before", "dies_after"])
VERBS = st.sampled_from(["requeuehold", "admincomment", "excnodelist", "release"])
WAITING = (ProposalState.OPEN, ProposalState.APPROVED)


class Histories(RuleBasedStateMachine):
    """One cluster of 40 nodes, three jobs, and everything that can happen to them."""

    @initialize()
    def begin(self) -> None:
        self.world = World()

    # The world

    @rule(job=JOBS)
    def fails(self, job: str) -> None:
        slurm = self.world.slurm[job]
        assert slurm.record is not None
        if slurm.record.state == "RUNNING":
            slurm._change(state="FAILED")
        self.world.verdicts[job] += 1

    @rule(job=JOBS)
    def starts(self, job: str) -> None:
        self.world.slurm[job].start()

    @rule(job=JOBS)
    def its_owner_requeues_it(self, job: str) -> None:
        slurm = self.world.slurm[job]
        assert slurm.record is not None
        if slurm.record.state == "FAILED":
            restarts, submit = slurm.record.restarts + 1, slurm.record.submit + 100
            slurm._change(state="PENDING", reason="None", restarts=restarts, submit=submit)

    @rule(job=JOBS, verb=VERBS, fate=FATES)
    def a_call_will_have_a_fate(self, job: str, verb: str, fate: str) -> None:
        self.world.slurm[job].fates.setdefault(verb, []).append(fate)

    @rule(seconds=st.sampled_from([1, 5, 11, 60, 700, 4000, -30, -400]))
    def the_clock_moves(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # People and policies

    @rule(job=JOBS, first=st.integers(0, len(NODES) - 1), count=st.integers(1, 3), automatic=st.booleans())
    def leaving_nodes_out_is_proposed(self, job: str, first: int, count: int, automatic: bool) -> None:
        nodes = sorted({NODES[(first + 13 * place) % len(NODES)] for place in range(count)})
        self.world.propose(job, nodes, ActionKind.RESTART_EXCLUDING, automatic=automatic)

    @rule(job=JOBS, automatic=st.booleans())
    def a_restart_is_proposed(self, job: str, automatic: bool) -> None:
        self.world.propose(job, [], ActionKind.RESTART, automatic=automatic)

    def some(self, data: st.DataObject, *states: ProposalState) -> Any:
        rows = [row for row in self.world.rows if row.state in states]
        return data.draw(st.sampled_from(rows)) if rows else None

    @precondition(lambda self: any(row.state is ProposalState.OPEN for row in self.world.rows))
    @rule(data=st.data())
    def one_is_approved(self, data: st.DataObject) -> None:
        self.world.approve(self.some(data, ProposalState.OPEN))

    @precondition(lambda self: any(row.state is ProposalState.OPEN for row in self.world.rows))
    @rule(data=st.data())
    def one_is_rejected(self, data: st.DataObject) -> None:
        self.some(data, ProposalState.OPEN).move(ProposalState.REJECTED)

    @rule(data=st.data())
    def a_veto_is_set(self, data: st.DataObject) -> None:
        nodes = [node for row in self.world.rows for node in row.plan.nodes] or NODES
        kind, value = data.draw(
            st.one_of(
                st.tuples(st.just(VetoKind.NODE), st.sampled_from(nodes)),
                st.tuples(st.just(VetoKind.JOB), JOBS),
                st.tuples(st.just(VetoKind.GROUP), st.sampled_from(sorted(SWITCHES))),
            )
        )
        self.world.vetoes.add((kind, value))

    @rule()
    def vetoes_end(self) -> None:
        self.world.vetoes.clear()

    @rule(switch=st.sampled_from(sorted(SWITCHES)))
    def a_shared_cause_is_found(self, switch: str) -> None:
        self.world.incidents ^= {switch}

    @rule(kind=st.sampled_from(BrakeKind))
    def a_brake_is_pulled(self, kind: BrakeKind) -> None:
        clears = self.world.now + timedelta(minutes=5) if kind is BrakeKind.PACE else None
        self.world.brakes[kind] = clears

    @rule()
    def the_stop_is_released(self) -> None:
        self.world.brakes.pop(BrakeKind.STOP, None)

    @rule()
    def the_kill_switch_is_thrown_or_taken_back(self) -> None:
        self.world.killed = not self.world.killed

    @rule()
    def the_sweep_comes(self) -> None:
        self.world.sweep()

    @precondition(lambda self: any(one.standing for one in self.world.kept))
    @rule(data=st.data(), wrong=st.booleans())
    def an_exclusion_is_lifted(self, data: st.DataObject, wrong: bool) -> None:
        one = data.draw(st.sampled_from([one for one in self.world.kept if one.standing]))
        one.wrong = wrong
        self.world.lift(one)

    # The dispatcher

    @precondition(lambda self: any(row.act for row in self.world.rows))
    @rule(data=st.data(), turns=st.integers(1, 12))
    def the_dispatcher_works(self, data: st.DataObject, turns: int) -> None:
        rows = [row for row in self.world.rows if row.act and row.act.outcome not in ENDED_ACTIONS]
        if rows:
            self.world.dispatch(data.draw(st.sampled_from(rows)), turns)

    # What must always be so

    @invariant()
    def nothing_happens_twice(self) -> None:
        for job, slurm in self.world.slurm.items():
            begun = [row for row in self.world.rows if row.begun_at and row.plan.job_id == job]
            restarts = [row for row in begun if row.plan.action not in RELIEF]
            assert slurm.effects.get("requeue", 0) <= len(restarts)
            assert slurm.effects.get("exclude", 0) <= sum(row.plan.action in EXCLUDING for row in restarts)
            attempts = [(row.plan.restart_count, row.plan.cause) for row in restarts if row.act and row.act.calls]
            assert len(attempts) == len(set(attempts)) or slurm.effects.get("requeue", 0) < len(restarts)

    @invariant()
    def caps_hold(self) -> None:
        away = {one.node for one in self.world.kept if one.standing}
        away |= {
            n
            for row in self.world.rows
            if row.state in GOING_ON and row.plan.action in EXCLUDING
            for n in row.plan.nodes
        }
        assert len(away) <= CAPS.exclusions_alive
        assert all(len(away & members) <= 2 for members in SWITCHES.values())
        assert len(away) <= max(1, CAPS.partition_share * len(NODES))
        for job in ("1", "2", "3"):
            kept = {one.node for one in self.world.kept if one.standing and one.row.plan.job_id == job}
            assert len(kept) <= CAPS.nodes_per_job
        begun = [row for row in self.world.rows if row.begun_at and row.plan.action in EXCLUDING]
        for row in begun:
            # Those begun before it, in the order in which they were, within the hour that ended with it.
            before = begun[: begun.index(row)] if row.begun_at == max(one.begun_at for one in begun) else []
            hour = [one for one in before if one.begun_at > row.begun_at - timedelta(hours=1)]
            assert sum(len(one.plan.nodes) for one in [*hour, row]) <= CAPS.nodes_per_hour

    @invariant()
    def no_job_is_left_held(self) -> None:
        for job, slurm in self.world.slurm.items():
            actions = [row.act for row in self.world.rows if row.act and row.plan.job_id == job]
            going_on = any(act.outcome not in ENDED_ACTIONS for act in actions)
            if slurm.record is not None and slurm.record.held and not going_on and not slurm.late:
                assert any(act.stuck for act in actions), f"job {job} was left held"

    @invariant()
    def what_was_taken_can_be_given_back(self) -> None:
        for one in self.world.kept:
            if one.standing:
                plan = a_relief(self.world, one)
                assert guards.recheck(plan, self.world.facts(plan)) == []

    def teardown(self) -> None:
        """When all misfortune ends and the dispatcher works on, every action ends, and no job is left held."""
        if not hasattr(self, "world"):
            return
        for slurm in self.world.slurm.values():
            slurm.fates.clear()
        for row in self.world.rows:
            if row.act:
                for _ in range(20):
                    self.world.dispatch(row, 10)
                    self.world.pass_time(11)
                assert row.act.outcome in ENDED_ACTIONS, (row.plan.action, row.act)
        self.no_job_is_left_held()
        self.nothing_happens_twice()


Histories.TestCase.settings = settings(
    max_examples=int(os.environ.get("INQUEST_HISTORIES", "150")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestHistories = Histories.TestCase
