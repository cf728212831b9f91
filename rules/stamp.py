"""Times as logs print them, and what can be said of their order.

A stamp keeps the clock it was read from: a stamp without a zone, without a year or since boot cannot
be compared with one from another clock until something places it (`place`). Whole microseconds, no floats.
"""

import datetime as dt
import re
from dataclasses import dataclass
from enum import Enum

UTC = dt.UTC
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the clock is kept beside, see Stamp
#: The year that stands for "not known": a leap year, so that Feb 29 parses.
NO_YEAR = 2000
MICRO = 1_000_000


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """A point on one clock: "utc", "local" (no zone), "yearless" (no zone, no year) or "boot" (since boot)."""

    clock: str
    micros: int
    #: Resolution of the text: a stamp in whole seconds may lie anywhere in its second.
    step: int = 0

    def __str__(self) -> str:
        if self.clock == "boot":
            whole, part = divmod(self.micros, MICRO)
            return f"boot:{whole}.{part:06d}"
        moment = _EPOCH + dt.timedelta(microseconds=self.micros)
        text = moment.isoformat(timespec="seconds" if self.step >= MICRO else "microseconds")
        if self.clock == "utc":
            return text + "+00:00"
        return "--" + text[5:] if self.clock == "yearless" else text


@dataclass(frozen=True, slots=True)
class Interval:
    """Where an event's time can lie, in microseconds of one clock; `clock` names who may be compared with whom."""

    clock: str
    earliest: int
    latest: int


class Order(Enum):
    """What can be said of two intervals."""

    BEFORE = "before"
    AFTER = "after"
    UNKNOWN = "unknown"


def order(a: Interval | None, b: Interval | None) -> Order:
    """Say whether `a` happened before `b`, given what their clocks can be trusted for.

    Overlapping intervals and intervals of different clocks are unordered: an earlier stamp from
    another machine's clock proves nothing.
    """
    if a is None or b is None or a.clock != b.clock:
        return Order.UNKNOWN
    if a.latest < b.earliest:
        return Order.BEFORE
    if b.latest < a.earliest:
        return Order.AFTER
    return Order.UNKNOWN


_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?(?:[.,](\d{1,9}))?[ ]?(Z|[+-]\d\d:?\d\d)?)?$")
_YEARLESS = re.compile(r"--(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?$")
_BOOT = re.compile(r"boot:(\d{1,12})(?:\.(\d{1,9}))?$")


def parse_stamp(text: str) -> Stamp | None:
    """Parse a canonical stamp (see `Observation.timestamp`); None if it is none."""
    text = text.strip()
    if match := _ISO.match(text):
        year, month, day, hour, minute, second, fraction, zone = match.groups()
        return civil(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), fraction, zone
        )
    if match := _YEARLESS.match(text):
        month, day, hour, minute, second, fraction = match.groups()
        return civil(None, int(month), int(day), int(hour), int(minute), int(second), fraction, None)
    if match := _BOOT.match(text):
        return boot(match[1], match[2])
    return None


def boot(whole: str, fraction: str | None) -> Stamp:
    """A stamp in seconds since boot, from its two texts."""
    digits = (fraction or "")[:6]
    return Stamp("boot", int(whole) * MICRO + int(digits.ljust(6, "0") or 0), 10 ** (6 - len(digits)))


def civil(
    year: int | None,
    month: int,
    day: int,
    hour: int,
    minute: int,
    second: int,
    fraction: str | None = None,
    zone: str | None = None,
) -> Stamp | None:
    """A stamp from calendar fields; None when they name no moment (a 31st of June, hour 25)."""
    try:
        moment = dt.datetime(year or NO_YEAR, month, day, hour, minute, min(second, 59))  # noqa: DTZ001 - see Stamp
    except ValueError:
        return None
    digits = (fraction or "")[:6]
    step = 10 ** (6 - len(digits))
    micros = _micros(moment) + int(digits.ljust(6, "0") or 0)
    if zone is None:
        return Stamp("yearless" if year is None else "local", micros, step)
    return epoch(micros - offset_micros(zone), step) if _is_zone(zone) else None


#: The years 1 to 9999, which is what a date can be written of.
_FIRST, _LAST = -62_135_596_800 * MICRO, 253_402_300_800 * MICRO


def epoch(micros: int, step: int = 1) -> Stamp | None:
    """A stamp from microseconds since 1970 UTC; None beyond the years that can be written."""
    return Stamp("utc", micros, step) if _FIRST <= micros < _LAST else None


def _is_zone(zone: str) -> bool:
    """Whether an offset exists on Earth: at most 14 hours, less than 60 minutes."""
    digits = zone[1:].replace(":", "")
    return zone == "Z" or (int(digits[:2]) <= 14 and int(digits[2:] or 0) < 60)


def offset_micros(zone: str) -> int:
    """Microseconds east of UTC of "Z", "+01:00" or "-0530"."""
    if zone in ("", "Z"):
        return 0
    digits = zone[1:].replace(":", "")
    total = (int(digits[:2]) * 60 + int(digits[2:] or 0)) * 60 * MICRO
    return -total if zone[0] == "-" else total


def place(stamp: Stamp, *, near: int | None, utc_offset: str) -> Stamp:
    """Give a stamp the year and zone that the attempt's window and zone allow; unchanged where they do not.

    `near` is a moment of the attempt in microseconds. A date without a year takes the year that brings
    it closest to `near`: across New Year the calendar alone cannot tell, the window can.
    """
    if stamp.clock == "yearless" and near is not None:
        stamp = _with_year(stamp, near)
    if stamp.clock == "local" and utc_offset:
        return epoch(stamp.micros - offset_micros(utc_offset), stamp.step) or stamp
    return stamp


def _with_year(stamp: Stamp, near: int) -> Stamp:
    moment = _EPOCH + dt.timedelta(microseconds=stamp.micros)
    middle = (_EPOCH + dt.timedelta(microseconds=near)).year
    choices = []
    for year in (middle - 1, middle, middle + 1):
        try:
            choices.append(_micros(moment.replace(year=year)))
        except ValueError:  # 29 February of a common year
            continue
    if not choices:
        return stamp
    return Stamp("local", min(choices, key=lambda micros: (abs(micros - near), micros)), stamp.step)


def _micros(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)$")
_UNITS = {"ms": 1000, "s": MICRO, "m": 60 * MICRO, "h": 3600 * MICRO, "d": 86400 * MICRO}


def duration(text: str) -> int:
    """Microseconds of "500ms", "30s", "10m", "2h" or "7d". Raises ValueError otherwise."""
    match = _DURATION.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration such as 30s, 10m or 2h")
    return int(match[1]) * _UNITS[match[2]]
