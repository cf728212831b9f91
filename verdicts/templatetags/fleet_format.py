"""Shares and times of the pages about the fleet and about quality."""

from datetime import timedelta

from django import template

from verdicts.intervals import Share

register = template.Library()


@register.filter
def share(value: float | None) -> str:
    """A share in percent, with as many digits as it takes to see that it is neither none nor all."""
    if value is None:
        return "–"
    if value in (0.0, 1.0):
        return f"{value * 100:.0f}\u00a0%"
    return f"{value * 100:.2f}\u00a0%" if value < 0.01 or value > 0.99 else f"{value * 100:.1f}\u00a0%"


@register.filter
def hundredths(value: float | None) -> str:
    """A share as a place on a line of a hundred."""
    return f"{(value or 0) * 100:.2f}"


@register.filter
def width(value: Share) -> str:
    """How much of such a line an interval takes; never nothing."""
    return f"{max((value.high - value.low) * 100, 0.8):.2f}"


@register.filter
def span(value: timedelta) -> str:
    """A length of time in its largest unit."""
    seconds = int(value.total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds} s"


@register.filter
def took(seconds: float) -> str:
    """A number of seconds as a length of time."""
    return span(timedelta(seconds=seconds)) if seconds >= 1 else "under 1 s"
