"""What came of one check. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery.words import CheckOutcome

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Seen:
    """What was seen, in a sentence, and as data. Something that could not be looked at is not passed."""

    outcome: CheckOutcome
    said: str
    facts: Facts = field(default_factory=dict)


def passed(said: str, **facts: Any) -> Seen:
    """As it should be."""
    return Seen(CheckOutcome.PASSED, said, facts)


def failed(said: str, **facts: Any) -> Seen:
    """Not as it should be."""
    return Seen(CheckOutcome.FAILED, said, facts)


def not_checked(why: str, **facts: Any) -> Seen:
    """It could not be looked at; `why` says what to do about it."""
    return Seen(CheckOutcome.NOT_CHECKED, why, facts)
