"""What the rows of a list have, and how often: the words that one may narrow it by.

Counts are of the newest `LOOKED_AT` rows that match, so that they cost the same however large the store is;
where more rows match, each count is at least what it says.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rules.words import Domain, Source, State, Strength
from verdicts import wording
from verdicts.choices import Label
from verdicts.filters import COVERAGE, NOT_ANALYSED, VerdictFilter

LOOKED_AT = 1000
#: Facets in force whose other words are counted too, as if it were not; each costs a query.
MOST_LIFTED = 2
#: Words of an open set that are offered; what else there is can be typed.
MOST_WORDS = 12
_MOST_NODES = 64

_COLUMNS = (
    "domain", "state", "strength", "cluster", "coverage", "user", "account", "workload", "ruleset", "reviewed",
    "asked", "nodes", "tags",
)  # fmt: skip

COVERAGE_WORDS = {"whole": "Every source seen", "degraded": "A source failed", "narrow": "Some not collected"}
REVIEW_WORDS = {
    "none": "Not reviewed",
    **{label.value: wording.LABELS[label].text for label in Label},
    "any": "Reviewed",
    "decided": "Right or wrong",
}
ATTRIBUTION_WORDS = {"open": "Being made", "failed": "Failed"}


@dataclass(frozen=True)
class Word:
    """A word of a facet: how many of the rows looked at have it, and whether it is asked for."""

    value: str
    text: str
    count: int
    chosen: bool


@dataclass(frozen=True)
class Facet:
    """One thing that rows may be told apart by. `at_least` says that more rows match than were looked at."""

    name: str
    label: str
    words: list[Word]
    at_least: bool

    @property
    def chosen(self) -> bool:
        """Whether it narrows the list."""
        return any(word.chosen for word in self.words)


def _tagged(kind: str) -> Any:
    """The plain tags of a kind: those with a status say the same once more."""
    mark = f"{kind}:"

    def of(row: dict[str, Any]) -> list[str]:
        return [tag[2:] for tag in row["tags"] if tag.startswith(mark) and ":" not in tag[2:]]

    return of


def _column(name: str) -> Any:
    return lambda row: [row[name]] if row[name] else []


#: Name, label, what a row has of it, and the words of a closed set with their texts.
_FACETS: tuple[tuple[str, str, Any, dict[str, str] | None], ...] = (
    (
        "domain", "Domain", _column("domain"),
        {**{word.value: wording.DOMAINS[word].text for word in Domain}, NOT_ANALYSED: "Not analysed"},
    ),
    ("state", "State", _column("state"), {word.value: wording.STATES[word].text for word in State}),
    (
        "strength", "Strength", lambda row: [row["strength"] or "none"],
        {**{word.value: wording.STRENGTHS[word] for word in Strength}, "none": "None"},
    ),
    ("cluster", "Cluster", _column("cluster"), None),
    ("symptom", "Symptom", _tagged("s"), None),
    ("node", "Node affected", lambda row: row["nodes"][:_MOST_NODES], None),
    (
        "review", "Review",
        lambda row: ["any", *(tag[2:] for tag in row["tags"] if tag.startswith("l:"))] if row["reviewed"] else ["none"],
        REVIEW_WORDS,
    ),
    ("coverage", "Coverage", _column("coverage"), {word: COVERAGE_WORDS[word] for word in COVERAGE}),
    ("missing", "Not seen whole", _tagged("m"), {word.value: wording.SOURCES[word] for word in Source}),
    ("user", "User", _column("user"), None),
    ("account", "Account", _column("account"), None),
    ("workload", "Workload", _column("workload"), None),
    ("ruleset", "Ruleset", _column("ruleset"), None),
    ("attribution", "Attribution", _column("asked"), ATTRIBUTION_WORDS),
)  # fmt: skip
LABELS = {name: label for name, label, _, _ in _FACETS}


def text_of(name: str, value: str) -> str:
    """A facet's word as a person reads it."""
    for facet, _, _, words in _FACETS:
        if facet == name and words and value in words:
            return words[value]
    if name == "symptom":
        return wording.plain(value)
    return value[:12] if name == "ruleset" else value


def _rows(filters: VerdictFilter, *, without: str = "") -> list[dict[str, Any]]:
    found = filters.found(without=without)
    columns = {*_COLUMNS, *(key.field for key in found.keys)}
    return found.first(LOOKED_AT + 1, [part.values(*sorted(columns)) for part in found.parts])


def facets(filters: VerdictFilter) -> list[Facet]:
    """The facets of what is found, each with its words, the most frequent first."""
    given = {name: [str(word) for word in filters.data.getlist(name) if word] for name in LABELS}
    base = _rows(filters)
    lifted = [name for name, words in given.items() if words][:MOST_LIFTED]
    rows = {name: _rows(filters, without=name) for name in lifted}
    return [
        _facet(name, label, [has(row) for row in rows.get(name, base)], known, given[name])
        for name, label, has, known in _FACETS
    ]


def _facet(
    name: str, label: str, having: list[list[str]], known: dict[str, str] | None, chosen: Iterable[str]
) -> Facet:
    at_least = len(having) > LOOKED_AT
    counted = Counter(word for words in having[:LOOKED_AT] for word in words)
    if known is None:
        frequent = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_WORDS]
        offered = [word for word, _ in frequent]
    else:
        offered = [word for word in known if counted[word]]
    offered += [word for word in chosen if word not in offered]
    words = [Word(word, text_of(name, word), counted[word], word in chosen) for word in offered]
    return Facet(name, label, words, at_least)
