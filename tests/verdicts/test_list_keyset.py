"""Pages by key, for any list: no row is lost or shown twice, whatever ties there are, in any order, both ways."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.http import QueryDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.verdicts.page_bodies import an_attempt
from verdicts.listing.filters import ORDERS
from verdicts.listing.keyset import Cursor, CursorError, Key, Keyset, read_cursor
from verdicts.listing.read import asked
from verdicts.models import Attempt, ListRow

START = datetime(2026, 11, 3, tzinfo=UTC)
KEYS = [Key("happened_at", descending=True), Key("id", descending=True)]
ROWS = some.lists(
    some.tuples(
        some.integers(0, 3), some.sampled_from(["storage", "facility"]), some.sampled_from(["failed", "running"])
    ),
    max_size=14,
)
ORDER = some.lists(some.sampled_from([f"{sign}{name}" for name in ORDERS for sign in ("", "-")]), max_size=2)


@pytest.fixture
def attempt(db: None) -> Attempt:
    """What the made-up rows belong to; its own row is taken away."""
    made = an_attempt("1")
    ListRow.objects.all().delete()
    return made


def fill(attempt: Attempt, rows: list[tuple[int, str, str]]) -> None:
    """Rows with many ties."""
    ListRow.objects.all().delete()
    ListRow.objects.bulk_create(
        ListRow(
            id=UUID(int=(7919 * number) % 2**31),
            attempt=attempt,
            is_current=True,
            happened_at=START + timedelta(hours=hour),
            created_at=START + timedelta(hours=hour % 2),
            job_id=str(hour),
            domain=domain,
            state=state,
            strength_step=hour % 2,
            reviewed=False,
        )
        for number, (hour, domain, state) in enumerate(rows, start=1)
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, order=ORDER, size=some.integers(1, 4), within=some.tuples(some.integers(0, 3), some.integers(0, 4)))
def test_pages_hold_each_row_once_in_order(
    attempt: Attempt, rows: list[tuple[int, str, str]], order: list[str], size: int, within: tuple[int, int]
) -> None:
    fill(attempt, rows)
    query = QueryDict(mutable=True)
    if order:
        query["order"] = ",".join(order)
    query["after"] = (START + timedelta(hours=within[0])).isoformat()
    query["before"] = (START + timedelta(hours=within[1])).isoformat()
    filters = asked(query)
    assert filters.is_valid(), filters.errors
    wanted = [row.pk for row in filters.qs]
    found, seen, cursor = filters.found(), [], None
    pages = []
    while True:
        page = found.page(size, cursor)
        pages.append([row.pk for row in page.rows])
        seen += pages[-1]
        if page.rows:
            assert page.first == len(seen) - len(page.rows) + 1
        if page.next is None:
            break
        cursor = read_cursor(str(page.next), filters.keys)
    assert seen == wanted
    assert found.count() == len(wanted)
    found.most = 2
    assert min(found.count(), 3) == min(len(wanted), 3)
    assert [row.pk for some_rows in found.every(size) for row in some_rows] == wanted
    backwards = []
    while page.previous is not None:
        page = found.page(size, read_cursor(str(page.previous), filters.keys))
        backwards.append([row.pk for row in page.rows])
    assert backwards == pages[:-1][::-1]


def test_rows_that_come_or_go_between_two_pages_lose_and_double_none_of_the_others(attempt: Attempt) -> None:
    fill(attempt, [(hour % 3, "storage", "failed") for hour in range(12)])
    found = Keyset([ListRow.objects.all()], KEYS)
    before = {row.pk for row in ListRow.objects.all()}
    first = found.page(5)
    ListRow.objects.filter(pk=first.rows[2].pk).delete()
    ListRow.objects.create(
        attempt=attempt,
        is_current=True,
        happened_at=START + timedelta(days=9),
        created_at=START,
        job_id="new",
        domain="storage",
        state="failed",
        strength_step=0,
        reviewed=False,
    )
    assert first.next is not None
    second = found.page(5, first.next)
    assert second.next is not None
    third = found.page(5, second.next)
    seen = [row.pk for page in (first, second, third) for row in page.rows]
    assert len(seen) == len(set(seen))
    assert set(seen) == before


@given(some.text(max_size=60) | some.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_no_text_is_taken_for_a_cursor_or_breaks(text: str) -> None:
    with pytest.raises(CursorError):
        read_cursor(text, KEYS)


@pytest.mark.parametrize(
    "values",
    [
        ("2026", UUID(int=1)),
        (START, "x"),
        (START,),
        (START.replace(tzinfo=None), UUID(int=1)),
        (1, 2),
        (True, UUID(int=1)),
    ],
)
def test_a_cursor_of_another_order_is_refused(values: tuple[Any, ...]) -> None:
    with pytest.raises(CursorError):
        read_cursor(str(Cursor(values, 1)), KEYS)


def test_a_cursor_is_read_back_as_it_was() -> None:
    cursor = Cursor((START, UUID(int=5)), 25, backwards=True)
    assert read_cursor(str(cursor), KEYS) == cursor
