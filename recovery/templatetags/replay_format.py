"""Formatting for the pages of replays."""

from django import template

from recovery.models import Replay
from recovery.replay import find, wording
from verdicts.wording import DOMAINS, STATES, STRENGTHS, Look, plain

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
def conclusion_word(word: str) -> str:
    """A domain, state or strength in words; other words of a move as they are."""
    for words in (DOMAINS, STATES, STRENGTHS):
        if word in words:
            look = words[word]
            return look if isinstance(look, str) else look.text
    return word


@register.filter
def move_words(move: str) -> str:
    """How a conclusion moves, in words."""
    return " → ".join(map(conclusion_word, move.split(" → ")))


@register.filter
def actor(name: str) -> str:
    """Who began it, without the kind of actor for a person."""
    return name.removeprefix("user:").replace("system:", "the system: ", 1)
