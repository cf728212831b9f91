"""What the rows of a list have, and how often: the words that one may narrow it by.

Counts are of the newest `LOOKED_AT` rows that match (fewer where each has to be read), so that they cost the same
however large the store is; where more rows match, each count is at least what it says.
"""

# ruff: noqa: S608 -- the statements are made of words of this module, and values stay apart

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import connection

from rules.words import Domain, Source, State, Strength
from verdicts import wording
from verdicts.choices import Label, Origin
from verdicts.listing.filters import COVERAGE, NOT_ANALYSED, READ_THROUGH, VerdictFilter
from verdicts.listing.keyset import MOST_READ
from verdicts.listing.sparse import WALKED

LOOKED_AT = 1000
#: The same for the other words of a facet in force, where rows are read until so many match.
READ_AT = 100
#: Facets in force whose other words are counted too.
MOST_LIFTED = 4
#: Words of an open set that are offered; what else there is can be typed.
MOST_WORDS = 12

_COLUMNS = (
    "domain", "state", "strength", "cluster", "coverage", "user", "account", "workload", "ruleset", "reviewed",
    "asked", "origin", "nodes", "tags",
)  # fmt: skip

COVERAGE_WORDS = {"whole": "Every source seen", "degraded": "A source failed", "narrow": "Some not collected"}
REVIEW_WORDS = {
    "none": "Not reviewed",
    **{label.value: wording.LABELS[label].text for label in Label},
    "any": "Reviewed",
    "decided": "Right or wrong",
}
ORIGIN_WORDS = {Origin.OWN.value: "This site", Origin.IMPORTED.value: "Imported"}
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


@dataclass(frozen=True)
class Known:
    """What reading the page has told already: the (first) rows, where they were few; or that a text is everywhere."""

    ids: list[UUID] | None = None
    everywhere: bool = False


NOTHING_KNOWN = Known()


def _column(name: str) -> str:
    """How often each word of a column occurs; no word is no word."""
    return f'SELECT "{name}" AS word, count(*) AS number FROM seen WHERE "{name}" <> \'\' GROUP BY 1'


def _tagged(kind: str) -> str:
    """The plain tags of a kind: those with a status say the same once more."""
    return (
        "SELECT substr(tag, 3), sum(number)::bigint FROM tagged, unnest(tags) AS tag "
        f"WHERE tag LIKE '{kind}:%%' AND strpos(substr(tag, 3), ':') = 0 GROUP BY 1"
    )


#: Name, label, what a row has of it, and the words of a closed set with their texts.
_FACETS: tuple[tuple[str, str, str, dict[str, str] | None], ...] = (
    (
        "domain",
        "Domain",
        _column("domain"),
        {**{word.value: wording.DOMAINS[word].text for word in Domain}, NOT_ANALYSED: "Not analysed"},
    ),
    ("state", "State", _column("state"), {word.value: wording.STATES[word].text for word in State}),
    (
        "strength",
        "Strength",
        "SELECT COALESCE(NULLIF(strength, ''), 'none'), count(*) FROM seen GROUP BY 1",
        {**{word.value: wording.STRENGTHS[word] for word in Strength}, "none": "None"},
    ),
    ("cluster", "Cluster", _column("cluster"), None),
    ("symptom", "Symptom", _tagged("s"), None),
    ("node", "Node affected", "SELECT node, count(*) FROM seen, unnest(nodes) AS node GROUP BY 1", None),
    (
        "review",
        "Review",
        "SELECT CASE WHEN reviewed THEN 'any' ELSE 'none' END, count(*) FROM seen GROUP BY 1 UNION ALL " + _tagged("l"),
        REVIEW_WORDS,
    ),
    ("coverage", "Coverage", _column("coverage"), {word: COVERAGE_WORDS[word] for word in COVERAGE}),
    ("missing", "Not seen whole", _tagged("m"), {word.value: wording.SOURCES[word] for word in Source}),
    ("user", "User", _column("user"), None),
    ("account", "Account", _column("account"), None),
    ("workload", "Workload", _column("workload"), None),
    ("ruleset", "Ruleset", _column("ruleset"), None),
    ("attribution", "Attribution", _column("asked"), ATTRIBUTION_WORDS),
    ("origin", "Origin", _column("origin"), ORIGIN_WORDS),
)
LABELS = {name: label for name, label, _, _ in _FACETS}


def text_of(name: str, value: str) -> str:
    """A facet's word as a person reads it."""
    for facet, _, _, words in _FACETS:
        if facet == name and words and value in words:
            return words[value]
    if name == "symptom":
        return wording.plain(value)
    return value[:12] if name == "ruleset" else value


def _looked_at(filters: VerdictFilter, known: Known, without: str) -> int:
    """How many rows are counted: fewer where they are not known and each has to be read."""
    if known.ids is not None and not without:
        return LOOKED_AT
    most = filters.most(without)
    if without and (filters.data.get("text") or most <= MOST_READ):
        return READ_AT
    return min(LOOKED_AT, most)


def _seen(filters: VerdictFilter, known: Known, *, without: str = "") -> tuple[str, tuple[Any, ...]]:
    """The newest rows that match, as a statement."""
    if known.ids is not None and not without:
        needed = ", ".join(f'"{name}"' for name in _COLUMNS)
        return f"SELECT {needed} FROM verdicts_listrow WHERE id = ANY(%s)", (known.ids[:LOOKED_AT],)
    found = filters.found(without=without)
    if without and filters.several(without=without):
        # How many match is not known: those among the newest are counted.
        found, _ = filters.near(WALKED, without=without)
    if known.everywhere:
        found = filters.read_through(READ_THROUGH, without=without) or found
    columns = sorted({*_COLUMNS, *(key.field for key in found.keys)})
    rows = found.first_of(_looked_at(filters, known, without), [part.values(*columns) for part in found.parts])
    try:
        sql, params = rows.query.sql_with_params()
    except EmptyResultSet:  # a word that stands for nothing: there is nothing to ask
        return "SELECT * FROM verdicts_listrow WHERE false", ()
    return sql, params


def facets(filters: VerdictFilter, known: Known = NOTHING_KNOWN) -> list[Facet]:
    """The facets of what is found, each with its words, the most frequent first; all by one statement.

    A facet in force is counted over the rows that would be found without it, so that it offers its other words.
    """
    given = {name: [str(word) for word in filters.data.getlist(name) if word] for name in LABELS}
    lifted = [name for name, words in given.items() if words][:MOST_LIFTED]
    parts: list[str] = []
    values: list[Any] = []
    for without in ["", *lifted]:
        sql, params = _seen(filters, known, without=without)
        counted = [(name, how) for name, _, how, _ in _FACETS if (name == without if without else name not in lifted)]
        how_often = " UNION ALL ".join(
            f"SELECT '{name}', word, number FROM ({how}) AS counted (word, number)" for name, how in counted
        )
        whole = f"SELECT '{without} of', '', count(*) FROM seen"
        if without and filters.several(without=without):
            last, given_last = filters.near(WALKED, without=without)[1].query.sql_with_params()
            whole = (
                f"SELECT '{without} of', '', count(*) + CASE WHEN EXISTS ({last}) THEN {LOOKED_AT} ELSE 0 END FROM seen"
            )
            params = (*params, *given_last)
        # Many rows have the same tags: those are taken apart once.
        tagged = "SELECT tags, count(*) AS number FROM seen GROUP BY 1"
        parts.append(f"(WITH seen AS MATERIALIZED ({sql}), tagged AS ({tagged}) {whole} UNION ALL {how_often})")
        values += params
    words: dict[str, Counter[str]] = defaultdict(Counter)
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), values)
        for name, word, number in cursor.fetchall():
            words[name][word] = number
    more = {
        name: known.everywhere or words[f"{name} of"][""] >= _looked_at(filters, known, name) for name in ["", *lifted]
    }
    return [
        _facet(name, label, words[name], closed, given[name], more[name if name in lifted else ""])
        for name, label, _, closed in _FACETS
    ]


def _facet(
    name: str, label: str, counted: Counter[str], known: dict[str, str] | None, chosen: list[str], at_least: bool
) -> Facet:
    if known is None:
        frequent = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_WORDS]
        offered = [word for word, _ in frequent]
    else:
        offered = [word for word in known if counted[word]]
    offered += [word for word in chosen if word not in offered]
    words = [Word(word, text_of(name, word), counted[word], word in chosen) for word in offered]
    return Facet(name, label, words, at_least)
