"""Does a symptom that came again speak against the exclusion before it? Pure: counts in, probabilities and a word out.

A fault that goes on without the node that was left out was not that node's. But a job of two thousand nodes meets
another fault of the same kind every few days by itself, and then a right exclusion looks like a wrong one.
"""

from collections.abc import Collection, Hashable
from datetime import datetime, timedelta
from math import exp

#: How long after an exclusion the same symptom speaks against it.
REPEATED_WITHIN = timedelta(days=1)
#: What chance makes more often than this says nothing.
CHANCE = 0.001
#: How far back faults of the same kind are counted.
COUNTED_OVER = timedelta(days=30)
#: So many wrong exclusions, and more than this share of those that were made, speak against all of their kind.
LEAST_WRONG, WRONG_SHARE = 2, 0.1
#: Within this time they slow recovery down on their cluster, for so long.
WRONG_WITHIN, SLOWED_FOR = timedelta(days=1), timedelta(hours=1)


def by_chance(times: int, *, alike: int, nodes: int, of: int, ran: timedelta) -> float:
    """How probable it is that other faults of the same kind struck a job so many times or more.

    `alike` is how many were seen elsewhere on the cluster's `of` nodes in the last 30 days; the job had `nodes` of them
    for as long as it `ran`. Where nothing is known of the cluster, chance explains nothing.
    """
    if alike <= 0 or of <= 0 or nodes <= 0 or ran <= timedelta():
        return 0.0 if times > 0 else 1.0
    expected = alike * min(nodes / of, 1.0) * (ran / COUNTED_OVER)
    # Poisson: one minus the chance of fewer than so many.
    term, fewer = exp(-expected), 0.0
    for number in range(times):
        fewer += term
        term *= expected / (number + 1)
    return max(0.0, 1.0 - fewer)


def speaks_against(
    exclusions: Collection[tuple[Hashable, datetime]], *, at: datetime, alike: int, nodes: int, of: int
) -> bool:
    """Whether a symptom that came again at a time speaks against the exclusions for it: each by its proposal and time.

    `alike`, `nodes` and `of` are as in `by_chance`.
    """
    if not exclusions:
        return False
    times = len({proposal for proposal, _ in exclusions})
    ran = at - min(made for _, made in exclusions)
    return by_chance(times, alike=alike, nodes=nodes, of=of, ran=ran) <= CHANCE


def too_many(wrong: int, made: int) -> bool:
    """Whether wrong exclusions speak against more of their kind everywhere, and not in one workload alone."""
    return wrong >= LEAST_WRONG and wrong > WRONG_SHARE * made
