"""Pages of a list whose length may be large: counting stops at a cap."""

from typing import Any, cast

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.utils.functional import cached_property

PAGE_SIZE = 25
#: Counting further costs more than the number is worth to a reader.
MOST_COUNTED = 10_000


class CappedPaginator(Paginator[Any]):
    """Counts up to `MOST_COUNTED` rows; what lies beyond is reached by filtering, not by turning pages."""

    @cached_property
    def seen(self) -> int:
        """The rows there are, or one more than the cap."""
        rows = cast("QuerySet[Any]", self.object_list)
        return rows.order_by().values("pk")[: MOST_COUNTED + 1].count()

    @cached_property
    def count(self) -> int:
        """The rows that pages can reach."""
        return min(self.seen, MOST_COUNTED)

    @property
    def is_capped(self) -> bool:
        """Whether there are more rows than were counted."""
        return self.seen > MOST_COUNTED


def page_of(rows: QuerySet[Any], number: str | None) -> Page[Any]:
    """The page that an address asks for; a number that is none or too large gives the nearest page."""
    return CappedPaginator(rows, PAGE_SIZE).get_page(number)
