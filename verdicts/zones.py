"""The zone in which a person reads times. Stored times are UTC; lines of logs keep the stamps they were printed with.

Not Django's current zone: filters take a time without an offset as UTC for everybody, so that an address finds the
same for whoever opens it.
"""

from contextvars import ContextVar, Token
from datetime import UTC, datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

_current: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


@cache
def names() -> tuple[str, ...]:
    """The zones that can be chosen: those with a place in their name, and UTC."""
    places = (name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "SystemV/")))
    return ("UTC", *sorted(places))


def named(name: str) -> tzinfo | None:
    """A zone by its name, or None: the name comes from a cookie."""
    return ZoneInfo(name) if name in names() else None


def enter(zone: tzinfo) -> Token[tzinfo]:
    """From here on times are shown in this zone."""
    return _current.set(zone)


def leave(token: Token[tzinfo]) -> None:
    """As it was before."""
    _current.reset(token)


def local(value: datetime) -> datetime:
    """A time in the zone of whoever looks. What lies at the ends of the calendar stays as it is."""
    try:
        return value.astimezone(_current.get())
    except OverflowError:
        return value.astimezone(UTC)


def offset(value: datetime) -> str:
    """The offset of a time from UTC: "+05:30"."""
    said = value.strftime("%z")
    return f"{said[:3]}:{said[3:5]}"
