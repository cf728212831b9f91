"""The simulated fleet: the same figures for a seed, and guards that do what they are for."""

from dataclasses import replace

from recovery.bench import compare
from recovery.bench.faults import Fault, Fleet, Verdicts, faults
from recovery.bench.fleet import SENSITIVITY, seeds_of, setting, simulate
from recovery.bench.ours import Ours
from recovery.bench.run import Run
from rules.words import Domain

SMALL = Fleet(nodes=800, days=12, jobs=(256, 128, 128, 64, 64, 32))


def test_a_seed_gives_the_same_figures_every_time() -> None:
    for way in ("never", "first-error", "named-all", "ours"):
        assert simulate(way, 7, SMALL) == simulate(way, 7, SMALL)
    assert simulate("ours", 7, SMALL) != simulate("ours", 8, SMALL)


def test_faults_do_not_depend_on_the_answer_to_them() -> None:
    assert list(faults(SMALL, 3)) == list(faults(SMALL, 3))


def test_nodes_of_a_switch_are_not_taken_away_and_a_broken_node_is() -> None:
    certain = replace(Verdicts(), silent=0.0, strong=1.0, moderate=0.0, shared=1.0)
    run = Run(SMALL, Ours(SMALL, 1), certain, 1)
    run._strike(Fault(1, 0.0, "switch", Domain.NETWORK_FABRIC, "ib_link_down", tuple(range(32)), 5.0, hangs=False))
    while run._events and run._events[0][0] < 4:
        at, _, what, of = run._events.pop(0)
        run._events.sort()
        run._pass(at)
        what(*of)
    assert run.result.exclusions == 0 and run.result.crashes >= 1
    run = Run(SMALL, Ours(SMALL, 1), certain, 1)
    run._strike(Fault(1, 0.0, "node", Domain.GPU_HARDWARE, "gpu_off_bus", (5,), 5.0, hangs=False))
    for _ in range(3):
        at, _, what, of = run._events.pop(0)
        run._events.sort()
        run._pass(at)
        what(*of)
    assert set(run.away) == {5}


def test_nothing_is_counted_twice() -> None:
    """What was kept and what was lost of the large jobs' node-hours is no more than they had."""
    for way in ("named-all", "ours"):
        result = simulate(way, 7, SMALL)
        assert 0.9 < result.goodput + sum(result.lost.values()) <= 1.0


def test_ways_are_compared_within_each_seed() -> None:
    results = [simulate(way, seed, SMALL) for way in ("never", "ours") for seed in (1, 2, 3)]
    gains = compare.differences(results, "ours", "never exclude")
    assert len(gains) == 3
    low, high = compare.interval(gains)
    assert min(gains) <= low <= sum(gains) / 3 <= high <= max(gains)
    assert compare.interval(gains) == (low, high)
    assert "under 1% in" in compare.summary(results) and "3" in compare.line("usual", results)


def test_settings_change_what_they_name() -> None:
    usual = Fleet()
    for of_fleet, of_verdicts in SENSITIVITY.values():
        fleet, rates = setting(of_fleet, of_verdicts)
        assert (fleet, rates) != (usual, Verdicts())
    assert abs(sum(setting({"spare": 0.01}, {})[0].jobs) - 9_900) <= 32
    assert seeds_of(["1", "101-103"]) == [1, 101, 102, 103]
