"""What comes next, in every situation: pure, over the Slurm actuator and a Slurm that misbehaves."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.actuators.base import Actuator, Aim, BadAim, MaybeApplied, NotApplied, Refused, Unseen
from recovery.actuators.slurm import Slurm
from recovery.actuators.stepper import Answer, Call, Next, Turn, next_thing
from recovery.words import ActionKind, ActionState
from tests.recovery.fake_slurm import SUBMIT, FakeSlurm, Killed, a_job
from verdicts.collectors.slurm_records import NodeState

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
SETTLE = 30.0


def an_aim(action: ActionKind = ActionKind.RESTART_EXCLUDING, **changes: Any) -> Aim:
    nodes = () if action in (ActionKind.RESTART, ActionKind.STOP, ActionKind.HOLD) else ("gpu-01",)
    said: dict[str, Any] = {
        "action": action,
        "mark": "inquest-1234abcd",
        "job_id": "4711",
        "submitted": datetime.fromtimestamp(SUBMIT, UTC),
        "restart_count": 0,
        "nodes": nodes,
    }
    return Aim(**(said | changes))


def slurm(fake: FakeSlurm, partitions: frozenset[str] = frozenset()) -> Slurm:
    return Slurm(fake, can=frozenset(ActionKind), partitions=partitions, settle=SETTLE, deadline=300)  # type: ignore[arg-type]


@dataclasses.dataclass
class Run:
    """A dispatcher in small: what it remembers is what it wrote down, and it may die anywhere."""

    fake: FakeSlurm = dataclasses.field(default_factory=FakeSlurm)
    aim: Aim = dataclasses.field(default_factory=an_aim)
    calls: list[Call] = dataclasses.field(default_factory=list)
    now: datetime = START
    stop: str = ""
    partitions: frozenset[str] = frozenset()
    way: Actuator | None = None

    def turn(self) -> Next | None:
        """One look and what follows from it; None where it could not look."""
        way = self.way or slurm(self.fake, self.partitions)
        self.now += timedelta(seconds=1)
        aim = dataclasses.replace(self.aim, begun=bool(self.calls))
        steps, undo = way.steps(aim.action), way.undo(aim.action)
        try:
            look = way.look(aim)
        except Unseen:
            return None
        thing = next_thing(steps, undo, look, self.calls, now=self.now, settle=SETTLE, stop=self.stop)
        if thing.turn is Turn.CALL:
            back = thing.outcome if thing.relief else None
            self.calls.append(Call(thing.step, self.now, gives_back=back, why=thing.why))
            answer, words = Answer.OK, ""
            try:
                way.do(thing.step, aim, look)
            except NotApplied:
                answer = Answer.NOT_APPLIED
            except MaybeApplied:
                answer = Answer.MAYBE
            except Refused as error:
                answer, words = Answer.REFUSED, str(error)
            except Killed:
                return thing
            self.calls[-1] = dataclasses.replace(self.calls[-1], answer=answer, words=words)
        return thing

    def to_the_end(self, turns: int = 200) -> Next:
        for _ in range(turns):
            thing = self.turn()
            if thing is not None and thing.turn is Turn.END:
                return thing
            if thing is not None and thing.turn is Turn.LOOK_AGAIN:
                self.now += timedelta(seconds=thing.pause)
        raise AssertionError("it does not end")


def verbs(fake: FakeSlurm) -> list[str]:
    return [sent[0] if sent[0] != "update" else sent[-1].partition("=")[0] for sent in fake.sent]


def test_a_restart_without_a_node_is_four_calls_in_their_order() -> None:
    fake = FakeSlurm(a_job(admin_comment="by hand", excluded=frozenset({"gpu-09"})))
    assert Run(fake).to_the_end().outcome is ActionState.CONVERGED
    assert verbs(fake) == ["requeuehold", "admincomment", "excnodelist", "release"]
    assert fake.record is not None
    assert fake.record.excluded == {"gpu-01", "gpu-09"}, "what the user left out stays left out"
    assert fake.record.admin_comment == "by hand inquest-1234abcd"
    assert not fake.record.held


@pytest.mark.parametrize("fate", ["timeout", "lost", "down", "dies_before", "dies_after"])
@pytest.mark.parametrize("verb", ["requeuehold", "admincomment", "excnodelist", "release"])
def test_whatever_becomes_of_a_call_there_is_one_requeue_and_one_exclusion(verb: str, fate: str) -> None:
    fake = FakeSlurm(fates={verb: [fate]})
    assert Run(fake).to_the_end().outcome is ActionState.CONVERGED
    assert fake.effects == {"requeue": 1, "exclude": 1}
    assert fake.record is not None and not fake.record.held


def test_a_call_without_an_answer_is_looked_at_before_it_is_sent_again() -> None:
    fake = FakeSlurm(fates={"requeuehold": ["late"]})
    run = Run(fake)
    run.turn()
    for _ in range(5):
        thing = run.turn()
        assert thing is not None and thing.turn is Turn.LOOK_AGAIN
    fake.tick()
    assert run.to_the_end().outcome is ActionState.CONVERGED
    assert fake.effects["requeue"] == 1


def test_a_step_without_effect_is_given_up_and_what_was_done_is_given_back() -> None:
    fake = FakeSlurm(fates={"excnodelist": ["lost", "lost"]})
    end = Run(fake).to_the_end()
    assert end.outcome is ActionState.FAILED and "exclude was sent 2 times" in end.why
    assert verbs(fake)[-1] == "release"
    assert fake.record is not None and not fake.record.held


def test_a_refusal_in_the_middle_gives_the_job_back() -> None:
    fake = FakeSlurm(fates={"excnodelist": ["no"]})
    end = Run(fake).to_the_end()
    assert end.outcome is ActionState.FAILED and "Access denied" in end.why and not end.stuck
    assert fake.record is not None and not fake.record.held


def test_what_cannot_be_given_back_is_told() -> None:
    fake = FakeSlurm(fates={"excnodelist": ["no"], "release": ["no"]})
    end = Run(fake).to_the_end()
    assert end.stuck and "could not be given back" in end.why


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_stop_in_mid_flight_sends_nothing_more_but_what_gives_back(after: int) -> None:
    fake = FakeSlurm(a_job(excluded=frozenset({"gpu-09"})))
    run = Run(fake)
    for _ in range(after):
        run.turn()
    done = len(fake.sent)
    run.stop = "veto: node gpu-01 is left alone"
    end = run.to_the_end()
    assert end.outcome is ActionState.ABANDONED and "veto" in end.why
    assert fake.record is not None and not fake.record.held
    assert fake.record.excluded == {"gpu-09"}, "a node that is left alone is not left out either"
    assert set(verbs(fake)[done:]) <= {"excnodelist", "release"}
    assert after or not fake.sent


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (None, "no longer knows"),
        (a_job(restarts=1, submit=SUBMIT + 60), "at restart 1 already"),
        (a_job(restarts=1, submit=SUBMIT + 60, state="PENDING", held=True), "at restart 1 already"),
        (a_job(submit=SUBMIT - 500), "another job has this number"),
        (a_job(requeue=False), "--no-requeue"),
        (a_job(batch=False), "no batch job"),
        (a_job(heterogeneous=True), "heterogeneous"),
        (a_job(required=frozenset({"gpu-01"})), "by name"),
        (a_job(held=True), "somebody holds it"),
        (a_job(partition="debug"), "partition debug"),
    ],
)
def test_a_job_that_is_not_the_plans_is_never_touched(job: Any, why: str) -> None:
    fake = FakeSlurm(job)
    end = Run(fake, partitions=frozenset({"train"})).to_the_end()
    assert end.outcome is ActionState.ABANDONED and why in end.why
    assert fake.sent == []


def test_an_unknown_submit_time_is_no_wildcard() -> None:
    fake = FakeSlurm()
    assert "does not say when" in Run(fake, an_aim(submitted=None)).to_the_end().why
    assert fake.sent == []


def test_a_job_that_somebody_released_meanwhile_is_left_to_them() -> None:
    fake = FakeSlurm()
    run = Run(fake)
    run.turn()
    fake._apply(("release", "4711"))
    end = run.to_the_end()
    assert end.outcome is ActionState.ABANDONED and "somebody released it" in end.why
    assert verbs(fake) == ["requeuehold"]


def test_stop_of_what_ended_by_itself_is_already_so_and_of_what_runs_is_one_cancel() -> None:
    over = FakeSlurm(a_job(state="FAILED"))
    assert Run(over, an_aim(ActionKind.STOP)).to_the_end().outcome is ActionState.ALREADY_SO
    assert over.sent == []
    runs = FakeSlurm(fates={"cancel": ["timeout"]})
    assert Run(runs, an_aim(ActionKind.STOP)).to_the_end().outcome is ActionState.CONVERGED
    assert runs.effects == {"cancel": 1}


def test_a_node_is_drained_once_no_job_runs_there_and_undrained_only_where_the_mark_is_ours() -> None:
    fake = FakeSlurm(states={"gpu-01": NodeState("gpu-01", "MIXED")})
    run = Run(fake, an_aim(ActionKind.DRAIN, reason="gpu.off-the-bus"))
    thing = run.turn()
    assert thing is not None and thing.turn is Turn.LOOK_AGAIN and "jobs run on gpu-01" in thing.why
    fake.states["gpu-01"] = NodeState("gpu-01", "IDLE")
    assert run.to_the_end().outcome is ActionState.CONVERGED
    assert fake.states["gpu-01"].reason == "inquest-1234abcd gpu.off-the-bus"

    back = an_aim(ActionKind.UNDRAIN, mark="inquest-9999", undoes=frozenset({"inquest-1234abcd"}))
    others = FakeSlurm(states={"gpu-01": NodeState("gpu-01", "IDLE+DRAIN", "fan, see ticket inquest-1234abcdef")})
    assert Run(others, back).to_the_end().outcome is ActionState.ALREADY_SO
    assert others.sent == []
    assert Run(fake, back).to_the_end().outcome is ActionState.CONVERGED
    assert fake.effects == {"drain": 1, "undrain": 1}


def test_somebody_elses_drain_is_left_as_it_is() -> None:
    fake = FakeSlurm(states={"gpu-01": NodeState("gpu-01", "IDLE+DRAIN", "bad fan")})
    assert Run(fake, an_aim(ActionKind.DRAIN)).to_the_end().outcome is ActionState.ALREADY_SO
    assert fake.sent == []


def test_lifting_an_exclusion_changes_a_waiting_job_of_ours_and_no_other() -> None:
    lift = an_aim(ActionKind.LIFT_EXCLUSION, mark="inquest-9999", undoes=frozenset({"inquest-1234abcd"}))
    ours = a_job(
        state="PENDING", restarts=1, excluded=frozenset({"gpu-01", "gpu-09"}), admin_comment="inquest-1234abcd"
    )
    fake = FakeSlurm(ours)
    assert Run(fake, lift).to_the_end().outcome is ActionState.CONVERGED
    assert fake.record is not None and fake.record.excluded == {"gpu-09"}
    for other in (a_job(state="PENDING", excluded=frozenset({"gpu-01"})), None):
        untouched = FakeSlurm(other)
        assert Run(untouched, lift).to_the_end().outcome is ActionState.ALREADY_SO
        assert untouched.sent == []


@pytest.mark.parametrize("nodes", [(), ("gpu-[01-02]",), ("gpu-01", "gpu-01"), ("ALL",), ("--all",), ("a,b",), ("",)])
def test_an_empty_unknown_or_wildcard_set_of_nodes_is_an_error(nodes: tuple[str, ...]) -> None:
    with pytest.raises(BadAim):
        an_aim(nodes=nodes)


FATES = st.sampled_from(["ok", "timeout", "lost", "down", "dies_before", "dies_after", "late", "no"])


@settings(max_examples=150, deadline=None)
@given(
    fates=st.fixed_dictionaries(
        {verb: st.lists(FATES, max_size=3) for verb in ("requeuehold", "admincomment", "excnodelist", "release")}
    ),
    stop_after=st.integers(0, 30),
    unseen=st.integers(0, 4),
)
def test_no_history_has_two_requeues_or_leaves_a_job_held_in_silence(
    fates: dict[str, list[str]], stop_after: int, unseen: int
) -> None:
    fake = FakeSlurm(fates={verb: list(some) for verb, some in fates.items()}, unseen=unseen)
    run = Run(fake)
    end = None
    for number in range(300):
        if number == stop_after:
            run.stop = "the deadline has passed"
        # What is late comes before the settling time is over.
        if number % 3 == 2:
            fake.tick()
        thing = run.turn()
        if thing is not None and thing.turn is Turn.END:
            end = thing
            break
    assert end is not None, "it does not end"
    assert fake.effects.get("requeue", 0) <= 1
    assert fake.effects.get("exclude", 0) <= 1
    assert fake.record is not None
    assert not fake.record.held or end.stuck
