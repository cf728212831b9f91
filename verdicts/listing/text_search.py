"""Free text over the list: by trigrams where the database has them, else through the newest rows."""

from functools import cache

from django.db import connection
from django.db.models import QuerySet, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from verdicts.models import ListRow

#: So many rows are looked through where there is no index for text: more would keep people waiting.
NEWEST = 20_000
MOST_WORDS = 8
#: A trigram has three characters; a shorter word is looked for where words begin.
SHORTEST_INSIDE = 3


@cache
def has_trigrams() -> bool:
    """Whether text can be found by an index: pg_trgm could be created when the store was made."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('row_text') IS NOT NULL")
        return bool(cursor.fetchone()[0])


def read_through(rows: QuerySet[ListRow], text: str) -> QuerySet[ListRow]:
    """The same rows as `with_words`, found by reading each: for a few rows that many words may be in."""
    for word in text.lower().split()[:MOST_WORDS]:
        wanted = word if len(word) >= SHORTEST_INSIDE else f" {word}"
        rows = rows.filter(GreaterThan(StrIndex("text", Value(wanted)), 0))
    return rows


def with_words(rows: QuerySet[ListRow], text: str) -> QuerySet[ListRow]:
    """Rows in which every word occurs in workload, job, user, headline, affected nodes or the titles of its causes."""
    for word in text.lower().split()[:MOST_WORDS]:
        rows = rows.filter(text__contains=word if len(word) >= SHORTEST_INSIDE else f" {word}")
    if has_trigrams():
        return rows
    newest = ListRow.objects.filter(is_current=True).order_by("-happened_at", "-id").values("pk")[:NEWEST]
    return rows.filter(pk__in=newest)


_WORDS = """
WITH RECURSIVE word (text) AS (
    (SELECT {column} FROM verdicts_finding ORDER BY {column} LIMIT 1)
    UNION ALL
    SELECT (SELECT {column} FROM verdicts_finding WHERE {column} > word.text ORDER BY {column} LIMIT 1)
    FROM word WHERE word.text IS NOT NULL
)
SELECT text FROM word WHERE starts_with(text, %s)
"""


def found_words(column: str, start: str) -> list[str]:
    """The symptoms or rules that begin so and that some verdict found: an index is leapt through, not read."""
    assert column in ("symptom", "rule")
    with connection.cursor() as cursor:
        cursor.execute(_WORDS.format(column=column), [start])
        return [text for (text,) in cursor.fetchall()]
