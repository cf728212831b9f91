"""For how many days each class of evidence is kept, out of the environment."""

from __future__ import annotations

import environ
from django.core.exceptions import ImproperlyConfigured

from verdicts.keeping import Kept

#: Half a year of evidence, two years of what is quoted of it, three of what people wrote.
DAYS = {Kept.LINES: 180, Kept.QUOTES: 730, Kept.PROGRESS: 180, Kept.WORDS: 1095}
#: What is reckoned from it must stay within the calendar.
MOST_DAYS = 36_500


def name_of(kept: Kept) -> str:
    """The variable of a class."""
    return f"INQUEST_KEEP_{kept.upper()}_DAYS"


def read(env: environ.Env) -> dict[str, int]:
    """Days by class; 0 is for ever."""
    days = {kept.value: env.int(name_of(kept), default=DAYS[kept]) for kept in Kept}
    for kept in Kept:
        if not 0 <= days[kept] <= MOST_DAYS:
            raise ImproperlyConfigured(f"{name_of(kept)} is {days[kept]}: give 1 to {MOST_DAYS} days, or 0 for ever")
    if days[Kept.QUOTES] and (not days[Kept.LINES] or days[Kept.QUOTES] < days[Kept.LINES]):
        # Or an attribution could quote again what had expired.
        raise ImproperlyConfigured(
            f"{name_of(Kept.QUOTES)} is less than {name_of(Kept.LINES)}: quotations are kept as long as their lines"
        )
    return days
