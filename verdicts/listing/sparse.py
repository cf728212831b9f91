"""Lists of which few rows match: gathered by what they have, instead of looked for in the order of the list.

A page is usually found by walking an index in the list's order until it is full. Words that each are in many rows, but
hardly ever together, would have that walk through all of them, and the planner cannot know: to it they are independent.
So the newest rows are walked through first; where they do not fill a page, the rows that have all words are gathered
out of one index that has them all, and sorted.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Lookup, QuerySet

from verdicts.listing.keyset import Cursor, Keyset, Slice
from verdicts.models import ListRow

#: So many rows are walked through before others are gathered.
WALKED = 10_000
#: So many are gathered at once: where there are no more, the list is known with them.
GATHERED = 1000

_KEEP_FROM = ("enable_seqscan", "enable_indexscan", "enable_indexonlyscan")
_BEGIN = "; ".join(
    [*(f"SET LOCAL {name} = off" for name in _KEEP_FROM), "SET LOCAL max_parallel_workers_per_gather = 0"]
)
_END = "; ".join(f"SET LOCAL {name} TO DEFAULT" for name in (*_KEEP_FROM, "max_parallel_workers_per_gather"))


def gathered(rows: QuerySet[Any]) -> list[Any]:
    """The rows, without a walk in their order. One request: the settings are of its transaction."""
    sql, params = rows.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"{_BEGIN}; {sql}; {_END}", params)
        while cursor.description is None and cursor.nextset():
            pass
        return list(cursor.fetchall())


def first_rows(found: Keyset, where: Sequence[Lookup[Any]] = ()) -> list[tuple[datetime, UUID]]:
    """The keys of a list's first rows, newest first; one more than `GATHERED` where there are more than that.

    `where` is what all of them meet, to find them by.
    """
    names = [key.field for key in found.keys]
    parts = [part.filter(*where).values_list(*names) for part in found.parts]
    return gathered(found.first_of(GATHERED + 1, parts))


def page_of(keys: Sequence[tuple[datetime, UUID]], found: Keyset, size: int, cursor: Cursor | None) -> Slice:
    """The page of a list, newest first, of which the keys of all rows are known."""
    begin, end = 0, size
    if cursor is not None:
        place = (cursor.values[0], cursor.values[1])
        if cursor.backwards:
            end = sum(1 for one in keys if one > place)
            begin = max(end - size, 0)
            end = end or size  # what lay before the cursor is gone
        else:
            begin = sum(1 for one in keys if one >= place)
            end = begin + size
    shown = [ListRow(happened_at=at, pk=pk) for at, pk in keys[begin:end]]
    if not shown:
        return Slice([], 0, None, None)
    last = begin + len(shown)
    return Slice(
        shown,
        begin + 1,
        found.at(shown[-1], last) if last < len(keys) else None,
        found.at(shown[0], begin + 1, backwards=True) if begin else None,
    )
