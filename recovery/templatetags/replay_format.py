"""Formatting for the pages of replays."""

from django import template

from recovery.models import Replay
from recovery.replay import find, wording
from verdicts.wording import Look, plain

register = template.Library()


@register.filter
def replay_asked(replay: Replay) -> str:
    """What a replay asks."""
    return find.asked(replay)


@register.filter
def replay_chosen(replay: Replay) -> str:
    """The filters that named its attempts, in a line."""
    return ", ".join(f"{name}: {value}" for name, value in find.chosen(replay))


@register.filter
def replay_look(word: str) -> Look:
    """The chip of a replay's state."""
    return wording.STATES.get(word) or Look(plain(word))


@register.filter
def replayed_look(word: str) -> Look:
    """The chip of what came of an attempt."""
    return wording.OUTCOMES.get(word) or Look(plain(word))


@register.filter
def judged_look(word: str) -> Look:
    """The chip of what a person said."""
    return wording.JUDGED.get(word) or Look(plain(word))


@register.filter
def actor(name: str) -> str:
    """Who began it, without the kind of actor for a person."""
    return name.removeprefix("user:").replace("system:", "the system: ", 1)
