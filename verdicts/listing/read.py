"""The list as page, API and export read it: one address, one answer."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django.http import QueryDict

from verdicts.listing.filters import READ_THROUGH, VerdictFilter
from verdicts.listing.keyset import Cursor, CursorError, Slice, read_cursor
from verdicts.listing.pairs import paired
from verdicts.listing.parameters import unknown_parameters
from verdicts.listing.sparse import GATHERED, WALKED, first_rows, page_of
from verdicts.models import Attempt, ListRow, Verdict
from verdicts.verdict_page import presentation

PAGE_SIZE = 25
#: Parameters that cut a list and filter nothing.
PAGING = ("cursor", "limit", "format")
#: What a line shows; bodies are large, and what free text is looked for in is not shown.
_SHOWN = (
    *("is_current", "created_at", "job_id", "cluster", "workload", "account", "domain", "state", "strength", "mode"),
    *("ruleset", "asked", "origin", "nodes", "tags"),
    *(f"attempt__{field}" for field in ("restart_count", "state", "ended_at", "user")),
    *(f"verdict__{field}" for field in ("headline", "coverage", "ended_at")),
)


@dataclass(frozen=True)
class Line:
    """A row with what it shows of its attempt and its verdict; without a verdict the attempt was not analysed."""

    row: ListRow
    attempt: Attempt
    verdict: Verdict | None

    @property
    def coverage(self) -> presentation.Coverage:
        """Which sources were seen."""
        return presentation.coverage(self.verdict.coverage if self.verdict else ())

    @property
    def can_change(self) -> bool:
        """Whether what it says may be another in a minute: only such rows are asked for again."""
        return self.row.is_current and (self.row.state == "running" or self.row.asked == "open" or self.verdict is None)


@dataclass(frozen=True)
class Answer:
    """One page of a list, and how many rows there are; `more` where there are more than were counted.

    `everywhere` says that the text looked for is in so many rows that the newest of them were soon found.
    """

    page: Slice
    count: int
    more: bool
    everywhere: bool = False
    #: The first rows of the list, where they had to be gathered.
    ids: list[UUID] | None = None

    @cached_property
    def lines(self) -> list[Line]:
        """The rows of the page with what is shown of them."""
        return lines(self.page.rows)

    @property
    def is_whole(self) -> bool:
        """Whether the page holds every row of the list."""
        return self.page.next is None and self.page.previous is None


def problems(filters: VerdictFilter, also: Iterable[str] = PAGING) -> dict[str, str]:
    """What in an address cannot be understood, by parameter: such a list must not look like an answer."""
    wrong = dict.fromkeys(unknown_parameters(filters.data, VerdictFilter, also), "There is no such filter.")
    for name, said in filters.form.errors.items():
        wrong[name] = " ".join(str(problem) for problem in said)
    if not wrong and (cursor := filters.data.get("cursor")):
        try:
            read_cursor(cursor, filters.keys)
        except CursorError as error:
            wrong["cursor"] = f"Not understood: {error}."
    return wrong


def asked(query: QueryDict, rows: Any = None) -> VerdictFilter:
    """The filters of an address over all rows, or those given."""
    return VerdictFilter(query, queryset=ListRow.objects.all() if rows is None else rows)


def answer(filters: VerdictFilter, *, size: int = PAGE_SIZE) -> Answer:
    """The page that an address asks for. The address has no problems."""
    found = filters.found()
    cursor = read_cursor(filters.data["cursor"], found.keys) if filters.data.get("cursor") else None
    newest = None if cursor and cursor.backwards else filters.read_through(READ_THROUGH, cursor=cursor)
    if newest is not None:
        page = newest.page(size, cursor)
        if page.next is not None:
            # To count every row that has the text, each would have to be read: there are at least these.
            return Answer(page, min(newest.count(), newest.most), more=True, everywhere=True)
    if not filters.several():
        page = found.page(size, cursor)
    elif newest is not None or (full := _full(filters, size, cursor)) is None:
        pairs, said = paired(filters)
        keys = first_rows(filters.found(without=said), pairs)
        ids = [pk for _, pk in keys[:GATHERED]]
        page = page_of(keys, found, size, cursor)
        if len(keys) <= GATHERED:
            return Answer(page, len(keys), more=False, ids=ids)
        if not page.rows or page.last >= GATHERED:  # beyond the rows that are known
            page = found.page(size, cursor)
        number = found.count() if found.most > GATHERED else found.most + 1
        return _answer(page, number, found.most, ids)
    else:
        page = full
    if cursor is None and page.next is None:
        return Answer(page, len(page.rows), more=False)
    return _answer(page, found.count(), found.most)


def _answer(page: Slice, number: int, most: int, ids: list[UUID] | None = None) -> Answer:
    """The answer where `number` rows were counted, of `most` at most."""
    # Who goes on beyond what is counted has seen that there are as many.
    return Answer(page, max(min(number, most), page.last), more=number > most, ids=ids)


def _full(filters: VerdictFilter, size: int, cursor: Cursor | None) -> Slice | None:
    """The page, where the newest rows (or those next to the cursor) fill it."""
    near, _ = filters.near(WALKED, cursor=cursor)
    page = near.page(size, cursor)
    more = page.previous if cursor is not None and cursor.backwards else page.next
    return page if more is not None else None


def lines(rows: Iterable[ListRow]) -> list[Line]:
    """Rows with their attempts and verdicts, in the same order, in one query."""
    ids = [row.pk for row in rows]
    found = ListRow.objects.select_related("attempt", "verdict").only(*_SHOWN).in_bulk(ids) if ids else {}
    # A row may have gone since it was found: an attempt that got its verdict.
    return [Line(found[pk], found[pk].attempt, found[pk].verdict) for pk in ids if pk in found]
