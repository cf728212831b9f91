"""Lists that few rows match are the same lists, found another way."""

from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import pytest
from django.http import QueryDict

from tests.verdicts.page_bodies import an_attempt
from verdicts.listing import facets as facet_module
from verdicts.listing import filters as filters_module
from verdicts.listing import read as listing
from verdicts.listing import sparse
from verdicts.listing.facets import Known, facets
from verdicts.listing.read import answer, asked
from verdicts.models import Attempt, ListRow

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 30, tzinfo=UTC)
ADDRESSES = (
    "domain=storage&state=failed",
    "state=failed&strength=none&cluster=alpha",
    "symptom=nccl_x&domain=storage",
    "node=gpu-1&state=hung",
    "text=pretrain&state=failed",
    "mode=fast",
    "user=ann&domain=storage",
    "cluster=alpha&strength=strong&strength=none&coverage=whole&state=hung&domain=storage",
    "symptom=nccl_x&status=cause&state=hung",
    "rule=nccl.x&symptom=nccl_x&coverage=narrow&strength=strong",
    "domain=storage&state=failed&after=2026-11-29T23:15Z&before=2026-11-29T23:50Z",
    "domain=facility&state=hung",
)


@pytest.fixture
def rows() -> list[ListRow]:
    """Rows with words drawn at random, some at one time."""
    ListRow.objects.all().delete()
    attempt: Attempt = an_attempt("1")
    random = Random(7)
    made = [
        ListRow(
            id=UUID(int=random.getrandbits(128), version=4),
            attempt=attempt,
            is_current=True,
            happened_at=NOW - timedelta(minutes=number // 2),
            created_at=NOW,
            cluster="alpha",
            domain=random.choice(("storage", "no_failure")),
            state=random.choice(("failed", "hung", "running")),
            mode=random.choice(("fast", "slow")),
            strength_step=random.choice((0, 3)),
            coverage=random.choice(("whole", "narrow")),
            user=random.choice(("ann", "bob")),
            reviewed=False,
            nodes=random.sample(("gpu-1", "gpu-2"), 1),
            tags=random.choice((["s:nccl_x", "s:nccl_x:cause", "r:nccl.x"], ["s:nccl_y"])),
            text=random.choice((" pretrain", " eval")),
        )
        for number in range(100)
    ]
    ListRow.objects.all().delete()
    return ListRow.objects.bulk_create(made)


def walk(address: str) -> tuple[list[UUID], list[list[UUID]], set[int]]:
    """All rows of a list by its pages; the same pages read backwards from the last; what each page counts."""
    data = QueryDict(address, mutable=True)
    found, pages, counts = [], [], set()
    while True:
        page = answer(asked(data), size=7)
        ids = [row.pk for row in page.page.rows]
        assert page.page.first == len(found) + 1 or not ids
        found += ids
        counts.add(page.count)
        if page.page.next is None:
            break
        data["cursor"] = str(page.page.next)
    while page.page.previous is not None:
        data["cursor"] = str(page.page.previous)
        page = answer(asked(data), size=7)
        pages.append([row.pk for row in page.page.rows])
    return found, pages, counts


@pytest.mark.parametrize(("walked", "gathered"), [(5, 1000), (30, 9)])
def test_its_pages_are_the_list_whichever_way_they_are_found(
    rows: list[ListRow], monkeypatch: pytest.MonkeyPatch, walked: int, gathered: int
) -> None:
    for module, name, value in (
        (listing, "WALKED", walked),
        (facet_module, "WALKED", walked),
        (listing, "GATHERED", gathered),
        (sparse, "GATHERED", gathered),
        (listing, "READ_THROUGH", 3),
    ):
        monkeypatch.setattr(module, name, value)
    for address in ADDRESSES:
        wanted = [row.pk for row in asked(QueryDict(address)).qs]
        found, back, counts = walk(address)
        assert found == wanted, address
        assert [row for page in reversed(back) for row in page] == wanted[: sum(map(len, back))], address
        assert counts == {len(wanted)}, address


def test_facets_of_a_sparse_list_are_of_its_rows_and_say_where_there_may_be_more(
    rows: list[ListRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "WALKED", 10)
    filters = asked(QueryDict("domain=storage&state=failed&node=gpu-1"))
    page = answer(filters, size=7)
    assert page.ids is not None
    told = {facet.name: facet for facet in facets(filters, Known(ids=page.ids))}
    assert [(word.value, word.count) for word in told["cluster"].words] == [("alpha", page.count)]
    assert not told["state"].at_least, "the whole store was looked at"
    monkeypatch.setattr(facet_module, "WALKED", 10)
    told = {facet.name: facet for facet in facets(filters, Known(ids=page.ids))}
    assert told["state"].at_least
    assert not told["cluster"].at_least


def test_words_are_counted_of_fewer_rows_where_each_is_read_and_say_so(
    rows: list[ListRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facet_module, "READ_AT", 5)
    monkeypatch.setattr(filters_module, "MOST_READ", 5)
    for address in ("text=pretrain&state=hung", "symptom=nccl_x&state=hung"):
        told = {facet.name: facet for facet in facets(asked(QueryDict(address)))}
        assert told["state"].at_least
        assert sum(word.count for word in told["state"].words) == 5
        assert told["domain"].at_least
