"""Why hangs would not be seen: nothing tells of progress, or what should tell of it delivers nothing for anybody.

A watch that sees nothing looks like a quiet cluster: this tells the two apart. Pure; times are seconds since 1970.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from recovery.progress.detect import Limits, seconds


@dataclass(frozen=True)
class Heard:
    """When something was last heard of a running attempt by one way, and what its pace allows."""

    attempt: str
    at: float
    allowed: float


def transport_ended(heard: Sequence[Heard], now: float, limits: Limits) -> float | None:
    """Since when nothing comes by one way from any job of a cluster, although each should have been heard of.

    Jobs hang one by one; a collector that died silences all of them together. None where some are still heard, or
    where there are too few to tell the one from the other.
    """
    if len(heard) < limits.least_jobs:
        return None
    last = max(one.at for one in heard)
    silent = [one for one in heard if now - one.at > min(one.allowed, limits.floor)]
    if len(silent) < len(heard) or last - min(one.at for one in heard) > limits.floor:
        return None
    near = [one for one in heard if last - one.at <= limits.together]
    return last if len(near) * 2 >= len(heard) else None


@dataclass(frozen=True)
class Way:
    """One way that progress could come by: a feed that is configured, or the posts of the workload."""

    name: str
    via: str
    #: Until when it was read for this attempt; None where it never was.
    read_until: float | None = None
    lines: int = 0
    signs: int = 0
    said: str = ""
    #: Since when it delivers for nobody.
    silent_since: float | None = None


def blindness(ways: Sequence[Way], now: float, limits: Limits) -> str | None:
    """Why a hang of an attempt would not be seen; None where it would be. One way that works is enough."""
    if not ways:
        return (
            "Nothing says how far it is: it posts no progress, and no progress feed is configured for its cluster."
            " Hang detection is blind for this job."
        )
    why: list[str] = []
    for way in ways:
        if way.silent_since is not None:
            why.append(f"{way.name} delivers nothing for any job since {seconds(now - way.silent_since)}")
        elif way.via == "post":
            if way.signs:
                return None
            why.append("what it posts says no step and no collective")
        elif way.read_until is None:
            why.append(f"{way.name} was not read yet{': ' + way.said if way.said else ''}")
        elif now - way.read_until > limits.floor:
            why.append(
                f"{way.name} was last read {seconds(now - way.read_until)} ago{': ' + way.said if way.said else ''}"
            )
        elif not way.signs:
            if way.via == "log" and way.lines:
                silence = f"only its falling silent for {seconds(limits.start)} would be noticed"
                why.append(f"{way.name} was read ({way.lines} lines) and none says a step: {silence}")
            else:
                why.append(f"{way.name} was asked and has nothing of it")
        else:
            return None
    return "; ".join(why)[:1].upper() + "; ".join(why)[1:] + ". Hang detection is blind for this job."
