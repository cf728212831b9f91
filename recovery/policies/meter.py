"""The evidence meter: whether the record of a policy allows it to act by itself, and whether it still does.

It may be read after every case. The wealth is a test martingale against "the false-action rate is at least `p0`":
with a rate at or above `p0` it does not grow on average, whatever came before, so the chance that it ever reaches 20 is
at most 1 in 20 (Ville's inequality). That holds only because which cases get a label was drawn before anybody knew how
they end, and because a label that is missing when it is due, or that decides nothing, counts as wrong.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from verdicts.intervals import share

#: The rate that must be shown not to be reached, and the one that is betted on.
P0, P1 = 0.01, 0.002
#: The wealth at which a policy may be promoted: one over the chance of an error.
ENOUGH = 20.0
#: One-sided: the two tails of the exact interval are 5 % each.
TWO_SIDED = 0.90
#: The rates that the watch over an automatic policy tells apart, and the log of the odds at which it is alarmed.
GOOD_RATE, BAD_RATE, ALARM = 0.01, 0.03, math.log(200)
#: So many wrong actions within so long end `automatic` at once.
MOST_WRONG, WRONG_WITHIN = 2, timedelta(days=7)
#: A label must be there so long after the proposal was made.
DUE = timedelta(days=14)
#: Cases on the same place or node share a cause when they begin within so long of each other.
SAME_CAUSE = timedelta(days=14)
#: Over how long "today's rate" is taken.
RATE_DAYS = 30


@dataclass(frozen=True)
class Labelled:
    """A proposal that must get a label. Cases with the same `incident` share a cause, and count once.

    `right` is None until there is a label; `known_at` is when the label was given.
    """

    key: str
    incident: str
    at: datetime
    due: datetime
    right: bool | None = None
    known_at: datetime | None = None
    injected: bool = False


@dataclass(frozen=True)
class Counted:
    """An incident as the meter counts it: wrong if any of its cases is, undecided while any waits for its label."""

    incident: str
    at: datetime
    cases: int
    right: bool | None
    missing: int
    known_at: datetime | None


@dataclass(frozen=True)
class Reading:
    """What the meter says. `n` and `wrong` are incidents that count; `cases` are the proposals in them."""

    n: int
    wrong: int
    cases: int
    missing: int
    waiting: int
    held_up: int
    design_effect: float
    wealth: float
    promotable: bool
    upper_bound: float
    needed: int
    a_day: float
    days_to_go: float | None
    p0: float
    p1: float


def factors(p0: float = P0, p1: float = P1) -> tuple[float, float]:
    """By what a right and a wrong case multiply the wealth."""
    if not 0 < p1 < p0 < 1:
        raise ValueError(f"the bet must be on a lower rate: {p1} against {p0}")
    return (1 - p1) / (1 - p0), p1 / p0


def wealth(right: int, wrong: int, p0: float = P0, p1: float = P1) -> float:
    """The wealth after so many right and wrong cases; never infinite, so that it can be stored."""
    gain, loss = factors(p0, p1)
    return math.exp(min(right * math.log(gain) + wrong * math.log(loss), 700.0))


def needed(right: int, wrong: int, p0: float = P0, p1: float = P1) -> int:
    """How many right cases in a row are still wanting until the wealth is enough; 0 when it is."""
    gain, loss = factors(p0, p1)
    lacking = math.log(ENOUGH) - right * math.log(gain) - wrong * math.log(loss)
    return max(0, math.ceil(lacking / math.log(gain) - 1e-9))


def upper_bound(wrong: int, n: int) -> float:
    """The one-sided 95 % Clopper–Pearson bound of the false-action rate, for a count that was fixed beforehand."""
    return share(wrong, n, TWO_SIDED).high


def incidents(cases: Iterable[Labelled], now: datetime) -> list[Counted]:
    """The cases by incident, in the order in which they began. Planted faults are left out: they are counted apart."""
    groups: dict[str, list[Labelled]] = {}
    for case in sorted(cases, key=lambda case: (case.at, case.key)):
        if not case.injected:
            groups.setdefault(case.incident, []).append(case)
    return [_counted(incident, group, now) for incident, group in groups.items()]


def _counted(incident: str, group: Sequence[Labelled], now: datetime) -> Counted:
    missing = [case for case in group if case.right is None and case.due <= now]
    waiting = any(case.right is None and case.due > now for case in group)
    wrong = bool(missing) or any(case.right is False for case in group)
    known = [case.due if case in missing else case.known_at for case in group]
    times = [at for at in known if at is not None]
    return Counted(
        incident=incident,
        at=group[0].at,
        cases=len(group),
        # One wrong case is enough; that it was right needs all of them.
        right=False if wrong else None if waiting else True,
        missing=len(missing),
        known_at=max(times) if times else None,
    )


def read(cases: Iterable[Labelled], *, now: datetime, p0: float = P0, p1: float = P1) -> Reading:
    """Read the meter.

    Incidents count in the order in which they began. One that waits for a label holds up the right ones after it, at
    most until it is due: else labels that are quick when all is well would let a policy pass on those alone. What is
    wrong counts at once.
    """
    seen = incidents(cases, now)
    waiting = next((place for place, one in enumerate(seen) if one.right is None), len(seen))
    counts = [one for place, one in enumerate(seen) if place < waiting or one.right is False]
    n, wrong = len(counts), sum(1 for one in counts if not one.right)
    to_go = needed(n - wrong, wrong, p0, p1)
    a_day = _a_day(seen, now)
    return Reading(
        n=n,
        wrong=wrong,
        cases=sum(one.cases for one in counts),
        missing=sum(one.missing for one in seen),
        waiting=sum(1 for one in seen if one.right is None),
        held_up=sum(1 for one in seen[waiting:] if one.right),
        design_effect=design_effect([one.cases for one in counts]),
        wealth=wealth(n - wrong, wrong, p0, p1),
        promotable=to_go == 0,
        upper_bound=upper_bound(wrong, n) if n else 1.0,
        needed=to_go,
        a_day=a_day,
        days_to_go=0.0 if not to_go else to_go / a_day if a_day else None,
        p0=p0,
        p1=p1,
    )


def apart(cases: Iterable[Labelled]) -> Mapping[str, int]:
    """What was seen of planted faults: never mixed with the others."""
    planted = [case for case in cases if case.injected]
    return {
        "n": len(planted),
        "right": sum(1 for case in planted if case.right is True),
        "wrong": sum(1 for case in planted if case.right is False),
        "waiting": sum(1 for case in planted if case.right is None),
    }


def design_effect(sizes: Sequence[int]) -> float:
    """By what cases that share a cause say less than as many apart, if those of one incident are all alike (Kish)."""
    return sum(size * size for size in sizes) / sum(sizes) if sizes else 1.0


def _a_day(seen: Sequence[Counted], now: datetime) -> float:
    """New incidents a day: over the last 30 days, or since the first where that is less long ago."""
    if not seen:
        return 0.0
    since = now - timedelta(days=RATE_DAYS)
    days = min(float(RATE_DAYS), max((now - seen[0].at) / timedelta(days=1), 1.0))
    return sum(1 for one in seen if one.at > since) / days


def cusum(wrongs: Iterable[bool], good: float = GOOD_RATE, bad: float = BAD_RATE) -> list[float]:
    """After each case, how much speaks for the bad rate against the good one, since where it speaks loudest.

    Wrong cases add, right ones take away, and it never falls under nought. `ALARM` and more ends `automatic`.
    """
    if_wrong, if_right = math.log(bad / good), math.log((1 - bad) / (1 - good))
    path = [0.0]
    for wrong in wrongs:
        path.append(max(0.0, path[-1] + (if_wrong if wrong else if_right)))
    return path[1:]


def why_demote(cases: Iterable[Labelled], *, since: datetime, now: datetime) -> str:
    """Why a policy that acts by itself must stop doing so; "" where its record since then is good enough.

    Looked at is what became known since it was promoted, in that order: of incidents, as in the meter.
    """
    seen = [one for one in incidents(cases, now) if one.right is not None and one.known_at and one.known_at > since]
    wrong = sorted(one.at for one in seen if not one.right)
    for first, last in zip(wrong, wrong[MOST_WRONG - 1 :], strict=False):
        if last - first <= WRONG_WITHIN:
            return f"{MOST_WRONG} wrong actions within {WRONG_WITHIN.days} days ({first:%Y-%m-%d} and {last:%Y-%m-%d})"
    seen.sort(key=lambda one: (one.known_at or one.at, one.at))
    if any(height >= ALARM for height in cusum(not one.right for one in seen)):
        return (
            f"the false-action rate looks like {BAD_RATE:.0%} rather than {GOOD_RATE:.0%}: "
            f"{len(wrong)} wrong of {len(seen)} since it was promoted"
        )
    return ""
