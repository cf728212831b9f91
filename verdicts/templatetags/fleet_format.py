"""Shares and times of the pages about the fleet and about quality."""

from datetime import timedelta
from urllib.parse import urlencode

from django import template
from django.urls import reverse

from verdicts.intervals import Share

register = template.Library()


@register.simple_tag
def port_link(cluster: str, owner: str, port: str) -> str:
    """The address of a port's page. Names of ports have slashes, so that they are parameters."""
    given = {"cluster": cluster, "owner": owner, "port": port}
    return f"{reverse('verdicts:port')}?{urlencode({name: value for name, value in given.items() if value})}"


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
