"""The simulated fleet: the same figures for a seed, and guards that do what they are for."""

from dataclasses import replace

from recovery.bench.answers import Ours
from recovery.bench.faults import Fault, Fleet, Verdicts, faults
from recovery.bench.fleet import Run, simulate
from rules.words import Domain

SMALL = Fleet(nodes=800, days=12, jobs=(256, 128, 128, 64, 64, 32))


def test_a_seed_gives_the_same_figures_every_time() -> None:
    for way in ("never", "always", "ours"):
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
