"""Where a stored line stands in its stream, and when it happened: what the log viewer sorts by."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rules import read
from rules.attempt import Attempt
from rules.place import reference
from rules.stamp import Stamp, parse_stamp, place

#: Clocks whose times cannot be compared with each other, in the order in which they are listed.
CLOCKS = ("utc", "local", "yearless", "boot", "")
UNDATED = len(CLOCKS) - 1
#: A line's own time stands at its head.
_HEAD = 400
_NUMBERED = re.compile(r"(.*):(\d{1,15})", re.DOTALL)


class Place(NamedTuple):
    """File and line of a reference, or the whole of it and 0; clock and microseconds of its time."""

    file: str
    line: int
    clock: int
    micros: int


def place_of(*, ref: str, timestamp: str | None, text: str, near: int | None, zone: str) -> Place:
    """Where a line stands. Its time is the one it was given, else the one it prints, placed as the engine does it.

    `near` is a moment of the attempt, for dates without a year; `zone` the offset of times without one.
    """
    match = _NUMBERED.fullmatch(ref)
    file, line = (match[1], int(match[2])) if match else (ref, 0)
    stamp = parse_stamp(timestamp) if timestamp else _printed(text)
    if stamp is None:
        return Place(file, line, UNDATED, 0)
    stamp = place(stamp, near=near, utc_offset=zone)
    return Place(file, line, CLOCKS.index(stamp.clock), stamp.micros)


def _printed(text: str) -> Stamp | None:
    """The time at the head of a line, or its seconds since boot."""
    record = read.parse(text[:_HEAD])
    return record.stamp or record.uptime


def window_of(body: Mapping[str, Any]) -> tuple[int | None, str]:
    """A moment of the attempt and its zone, out of its stored body."""
    dated = Attempt(job_id="-", end=body.get("end"), start=body.get("start"), submit_time=body.get("submit_time"))
    return reference(dated), str(body.get("utc_offset") or "")
