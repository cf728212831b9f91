"""Two words as one: rows that have both are in one short list of an index, where each alone is in a long one.

The index has each two words of a row (see `verdicts.models.listing.PAIRS`); what is asked for here says to a database
nothing that the filters do not say already, only where to look.
"""

from itertools import combinations, product
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.lookups import Overlap
from django.db.models import Lookup, TextField, Value

from rules.words import STRENGTHS, Strength
from verdicts.listing.filters import LONGEST_WORD, TAGGED, VerdictFilter
from verdicts.models.listing import PAIRS

#: The filters whose words are paired, in the order of a pair, and how the words of each begin.
_BEGIN = {"domain": "d", "state": "t", "strength": "g", "cluster": "c", "coverage": "v", "symptom": "s", "rule": "r"}
#: Those of which the words are known, so that a pair is of no other two.
_CLOSED = {"domain", "state", "strength", "coverage"}
#: Where more pairs would do, looking for each takes longer than it spares.
MOST_PAIRS = 100


def paired(filters: VerdictFilter) -> tuple[list[Lookup[Any]], str]:
    """Conditions that all rows found meet, one for each two filters that an index has together; and the filters that
    these say wholly.

    Asked by both, a database may take the filters for the better way in, and make the pairs of each row that it finds.
    """
    asked = {name: words for name in _BEGIN if (words := _words(filters, name))}
    found: list[Lookup[Any]] = []
    said: set[str] = set()
    for one, other in combinations(asked, 2):
        pairs = [" ".join(both) for both in product(asked[one], asked[other])]
        # A row's symptoms and rules are not paired with each other: rules name the symptoms that they find.
        if not {one, other} <= TAGGED and len(pairs) <= MOST_PAIRS:
            found.append(Overlap(PAIRS, Value(pairs, ArrayField(TextField()))))
            said |= {one, other} & _CLOSED
    return found, " ".join(said)


def _words(filters: VerdictFilter, name: str) -> list[str]:
    """The words of a filter as the index has them; none where it has no such words."""
    given = [word for word in filters.data.getlist(name) if word]
    if name in TAGGED and any(word.endswith("*") for word in given):
        return []
    if name == "strength":
        given = [str(STRENGTHS.index(Strength(word)) + 1 if word != "none" else 0) for word in given]
    elif name == "cluster":
        given = ["" if word == "none" else word[:LONGEST_WORD] for word in given]
    return [f"{_BEGIN[name]}:{word}" for word in given]
