"""Which cases a policy is about, what a job says for itself, and what acting and waiting would cost."""

from typing import Any

import msgspec
import pytest

from recovery import cost, policy
from recovery.policy import Case, Match, OptIn, Rule
from recovery.words import ActionKind, PolicyMode
from rules.words import Domain, Maturity, State, Strength


def a_case(**more: Any) -> Case:
    said: dict[str, Any] = {
        "cluster": "h100-a",
        "partition": "batch",
        "state": State.FAILED,
        "domain": Domain.GPU_HARDWARE,
        "strength": Strength.STRONG,
        "symptom": "gpu_off_bus",
        "symptoms": ["gpu_off_bus"],
        "maturity": Maturity.STABLE,
        "nodes": ["gpu-01"],
    }
    return Case(**(said | more))


@pytest.mark.parametrize(
    ("match", "more", "fits"),
    [
        ({}, {}, True),
        ({"clusters": ["h100-*"]}, {}, True),
        ({"clusters": ["h200-*"]}, {}, False),
        ({"partitions": ["batch"]}, {"partition": "batch,debug"}, False),
        ({"partitions": ["batch", "debug"]}, {"partition": "batch,debug"}, True),
        ({"domains": ["nvlink_fabric"]}, {}, False),
        ({"symptoms": ["gpu_*"]}, {}, True),
        ({"symptoms": ["nvlink_*"]}, {}, False),
        ({}, {"strength": Strength.MODERATE}, False),
        ({"strengths": ["strong", "moderate"]}, {"strength": Strength.MODERATE}, True),
        ({"opt_in": True}, {}, False),
        ({"opt_in": True}, {"opt_in": policy.opted("inquest=exclude")}, True),
        ({"opt_in": True}, {"opt_in": policy.opted("inquest=restart")}, False),
    ],
)
def test_a_policy_is_about_what_it_names(match: dict[str, Any], more: dict[str, Any], fits: bool) -> None:
    rule = Rule(match=msgspec.convert(match, Match), action=ActionKind.RESTART_EXCLUDING)
    assert policy.matches(rule, a_case(**more))[0] is fits


def test_a_verdict_that_holds_nobody_at_fault_may_restart_and_never_excludes() -> None:
    match = Match(domains=[Domain.AMBIGUOUS, Domain.UNATTRIBUTED])
    for domain in match.domains:
        case = a_case(domain=domain, strength=None, nodes=[])
        assert policy.matches(Rule(match=match, action=ActionKind.RESTART), case)[0]
        assert not policy.matches(Rule(match=match, action=ActionKind.RESTART_EXCLUDING), case)[0]
        assert policy.capped_mode(PolicyMode.AUTOMATIC, case)[0] is PolicyMode.ADVISORY


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", None),
        ("inquestion=all", None),
        (
            "run 7; inquest=restart,exclude,max=3",
            OptIn(actions=frozenset({ActionKind.RESTART, ActionKind.RESTART_EXCLUDING}), max_restarts=3),
        ),
        ("inquest=OFF", OptIn(off=True)),
        ("inquest=max=2", OptIn(max_restarts=2)),
        ("inquest=reboot", OptIn(actions=frozenset())),
        ("inquest=off!", OptIn(actions=frozenset())),
        ("inquest=notify+drill", OptIn(actions=frozenset({ActionKind.NOTIFY}), drill=True)),
        # Who can append to a comment cannot widen it.
        ("inquest=notify,max=1 inquest=all,max=9", OptIn(actions=frozenset({ActionKind.NOTIFY}), max_restarts=1)),
        ("inquest=all inquest=off", OptIn(actions=policy.opted("inquest=all").actions, off=True)),  # type: ignore[union-attr]
    ],
)
def test_what_a_job_says_for_itself(text: str, wanted: OptIn | None) -> None:
    assert policy.opted(text) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("inquest=off", "inquest=off"),
        ("inquest=notify", "allows other actions"),
        ("inquest=reboot", "allows other actions"),
    ],
)
def test_a_job_that_does_not_want_it_is_left_alone_whatever_the_policy(text: str, why: str) -> None:
    rule = Rule(action=ActionKind.RESTART_EXCLUDING)
    fits, said = policy.matches(rule, a_case(opt_in=policy.opted(text)))
    assert not fits and why in said


def test_costs_are_sums_of_what_is_known_and_say_what_is_not() -> None:
    known = cost.Seen(
        gpus=64, gpus_from="one for each rank", restarts=[600, 60, 120], queues=[300], since_checkpoint=1800
    )
    told = cost.of_restart(known)
    assert told.acting.gpu_hours == pytest.approx(64 * (120 + 300 + 1800) / 3600, abs=0.1)
    assert told.parts["restart"].rests_on == "median of 3 restarts of this workload (64 GPUs, one for each rank)"
    assert told.waiting.gpu_hours == 64
    unknown = cost.of_restart(cost.Seen(gpus=64, restarts=[120], queues=[300], whole_run=7200)).acting
    assert unknown.gpu_hours is None
    assert unknown.rests_on.startswith("unknown: replay; the rest comes to")
    assert cost.of_restart(cost.Seen()).waiting.rests_on == "unknown: how many GPUs the job had is not known"
    assert cost.median([4, 1, 3, 2]) == 2.5
