"""Formatting for the verdict pages: words, stamps, raw text. What to show is decided elsewhere."""

import re
from datetime import UTC, datetime
from typing import Any

from django import template
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import conditional_escape, escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.timesince import timesince

from verdicts import wording, zones
from verdicts.logs.raw_text import UNSEEN, code, spelled
from verdicts.verdict_page.presentation import stamp_kind

register = template.Library()


@register.filter
def domain_look(word: str) -> wording.Look:
    """The chip of an attributed domain."""
    return wording.DOMAINS.get(word) or wording.Look(wording.plain(word))


@register.filter
def state_look(word: str) -> wording.Look:
    """The chip of a terminal state."""
    return wording.STATES.get(word) or wording.Look(wording.plain(word))


@register.filter
def finding_word(word: str) -> str:
    """What a verdict made of a finding."""
    return wording.FINDING_STATUSES.get(word) or wording.plain(word)


@register.filter
def label_look(word: str) -> wording.Look:
    """The chip of a review's label."""
    return wording.LABELS.get(word) or wording.Look(wording.plain(word))


@register.filter
def strength_word(word: str | None) -> str:
    """A strength as it reads on a page."""
    return wording.STRENGTHS.get(word or "", "")


@register.filter
def strength_rule(word: str | None) -> str:
    """The rule of evidence behind a strength."""
    return wording.STRENGTH_RULES.get(word or "", "")


@register.filter
def contained_by(domain: str | None) -> str:
    """Who contains failures of a domain."""
    return wording.CONTAINS.get(domain or "", "")


@register.filter
def source_name(word: str) -> str:
    """A source as it reads on a page."""
    return wording.SOURCES.get(word) or wording.plain(word)


@register.filter
def report_word(word: str) -> str:
    """The status of a collector report as it reads on a page."""
    return wording.REPORT_STATUSES.get(word) or wording.plain(word)


@register.filter
def source_in_text(word: str) -> str:
    """A source within a sentence."""
    return wording.SOURCES_IN_TEXT.get(word) or wording.plain(word)


@register.filter
def report_in_text(word: str) -> str:
    """What became of a source, within a sentence: "not collected"."""
    return wording.REPORT_STATUSES_IN_TEXT.get(word) or wording.plain(word)


@register.filter
def relation_words(word: str) -> str:
    """How an explained symptom lies to what explains it."""
    return wording.RELATIONS.get(word) or wording.plain(word)


@register.filter
def role_word(word: str) -> str:
    """A rule's role as it reads on a page."""
    return wording.ROLES.get(word) or wording.plain(word)


@register.filter
def role_rule(word: str) -> str:
    """What a role means for a finding."""
    return wording.ROLE_RULES.get(word, "")


@register.filter
def maturity_look(word: str) -> wording.Look:
    """The chip of a rule's maturity."""
    return wording.MATURITIES.get(word) or wording.Look(wording.plain(word))


@register.filter
def maturity_rule(word: str) -> str:
    """What a maturity allows."""
    return wording.MATURITY_RULES.get(word, "")


@register.filter
def drift_name(word: str) -> str:
    """A kind of sign of drift."""
    return wording.DRIFT[word][0] if word in wording.DRIFT else wording.plain(word)


@register.filter
def drift_meaning(word: str) -> str:
    """What a kind of sign says."""
    return wording.DRIFT[word][1] if word in wording.DRIFT else ""


@register.filter
def reasons(text: str) -> list[str]:
    """The reasons that the engine joined into one sentence."""
    return [reason for reason in text.split("; ") if reason]


@register.filter
def plain(word: str) -> str:
    """A word of the engine, readable."""
    return wording.plain(str(word))


@register.filter
def thousands(number: Any) -> str:
    """A whole number with its thousands apart; nothing for nothing."""
    return f"{number:,}" if isinstance(number, int) else ""


@register.filter
def ranges(numbers: list[int]) -> str:
    """Whole numbers with neighbours joined: "0–7, 9"; a long list is cut and says so."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    said = [str(first) if first == last else f"{first}–{last}" for first, last in runs]
    return ", ".join(said) if len(said) <= 12 else ", ".join(said[:12]) + f" and {len(said) - 12} more"


@register.filter
def moment(value: datetime | None) -> SafeString | str:
    """A stored time in the reader's zone, with its offset printed; UTC on hover."""
    if value is None:
        return ""
    at = zones.local(value)
    return format_html(
        '<time datetime="{}" title="{}" class="nowrap"><span class="nowrap">{}</span> '
        '<span class="nowrap">{} <span class="muted">{}</span></span></time>',
        value.astimezone(UTC).isoformat(),
        _in_utc(value),
        at.date().isoformat(),
        at.strftime("%H:%M:%S"),
        zones.offset(at),
    )


@register.filter
def offset_from_utc(value: datetime) -> str:
    """How far the reader's times are from UTC then; empty for who reads in UTC."""
    said = zones.offset(zones.local(value))
    return "" if said == "+00:00" else said


@register.filter
def moment_lines(value: datetime) -> SafeString:
    """A stored time for a narrow column: the day, and under it the time with its offset; UTC on hover."""
    at = zones.local(value)
    return format_html(
        '<time datetime="{}" title="{}"><span class="nowrap">{}</span> <br class="wide-only">'
        '<span class="nowrap">{} <span class="muted">{}</span></span></time>',
        value.astimezone(UTC).isoformat(),
        _in_utc(value),
        at.date().isoformat(),
        at.strftime("%H:%M:%S"),
        zones.offset(at),
    )


def _in_utc(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(" ", "seconds")[:19] + " UTC"


@register.filter
def lasting(start: datetime, end: datetime) -> str:
    """The time between two moments in its two largest units: "2 h 17 min", "53 s"."""
    seconds = int((end - start).total_seconds())
    return _two_units(seconds) if seconds >= 0 else "an end before the start"


def _two_units(seconds: int) -> str:
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s")]
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    return " ".join(f"{number} {unit}" for number, unit in parts[:2] if number) or "0 s"


#: A number of seconds as the engine writes it.
_SECONDS = re.compile(r"\b([0-9][0-9,]*)\.[0-9] s\b")
#: From so many seconds on nobody reads them as such.
_MANY_SECONDS = 120


@register.filter
def readable_spans(text: str) -> str:
    """Words on when something was, with minutes and hours for many seconds: "10 min 4 s later"."""

    def said(match: re.Match[str]) -> str:
        seconds = int(match[1].replace(",", ""))
        return match[0] if seconds < _MANY_SECONDS else _two_units(seconds)

    return _SECONDS.sub(said, text)


@register.filter
def ago(value: datetime) -> str:
    """How long ago, in its largest unit."""
    return f"{timesince(value, depth=1)} ago"


_FRACTION = re.compile(r"(\d\d:\d\d:\d\d\.\d{3})\d+")


def _readable(stamp: str) -> str:
    """A stamp with a blank for the T and at most milliseconds."""
    return _FRACTION.sub(r"\1", stamp.replace("T", " ", 1))


@register.filter
def stamp(value: str | None) -> SafeString | str:
    """A line's own time as it was printed: with its offset, or with what is not known about it."""
    if not value:
        return mark_safe('<span class="muted">no time</span>')
    kind = stamp_kind(value)
    if kind == "absolute":
        text = _readable(value)
        day, offset = (text[:-6], text[-6:]) if text[-6] in "+-" else (text.rstrip("Z"), "+00:00")
        return format_html(
            '<time datetime="{}" title="{}">{} <span class="muted">{}</span></time>', value, value, day, offset
        )
    if kind == "local":
        return format_html(
            '<time datetime="{}" title="{}">{}</time> <span class="muted">no offset</span>',
            value,
            value,
            _readable(value),
        )
    if kind == "yearless":
        return format_html('{} <span class="muted">no year</span>', _readable(value.removeprefix("--")))
    if kind == "boot":
        return format_html('{} s <span class="muted">after start</span>', value.removeprefix("boot:"))
    return str(conditional_escape(value))


register.filter("spelled", spelled)


@register.filter
def raw(text: Any) -> SafeString:
    """Text out of a log: escaped, with control characters spelled out and marked."""
    marked = UNSEEN.sub(lambda match: f'<span class="ctl">{code(match)}</span>', escape(str(text)))
    return mark_safe(marked)  # noqa: S308 -- escaped here


#: A name with hyphens, such as a node's: "h100-42". Longer ones may have to break.
_HYPHENED = re.compile(r"(?<![\w-])\w[\w.]*(?:-[\w.]*\w)+(?![\w-])", re.ASCII)
MOST_UNBROKEN = 24


@register.filter
def raw_unbroken(text: Any) -> SafeString:
    """The same, where short names with hyphens are not broken over two lines: a node is read as one word."""
    parts, at = [], 0
    for match in _HYPHENED.finditer(str(text)):
        if len(match[0]) <= MOST_UNBROKEN:
            parts += [raw(str(text)[at : match.start()]), format_html('<span class="nowrap">{}</span>', match[0])]
            at = match.end()
    return mark_safe("".join([*parts, raw(str(text)[at:])]))  # noqa: S308 -- each part is escaped


@register.filter
def domain_text(domain: str) -> str:
    """A domain as its chip reads, for headings."""
    look = wording.DOMAINS.get(domain)
    return look.text if look else wording.plain(domain).capitalize()


@register.filter
def reference(text: str) -> SafeString:
    """A reference: a link where it is an address of the web, else the text."""
    if text.startswith(("https://", "http://")) and not any(mark in text for mark in (" ", ",", ";")):
        return format_html('<a href="{}" rel="noopener noreferrer external">{}</a>', text, raw(text))
    return raw(text)


@register.simple_tag
def rule_link(rule: str | None) -> SafeString:
    """A rule's id, leading to its page."""
    if not rule:
        return mark_safe("")
    try:
        address = reverse("verdicts:rule", args=[rule])
    except NoReverseMatch:
        return format_html('<span class="mono">{}</span>', raw(rule))
    return format_html('<a class="mono rule-link" href="{}">{}</a>', address, raw(rule))


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: Any) -> str:
    """This page's address with some parameters changed; an empty value takes a parameter out."""
    request: HttpRequest = context["request"]
    parameters = request.GET.copy()
    for name, value in changes.items():
        if value in (None, ""):
            parameters.pop(name, None)
        else:
            parameters[name] = str(value)
    for name in [name for name, value in parameters.items() if value == ""]:
        parameters.pop(name)
    text = parameters.urlencode()
    return f"?{text}" if text else request.path
