"""What the filters of all lists share: the parameters of an address."""

from collections.abc import Iterable
from typing import Any

import django_filters as filters
from django.http import QueryDict

from verdicts.choices import Origin

#: Where what lists have comes from. Attempts of drills are in no list.
LISTED = (Origin.OWN, Origin.IMPORTED)


def choices_of(words: Iterable[str]) -> list[tuple[str, str]]:
    """The words of a closed set as a filter's choices."""
    return [(str(word), str(word)) for word in words]


def repeated(data: QueryDict | dict[str, Any], name: str, value: str) -> list[str]:
    """All values of a parameter that may be repeated."""
    values = data.getlist(name) if isinstance(data, QueryDict) else [value]
    return [word for word in values if word]


def unknown_parameters(data: Iterable[str], known: type[filters.FilterSet], also: Iterable[str] = ()) -> list[str]:
    """Names in a query that no filter knows: a misspelt filter must not answer with everything."""
    return sorted(set(data) - set(known.base_filters) - set(also))
