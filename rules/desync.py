"""Who is behind whom: the ranks that others waited for and that waited for nobody.

A rank that never entered a collective is the suspect; those that entered it and timed out are witnesses.
Numbers are compared within one process group only: each group counts for itself.
"""

from collections.abc import Iterable

from rules import flight_recorder
from rules.observation import Observation
from rules.words import Source

#: When more than this share of the ranks is behind, the job waits as a whole and nobody is a suspect.
MAX_SHARE = 0.25


def behind(dumps: Iterable[Observation]) -> dict[int, str]:
    """Suspect ranks of flight-recorder observations: rank → why, in words.

    A rank waits for another when it has gone further in a group that both are members of. Suspects
    are waited for and wait for nobody, or have nothing in flight while nearly all others have.
    """
    positions: dict[tuple[str, str], dict[int, dict[str, int]]] = {}
    in_flight: dict[int, int] = {}
    for dump in dumps:
        rank, pending, groups = flight_recorder.parse(dump.body)
        if rank is None:
            continue
        in_flight[rank] = pending
        for (_, desc, ranks), numbers in groups.items():
            positions.setdefault((desc, ranks), {})[rank] = numbers
    limit = max(1, int(MAX_SHARE * len(in_flight)))
    last = _last_in_groups(positions)
    idle = {rank: "it has no operation in flight, the others have" for rank, n in in_flight.items() if n == 0}
    for suspects in (last, idle):
        if 0 < len(suspects) <= limit:
            return suspects
    return {}


def _last_in_groups(positions: dict[tuple[str, str], dict[int, dict[str, int]]]) -> dict[int, str]:
    waited_for: dict[int, str] = {}
    waiting: set[int] = set()
    for (desc, _), members in sorted(positions.items()):
        for what in ("enqueued", "collective"):
            known = {rank: numbers[what] for rank, numbers in members.items() if what in numbers}
            if len(known) < 2 or len(set(known.values())) == 1:
                continue
            furthest, least = max(known.values()), min(known.values())
            waiting |= {rank for rank, number in known.items() if number > least}
            for rank in sorted(rank for rank, number in known.items() if number == least):
                waited_for.setdefault(rank, f"in group {desc or 'unnamed'} it is at {least}, others at {furthest}")
    return {rank: why for rank, why in waited_for.items() if rank not in waiting}


def observations(dumps: list[Observation]) -> list[Observation]:
    """One observation per suspect rank, for the rule `pytorch.rank-behind`."""
    recorded = [o for o in dumps if o.body.startswith(flight_recorder.PREFIX)]
    return [
        Observation(
            source=Source.PROGRESS,
            body=f"flight recorder comparison: rank {rank} is behind: {why}",
            ref=next(o.ref for o in recorded if flight_recorder.parse(o.body)[0] == rank),
            rank=rank,
            collector="desync",
        )
        for rank, why in sorted(behind(recorded).items())
    ]
