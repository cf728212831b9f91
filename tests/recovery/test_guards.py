"""Each guard by itself: what it refuses, in which words, and what it lets through."""

import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from recovery import guards
from recovery import plan as plans
from recovery.caps import CEILING, Caps, bounded
from recovery.facts import (
    Away,
    BrakeNow,
    Element,
    Restarted,
    Shared,
    Took,
    VetoNow,
    WrongExclusion,
)
from recovery.plan import Taken
from recovery.words import ActionKind, BrakeKind, VetoKind
from tests.recovery.worlds import NOW, a_plan, facts


def names(refusals: Sequence[guards.Refusal]) -> list[str]:
    return [refusal.guard for refusal in refusals]


def ago(**more: float) -> Any:
    return NOW - timedelta(**more)


def test_nothing_in_the_way_is_no_refusal() -> None:
    assert guards.recheck(a_plan("gpu-01"), facts("gpu-01")) == []


@pytest.mark.parametrize(
    "nodes", [(), ("*",), ("gpu-[01-04]",), ("gpu-01,gpu-02",), ("all",), ("",), ("gpu 01",), ("--all",), ("a", "a")]
)
def test_nodes_that_are_empty_unknown_or_patterns_are_errors(nodes: tuple[str, ...]) -> None:
    assert "nodes" in names(guards.check(a_plan(*nodes), facts(*nodes), Caps()))


def test_a_node_that_the_cluster_does_not_have_is_an_error() -> None:
    (refusal,) = guards.check(a_plan("gpu-01"), facts("gpu-01", elements=[]), Caps())
    assert refusal.said == "not known as nodes of cluster alpha: gpu-01"


CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("kill_switch", {"killed": "the stop file is there"}, {}, "the stop file is there"),
    ("stop", {"brakes": [BrakeNow(kind=BrakeKind.STOP, reason="flood")]}, {}, "recovery is stopped: flood"),
    ("pace", {"brakes": [BrakeNow(kind=BrakeKind.PACE, reason="x", clears_at=NOW + timedelta(hours=1))]}, {}, "slowed"),
    ("veto", {"vetoes": [VetoNow(kind=VetoKind.NODE, value="gpu-01", reason="test")]}, {}, "node gpu-01 is left alone"),
    ("age", {"failed_at": ago(hours=5)}, {}, "happened 5 h ago, and 120 min are allowed"),
    ("actions_per_hour", {"took": [Took(at=ago(minutes=30), workload=f"w{n}") for n in range(20)]}, {}, "20 actions"),
    ("cooldown", {"took": [Took(at=ago(minutes=5), workload="ml/llm-70b")]}, {}, "10 min must pass"),
    ("cooldown", {"took": [Took(at=ago(minutes=5), workload="other", nodes=["gpu-01"])]}, {}, "10 min must pass"),
    ("cooldown", {"took": [Took(at=NOW + timedelta(hours=9), workload="ml/llm-70b")]}, {}, "10 min must pass"),
    ("nodes_per_action", {}, {"caps": Caps(nodes_per_action=0)}, "1 nodes at once, and 0 are allowed"),
    (
        "nodes_per_job",
        {"away": [Away(node=f"n{n}", workload="ml/llm-70b", since=ago(hours=3)) for n in range(4)]},
        {},
        "5 nodes would be kept away from this workload",
    ),
    (
        "nodes_per_hour",
        {"took": [Took(at=ago(minutes=50), workload=f"w{n}", nodes=[f"a{n}", f"b{n}"]) for n in range(2)]},
        {},
        "5 nodes would be taken in 1 h, and 4 are allowed",
    ),
    (
        "nodes_per_day",
        {"took": [Took(at=ago(hours=20), workload="w", nodes=[f"n{n}"]) for n in range(16)]},
        {},
        "17 nodes would be taken in 24 h",
    ),
    (
        "exclusions_alive",
        {"away": [Away(node=f"n{n}", workload="w", since=ago(hours=3)) for n in range(10)]},
        {},
        "11 nodes would be away at once",
    ),
    ("common_cause", {"shared": [Shared(element="switch", name="sw1")]}, {}, "switch sw1 is the shared cause"),
    ("domain", {}, {"domain": "ambiguous"}, "a verdict of ambiguous takes no node away"),
    ("domain", {}, {"domain": "unattributed"}, "a verdict of unattributed takes no node away"),
    ("domain", {}, {"domain": "application_code"}, "takes no node away"),
    (
        "wrong_exclusion",
        {"wrong": [WrongExclusion(symptom="gpu_off_bus", workload="ml/llm-70b", node="gpu-07", since=ago(days=1))]},
        {},
        "gpu_off_bus came again in this workload after gpu-07 was left out",
    ),
    (
        "wrong_exclusion",
        {"wrong": [WrongExclusion(symptom="gpu_off_bus", workload=w, node="n", since=ago(days=1)) for w in "ab"]},
        {},
        "2 exclusions for gpu_off_bus were wrong",
    ),
    (
        "wrong_exclusion",
        {
            "wrong": [WrongExclusion(symptom="gpu_off_bus", workload=w, node="n", since=ago(days=1)) for w in "abc"],
            "alike": 29,
        },
        {},
        "3 of 29 exclusions for gpu_off_bus were wrong",
    ),
]


@pytest.mark.parametrize(("guard", "world", "plan", "said"), CASES)
def test_a_guard_refuses_and_says_why(guard: str, world: dict[str, Any], plan: dict[str, Any], said: str) -> None:
    made = a_plan("gpu-01", **plan)
    (refusal,) = guards.recheck(made, facts("gpu-01", **world))
    assert refusal.guard == guard and said in refusal.said


@pytest.mark.parametrize(("guard", "world", "plan", "said"), CASES)
@pytest.mark.parametrize("action", [ActionKind.UNDRAIN, ActionKind.LIFT_EXCLUSION])
def test_no_guard_stands_in_the_way_of_giving_back(
    action: ActionKind, guard: str, world: dict[str, Any], plan: dict[str, Any], said: str
) -> None:
    made = a_plan("gpu-01", action=action, **plan)
    assert guards.recheck(made, facts(elements=[], verdict_current=False, job_changed="it runs", **(world))) == []


def test_what_was_not_taken_by_us_is_not_given_back() -> None:
    assert names(guards.check(a_plan("gpu-01", action=ActionKind.UNDRAIN), facts(exclusion_ours=False), Caps())) == [
        "ours"
    ]


@pytest.mark.parametrize(
    ("world", "plan", "guard"),
    [
        ({}, {"expires": NOW}, "expired"),
        ({"now": NOW - timedelta(days=1), "failed_at": None}, {}, "clock"),
        ({"verdict_current": False}, {}, "verdict"),
        ({"verdict_sha256": "cd" * 32}, {}, "verdict"),
        ({"verdict_current": None}, {}, "verdict"),
        ({"job_changed": "job id 4711 belongs to a later submission"}, {}, "job"),
        ({"moving": "it moves again: step 12"}, {}, "moving"),
        ({"demoted": "two wrong actions in 7 days"}, {}, "mode"),
    ],
)
def test_nothing_is_done_from_a_stale_decision(world: dict[str, Any], plan: dict[str, Any], guard: str) -> None:
    assert names(guards.recheck(a_plan("gpu-01", **plan), facts("gpu-01", **world))) == [guard]


def test_in_mid_flight_what_the_first_call_changed_does_not_speak_against_the_next() -> None:
    world = facts("gpu-01", job_changed="restarted", took=[Took(at=NOW, workload="ml/llm-70b")])
    assert guards.recheck(a_plan("gpu-01"), world, begun=True) == []
    vetoed = facts("gpu-01", vetoes=[VetoNow(kind=VetoKind.JOB, value="4711", reason="x")])
    assert names(guards.recheck(a_plan("gpu-01"), vetoed, begun=True)) == ["veto"]


@pytest.mark.parametrize("kind", ["partition", "rack", "switch", "cluster"])
def test_a_share_leaves_room_for_one_node_and_refuses_more(kind: str) -> None:
    wide = Caps(partition_share=0.25, rack_share=0.25, switch_share=0.25, cluster_share=0.25, healthy_share=0.5)

    def of(away: set[str]) -> list[str]:
        taken = frozenset({"gpu-01"})
        small = Element(kind=kind, name="x", of=4, away=frozenset(away), taken=taken)
        rest = [one for one in facts("gpu-01").elements if one.kind != kind]
        cluster = Element(kind="cluster", name="alpha", of=200, taken=taken)
        elements = [cluster, small, *rest] if kind != "cluster" else [small, *rest]
        return names(guards.check(a_plan("gpu-01", job_nodes=1), facts(elements=elements), wide))

    assert of(set()) == []
    assert of({"gpu-02"}) == [f"{kind}_share"]


def test_of_an_unknown_share_one_node_is_the_most() -> None:
    known = [Element(kind="cluster", name="alpha", of=200, taken=frozenset({"a", "b"}))]
    found = names(guards.check(a_plan("a", "b"), facts(elements=known), Caps()))
    assert found == ["partition_share", "rack_share", "switch_share"]
    assert guards.check(a_plan("a"), facts(elements=known), Caps()) == []


def test_enough_must_stay_for_the_job_where_the_count_is_exact() -> None:
    taken = frozenset({"gpu-01"})
    for exact, wanted in ((True, ["capacity"]), (False, [])):
        elements = [
            Element(kind="cluster", name="alpha", of=200, taken=taken),
            Element(kind="partition", name="batch", of=8, taken=taken, exact=exact),
        ]
        world = facts(elements=elements)
        assert names(guards.check(a_plan("gpu-01"), world, Caps())) == wanted
        assert bool(guards.doubt_of_room(a_plan("gpu-01"), world)) is not exact


def restarts(*progressed: bool | None, symptom: str = "oom", locus: str = "", hours: float = 1) -> list[Restarted]:
    """Restarts, the latest an hour ago or so, the others before it."""
    count = len(progressed)
    return [
        Restarted(at=ago(hours=hours + count - place), symptom=symptom, locus=locus, progressed=one)
        for place, one in enumerate(progressed)
    ]


def budget(history: list[Restarted], **more: Any) -> list[str]:
    made = a_plan(action=ActionKind.RESTART, symptom="oom", locus="", **more)
    return names(guards.check(made, facts(restarts=history), Caps()))


def test_restarts_without_progress_are_counted_by_workload_cause_and_place() -> None:
    assert budget(restarts(False)) == []
    assert budget(restarts(False, False)) == ["budget_locus"]
    assert budget(restarts(False, False, locus="node=a")) == []
    assert budget(restarts(False, False, False, locus="node=a")) == ["budget_cause"]
    assert budget(restarts(*[False] * 5, symptom="other")) == ["budget"]


def test_a_restart_that_progressed_earns_the_budget_back() -> None:
    assert budget(restarts(False, False, True)) == []
    assert budget(restarts(False, True, False)) == []


def test_an_unknown_restart_spends_nothing_and_is_bounded_in_time() -> None:
    assert budget(restarts(None, None, None)) == []
    assert budget(restarts(*[None] * 7)) == ["budget_unknown"]
    assert budget([*restarts(*[None] * 7, hours=2), *restarts(True, hours=0)]) == []


def test_a_job_lowers_its_own_budget_and_never_raises_it() -> None:
    assert budget(restarts(False), max_restarts=1) == ["budget"]
    assert budget(restarts(*[False] * 5, symptom="other"), max_restarts=99) == ["budget"]


@pytest.mark.parametrize(
    ("before", "after", "farther"),
    [
        ((100, 137), (100, 137), False),  # dies at the same step, past its checkpoint, every time
        ((100, 137), (100, 150), True),
        ((100, 137), (200, 120), True),
        ((100, None), (None, 90), False),
        ((100, None), (None, 150), None),
        ((None, None), (None, 150), None),
        ((100, 137), (None, None), None),
        ((0, 0), (0, 1), True),
    ],
)
def test_farther_is_a_later_checkpoint_or_step_than_ever_and_unknown_is_not_zero(
    before: tuple[int | None, int | None], after: tuple[int | None, int | None], farther: bool | None
) -> None:
    got = guards.gained(checkpoint=before[0], step=before[1], new_checkpoint=after[0], new_step=after[1])
    assert got is farther


@pytest.mark.parametrize(
    ("action", "nodes", "partition", "people"),
    [
        (ActionKind.RESTART, 0, None, 1),
        (ActionKind.RESTART_EXCLUDING, 1, Taken(taken=1, of=4), 1),
        (ActionKind.RESTART_EXCLUDING, 2, Taken(taken=2, of=1000), 1),
        (ActionKind.RESTART_EXCLUDING, 2, Taken(taken=2, of=100), 2),
        (ActionKind.RESTART_EXCLUDING, 2, None, 2),
        (ActionKind.RESTART_EXCLUDING, 3, Taken(taken=3, of=1000), 2),
        (ActionKind.DRAIN, 1, Taken(taken=1, of=1000), 2),
    ],
)
def test_two_people_for_draining_many_nodes_and_a_noticeable_share(
    action: ActionKind, nodes: int, partition: Taken | None, people: int
) -> None:
    assert plans.approvals(action, [f"n{number}" for number in range(nodes)], partition) == people
    assert plans.approvals(action, [f"n{number}" for number in range(nodes)], partition, wanted=3) == 3


def test_what_is_pure_imports_no_django() -> None:
    pure = "caps cost facts guards machine plan policy shared_cause words actuators.base actuators.stepper"
    code = f"import sys, importlib; [importlib.import_module('recovery.' + n) for n in {pure.split()}]; "
    code += "sys.exit(', '.join(n for n in sys.modules if n.split('.')[0] in ('django', 'celery', 'psycopg')))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr.strip() == ""
    )


def test_no_policy_goes_beyond_the_ceiling() -> None:
    wild = Caps(**{name: 1.0 if isinstance(most, float) else 10_000 for name, most in CEILING.items()}, healthy_share=0)
    cut = bounded(wild)
    assert all(getattr(cut, name) == most for name, most in CEILING.items())
    assert cut.healthy_share == 0.5
    assert bounded(Caps()) == Caps()


def test_few_wrong_exclusions_of_many_speak_for_their_own_workload_only() -> None:
    wrong = [WrongExclusion(symptom="gpu_off_bus", workload=w, node="n", since=ago(days=1)) for w in "abc"]
    assert guards.check(a_plan("gpu-01"), facts("gpu-01", wrong=wrong, alike=30), Caps()) == []
    mine = a_plan("gpu-01", workload="a")
    assert [one.guard for one in guards.check(mine, facts("gpu-01", wrong=wrong, alike=30), Caps())] == [
        "wrong_exclusion"
    ]


def test_faults_without_a_name_are_not_the_same_cause_again() -> None:
    spent = [Restarted(at=ago(hours=n), symptom="", locus="", progressed=False) for n in (1, 2, 3, 4)]
    plan = a_plan(action=ActionKind.RESTART, symptom="", locus="")
    assert guards.check(plan, facts(restarts=spent), Caps()) == []
    (refusal,) = guards.check(plan, facts(restarts=[*spent, spent[0]]), Caps())
    assert refusal.guard == "budget"
