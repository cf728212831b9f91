"""Formatting for stored lines: the text with what was looked for marked in it, and the time of a line."""

import json
import re
from collections.abc import Mapping
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from rules.engine import ATTEMPT_REF
from rules.stamp import MICRO, Stamp
from verdicts.keeping import TITLES
from verdicts.logs.near import Near
from verdicts.logs.order import CLOCKS, UNDATED
from verdicts.models import Observation
from verdicts.templatetags.verdict_format import raw, stamp
from verdicts.verdict_page.presentation import DIVIDERS, stamp_kind
from verdicts.verdict_page.timeline import status_word

register = template.Library()

UTC = CLOCKS.index("utc")
#: What a long line shows before it is opened by itself.
MOST_SHOWN = 4_000


@register.filter
def marked(text: str, wanted: str) -> SafeString:
    """Text out of a log, escaped, with every place marked that was looked for; in any case."""
    if not wanted:
        return raw(text)
    parts, after = [], 0
    for match in re.finditer(re.escape(wanted), text, re.IGNORECASE):
        parts += [raw(text[after : match.start()]), "<mark>", raw(match.group()), "</mark>"]
        after = match.end()
    return mark_safe("".join([*parts, raw(text[after:])]))  # noqa: S308 -- each part is escaped


@register.filter
def kept_title(word: str) -> str:
    """A class of what is kept as it reads on a page."""
    return TITLES.get(word, word)


@register.filter
def cut_long(text: str) -> str:
    """The beginning of a very long line."""
    return text[:MOST_SHOWN]


@register.filter
def is_long(text: str) -> bool:
    """Whether a line is longer than what a list shows of it."""
    return len(text) > MOST_SHOWN


@register.filter
def own_time(line: Observation) -> SafeString | str:
    """When a line happened: as it was given or as it prints it, with the year and zone that the attempt gives it."""
    placed = line.clock == UTC and stamp_kind(line.timestamp) != "absolute"
    if line.timestamp and not placed:
        return stamp(line.timestamp)
    if line.clock == UNDATED:
        return ""
    step = MICRO if line.micros % MICRO == 0 else 1
    return stamp(str(Stamp(CLOCKS[line.clock], line.micros, step)))


@register.simple_tag
def log_link(attempt_id: object, ref: str) -> str:
    """The address of a line of evidence in the log viewer; empty for what stands in the attempt itself."""
    if not ref or ref == ATTEMPT_REF:
        return ""
    return f"{reverse('verdicts:log', args=[attempt_id])}?{urlencode({'ref': ref})}"


@register.filter
def near_line(near: Mapping[str, Near] | None, ref: str) -> Near | None:
    """The lines around the one of a reference, where they were looked up."""
    return near.get(ref) if near else None


@register.filter
def clock_divider(clock: int) -> str:
    """What is said in a list by time where lines stop being comparable with those above."""
    return DIVIDERS[CLOCKS[clock] or "none"]


@register.filter
def mark_word(status: str) -> str:
    """What a mark of the timeline is."""
    return status_word(status)


@register.filter
def as_json(value: object) -> str:
    """Plain data for an attribute; the template escapes it."""
    return json.dumps(value)
