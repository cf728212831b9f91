"""`python -m recovery.bench.fleet`: 10,000 nodes for 90 days, answered in several ways, over several seeds.

What is counted: goodput (node-hours of training that were kept, of all node-hours), wrong exclusions (nodes taken away
that were not at fault, of all that were taken away), and where the rest of the node-hours went.

Every way faces the same faults, verdicts and people. Large jobs have 97 % of the nodes; all others run small ones that
lose nothing, so that a sound node that is away is always a loss. A job keeps what it had at its last checkpoint. A node
that is taken away comes back when its exclusion expires, and is found faulty then, mostly, and repaired; faults that
last are found by the site's own people too, a switch or an image only by them. Left to people, a job goes on after an
hour on average, with what ailed it gone. docs/recovery-simulation.md has the figures and their sources.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from recovery.bench import compare
from recovery.bench.answers import Always, AlwaysAll, AlwaysNamed, Never, Way
from recovery.bench.faults import Fleet, Verdicts
from recovery.bench.ours import Ours
from recovery.bench.run import Result, Run
from recovery.words import PolicyMode
from rules.words import Strength

WAYS: dict[str, Callable[[Fleet, int], Way]] = {
    "never": lambda fleet, _seed: Never(fleet),
    "first-error": lambda fleet, _seed: Always(fleet),
    "named": lambda fleet, _seed: AlwaysNamed(fleet),
    "named-all": lambda fleet, _seed: AlwaysAll(fleet),
    "ours": Ours,
    "ours-from-advisory": lambda fleet, seed: Ours(fleet, seed, PolicyMode.ADVISORY),
}
#: Settings that the comparison is repeated with: what the fleet and the verdicts are like then.
SENSITIVITY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "strong verdicts wrong 0.2 %": ({}, {"wrong": {Strength.STRONG: 0.002}}),
    "strong verdicts wrong 1 %": ({}, {"wrong": {Strength.STRONG: 0.01}}),
    "strong verdicts wrong 2 %": ({}, {"wrong": {Strength.STRONG: 0.02}}),
    "strong verdicts wrong 5 %": ({}, {"wrong": {Strength.STRONG: 0.05}}),
    "half of the verdicts are strong": ({}, {"strong": 0.45, "moderate": 0.40}),
    "what is shared is seen half the time": ({}, {"shared": 0.5}),
    "spare nodes 1 %": ({"spare": 0.01}, {}),
    "spare nodes 5 %": ({"spare": 0.05}, {}),
    "faults gone after a restart 50 %": ({"transient": 0.5}, {}),
    "faults gone after a restart 90 %": ({"transient": 0.9}, {}),
    "faults that last come again after 2 h": ({"again": 4.0}, {}),
    "network faults of switches 10 %": ({"switches": 0.1}, {}),
    "the others keep nodes away for 36 h": ({"keeps_away": 36.0}, {}),
}


def simulate(way: str, seed: int, fleet: Fleet | None = None, rates: Verdicts | None = None) -> Result:
    """One run: the same arguments give the same figures."""
    fleet = fleet or Fleet()
    return Run(fleet, WAYS[way](fleet, seed), rates or Verdicts(), seed).run()


def setting(of_fleet: dict[str, Any], of_verdicts: dict[str, Any]) -> tuple[Fleet, Verdicts]:
    """The usual fleet and verdicts with some things changed."""
    fleet, rates = Fleet(), Verdicts()
    if "spare" in of_fleet:
        fleet = with_spare(fleet, of_fleet["spare"])
    fleet = replace(fleet, **{name: value for name, value in of_fleet.items() if name != "spare"})
    changes = dict(of_verdicts)
    if "wrong" in changes:
        changes["wrong"] = rates.wrong | changes["wrong"]
    return fleet, replace(rates, **changes)


def with_spare(fleet: Fleet, spare: float) -> Fleet:
    """The fleet with jobs of 32 nodes more or less, so that this share of its nodes is in no large job."""
    jobs, wanted = list(fleet.jobs), round(fleet.nodes * (1 - spare))
    while sum(jobs) + 32 <= wanted:
        jobs.append(32)
    while sum(jobs) > wanted and 32 in jobs:
        jobs.remove(32)
    return replace(fleet, jobs=tuple(jobs))


def seeds_of(words: Sequence[str]) -> list[int]:
    """Seeds as numbers and ranges: "1 5 101-120"."""
    found: list[int] = []
    for word in words:
        first, _, last = word.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m recovery.bench.fleet", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--seeds", nargs="+", default=["1-5"], help="numbers and ranges: 1 5 101-120")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--sensitivity", action="store_true", help="the comparison again with other assumptions")
    given = parser.parse_args(arguments)
    fleet = replace(Fleet(), nodes=given.nodes, days=given.days)
    scale = given.nodes / 10_000
    fleet = replace(fleet, jobs=tuple(max(1, round(size * scale)) for size in fleet.jobs))
    seeds = seeds_of(given.seeds)
    if given.sensitivity:
        sys.stdout.write(compare.HEAD + "\n")
        for name, changes in SENSITIVITY.items():
            other, rates = setting(*changes)
            results = [simulate(way, seed, other, rates) for seed in seeds for way in given.ways]
            sys.stdout.write(compare.line(name, results) + "\n")
            sys.stdout.flush()
        return 0
    results = [simulate(way, seed, fleet) for seed in seeds for way in given.ways]
    sys.stdout.write(compare.table(results) + "\n\n" + compare.summary(results) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
