"""What the runs of a simulated fleet say: a line a run, differences within each seed, and how sure they are."""

import random
import statistics
from collections.abc import Sequence
from typing import Protocol

from verdicts.intervals import share

#: Wrong exclusions that are allowed, of all.
LIMIT = 0.01
#: Draws of the bootstrap over seeds.
DRAWS = 10_000
OURS = "ours"
HEAD = f"{'setting':40} {'ours':>8} {'best other':>10}  ours less the best other (95 %)        wrong by ours"


class Figures(Protocol):
    """One run's figures, as they are compared."""

    way: str
    seed: int
    goodput: float
    exclusions: int
    wrong: int
    needless: int
    sound_hours: float
    away_hours: float
    crashes: int
    to_people: int
    by_itself: int
    promoted: int
    demoted: int
    marked: int
    paced: int
    lost: dict[str, float]

    @property
    def wrong_share(self) -> float: ...


def table(results: Sequence[Figures]) -> str:
    """The figures as text, a line a run."""
    head = (
        f"{'way':34} {'seed':>4} {'goodput':>9} {'excluded':>9} {'wrong':>6} {'wrong %':>8} {'needless':>9} "
        f"{'sound node-h away':>18} {'failures':>9} {'to people':>10} {'by itself':>10} {'promoted':>9} {'demoted':>8} "
        f"{'marked':>7} {'paced':>6}"
    )
    lines = [
        f"{one.way:34} {one.seed:4} {one.goodput:9.3%} {one.exclusions:9} {one.wrong:6} {one.wrong_share:8.2%} "
        f"{one.needless:9} {one.sound_hours:18.0f} {one.crashes:9} {one.to_people:10} {one.by_itself:10} "
        f"{one.promoted:9} {one.demoted:8} {one.marked:7} {one.paced:6}"
        for one in results
    ]
    return "\n".join([head, *lines])


def of_way(results: Sequence[Figures], way: str) -> dict[int, Figures]:
    """The runs of one way, by seed."""
    return {one.seed: one for one in results if one.way == way}


def differences(results: Sequence[Figures], way: str, other: str) -> list[float]:
    """By how much one way's goodput is above another's, seed by seed."""
    mine, theirs = of_way(results, way), of_way(results, other)
    return [mine[seed].goodput - theirs[seed].goodput for seed in sorted(mine.keys() & theirs.keys())]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % interval of the mean, by drawing seeds again and again; the same values give the same bounds."""
    chance = random.Random(len(values))
    means = sorted(statistics.fmean(chance.choices(values, k=len(values))) for _ in range(DRAWS))
    return means[int(DRAWS * 0.025)], means[int(DRAWS * 0.975) - 1]


def difference(values: Sequence[float]) -> str:
    """A mean difference with its interval, in percentage points."""
    low, high = interval(values)
    ahead = sum(value > 0 for value in values)
    mean = statistics.fmean(values)
    return f"{mean * 100:+.3f} ({low * 100:+.3f} to {high * 100:+.3f}), ahead in {ahead} of {len(values)}"


def summary(results: Sequence[Figures]) -> str:
    """Over all seeds: means, where the hours went, differences within seeds, and who is best."""
    lines, means, wrongs = [], {}, {}
    for way in dict.fromkeys(one.way for one in results):
        mine = list(of_way(results, way).values())
        means[way] = statistics.fmean(one.goodput for one in mine)
        found = share(sum(one.wrong for one in mine), sum(one.exclusions for one in mine))
        wrongs[way] = found.value or 0.0
        under = sum(one.wrong_share < LIMIT for one in mine)
        needless = sum(one.needless for one in mine) / found.whole if found.whole else 0.0
        lines.append(
            f"{way:34} goodput {means[way]:.3%}; wrong {wrongs[way]:.2%} of {found.whole} ({found.low:.2%} to "
            f"{found.high:.2%}), under {LIMIT:.0%} in {under} of {len(mine)} seeds; needless {needless:.0%}; sound "
            f"node-hours away {statistics.fmean(one.sound_hours for one in mine):.0f}"
        )
        lost = {name: statistics.fmean(one.lost.get(name, 0.0) for one in mine) for name in mine[0].lost}
        lines.append("    lost: " + ", ".join(f"{name} {hours:.2%}" for name, hours in lost.items()))
    if OURS in means:
        lines.append("goodput of ours less that of others, in percentage points, mean (95 %):")
        for way in means:
            if way != OURS:
                lines.append(f"    {way:34} {difference(differences(results, OURS, way))}")
    best = max(means, key=lambda way: means[way])
    lines.append(f"best goodput: {best}")
    careful = [way for way in means if wrongs[way] < LIMIT]
    if careful:
        lines.append(f"best goodput at under {LIMIT:.0%} wrong exclusions: {max(careful, key=lambda way: means[way])}")
    return "\n".join(lines)


def line(name: str, results: Sequence[Figures]) -> str:
    """One line of the sensitivity table: ours against the best of the others there."""
    means = {
        way: statistics.fmean(one.goodput for one in of_way(results, way).values())
        for way in dict.fromkeys(one.way for one in results)
    }
    other = max((way for way in means if not way.startswith(OURS)), key=lambda way: means[way])
    mine = list(of_way(results, OURS).values())
    wrong = share(sum(one.wrong for one in mine), sum(one.exclusions for one in mine))
    said = difference(differences(results, OURS, other))
    return f"{name:40} {means[OURS]:8.3%} {means[other]:10.3%}  {said:38} {wrong.value or 0.0:.2%}"
