"""Formatting for the pages of recovery: words and figures. What to show is decided elsewhere."""

from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone

from recovery import wording
from recovery.ledger import words as ledger_words
from verdicts.wording import SOURCES_IN_TEXT, Look, plain

register = template.Library()


@register.filter
def action_word(word: str) -> str:
    """An action in words."""
    return wording.ACTIONS.get(word) or plain(word)


@register.filter
def proposal_look(word: str) -> Look:
    """The chip of a proposal's state."""
    return wording.PROPOSALS.get(word) or Look(plain(word))


@register.filter
def mode_look(word: str) -> Look:
    """The chip of a policy's mode."""
    return wording.MODES.get(word) or Look(plain(word))


@register.filter
def effect_look(word: str) -> Look:
    """The chip of what is known of an action's effect."""
    return wording.ACTION_STATES.get(word) or Look(plain(word))


@register.filter
def exclusion_look(word: str) -> Look:
    """The chip of an exclusion's state."""
    return wording.EXCLUSIONS.get(word) or Look(plain(word))


@register.filter
def outcome_look(word: str) -> Look:
    """The chip of what came of a proposal."""
    return wording.OUTCOMES.get(word) or Look(plain(word))


@register.filter
def guard_word(guard: str) -> str:
    """What a guard looks after, to head what it says."""
    return wording.GUARDS.get(guard) or plain(guard)


@register.filter
def case_look(word: str) -> Look:
    """The chip of what was found afterwards."""
    return wording.LABELS.get(word) or Look(plain(word))


@register.filter
def decision_word(word: str) -> str:
    """What somebody did to a proposal, as a verb."""
    return wording.DECISIONS.get(word) or plain(word)


@register.filter
def reject_word(word: str) -> str:
    """A reason to reject, in words."""
    return wording.REASONS.get(word) or plain(word)


@register.filter
def basis_word(word: str) -> str:
    """What a label rests on, in words."""
    return wording.BASES.get(word) or plain(word)


@register.filter
def milestone_word(word: str) -> str:
    """A milestone in words."""
    return wording.MILESTONES.get(word) or plain(word)


@register.filter
def entry_word(word: str) -> str:
    """What a ledger entry records, in words."""
    return ledger_words.ENTRIES.get(word) or plain(word)


@register.filter
def gap_words(gap: str) -> str:
    """What a plan says was missing, its source as people call it."""
    source, colon, said = gap.partition(": ")
    return SOURCES_IN_TEXT.get(source, source) + colon + said


@register.filter
def share(part: Any) -> str:
    """ "2 of 16 (12.5 %)" of {"taken": 2, "of": 16}; a whole that is not known is said so."""
    taken, whole = part.get("taken"), part.get("of")
    if taken is None:
        return "not known"
    if not whole:
        return f"{taken:,} of an unknown number"
    return f"{taken:,} of {whole:,} ({100 * taken / whole:.3g} %)"


@register.filter
def gpu_hours(value: Any) -> str:
    """GPU-hours in words; what is not known is not zero."""
    if value is None:
        return "not known"
    return f"{float(value):,.1f} GPU-hours" if float(value) < 100 else f"{float(value):,.0f} GPU-hours"


@register.filter
def left(until: datetime) -> str:
    """How long until a time: "in 12 min", "in 3 h", or "over"."""
    seconds = (until - timezone.now()).total_seconds()
    if seconds <= 0:
        return "over"
    if seconds < 120:
        return f"in {int(seconds)} s"
    if seconds < 7200:
        return f"in {int(seconds // 60)} min"
    if seconds < 172_800:
        return f"in {int(seconds // 3600)} h"
    return f"in {int(seconds // 86_400)} days"
