"""Formatting of the list's and the overview's own words and numbers."""

from typing import Any

from django import template

from verdicts import wording
from verdicts.listing.facets import text_of
from verdicts.listing.filters import NOT_ANALYSED

register = template.Library()


@register.filter
def capped(number: Any) -> str:
    """A number with its thousands apart; a plus says that there are more than were counted."""
    return f"{number.shown:,}+" if number.more else f"{number.shown:,}"


@register.filter
def percent(share: float) -> str:
    """A share between 0 and 1 in percent."""
    return f"{100 * share:.1f} %"


@register.filter
def row_look(word: str) -> wording.Look:
    """The chip of a row's domain, which may be that it was not analysed."""
    if word == NOT_ANALYSED:
        return wording.Look("Not analysed", "dotted")
    return wording.DOMAINS.get(word) or wording.Look(wording.plain(word))


@register.filter
def row_text(word: str) -> str:
    """A row's domain in words."""
    return text_of("domain", word)
