"""Conditions and constraints that several tables share."""

from enum import StrEnum

from django.db import models
from django.db.models import Q

from verdicts.choices import OPEN_STATES

CURRENT = Q(is_current=True)
OPEN = Q(state__in=[state.value for state in OPEN_STATES])


def closed(model: str, field: str, enum: type[StrEnum], *, blank: bool = False) -> models.CheckConstraint:
    """The database's own check that a column holds a word of its set."""
    words = [word.value for word in enum] + ([""] if blank else [])
    return models.CheckConstraint(name=f"{model}_{field}_word", condition=Q(**{f"{field}__in": words}))
