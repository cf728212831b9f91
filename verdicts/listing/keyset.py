"""Pages by key: a page begins after the last row of the one before, however many rows lie before that.

Unlike an offset this costs the same on every page, and no row is lost or shown twice when others come or go.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

#: Counting further costs more than the number is worth to a reader.
MOST_COUNTED = 10_000
#: The same where each row has to be read to be counted. A database does not know how often two words are in one row:
#: for so few it walks through the newest rows, for more it would rather read all rows that have both, and sort them.
MOST_READ = 300
_LONGEST = 4000


class CursorError(ValueError):
    """A cursor that was not made for this list in this order."""


@dataclass(frozen=True)
class Key:
    """One column of an order. The columns of an order hold no NULL, and the last of them is unique."""

    field: str
    descending: bool = False

    @property
    def order(self) -> str:
        """As `order_by` takes it."""
        return f"-{self.field}" if self.descending else self.field

    def turned(self) -> "Key":
        """The same the other way round."""
        return Key(self.field, not self.descending)


@dataclass(frozen=True)
class Cursor:
    """Where a page begins: after (or, backwards, before) a row, told by its keys; `place` is that row's number."""

    values: tuple[Any, ...]
    place: int
    backwards: bool = False

    def __str__(self) -> str:
        said = [int(self.backwards), self.place, *map(_said, self.values)]
        return base64.urlsafe_b64encode(json.dumps(said, separators=(",", ":")).encode()).decode().rstrip("=")


def _said(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"t": value.isoformat()}
    return {"u": value.hex} if isinstance(value, UUID) else value


def _meant(said: Any) -> Any:
    if not isinstance(said, dict):
        return said
    if "t" not in said:
        return UUID(said["u"])
    at = datetime.fromisoformat(said["t"])
    return at if at.tzinfo is None else at.astimezone(UTC)


def read_cursor(text: str, keys: Sequence[Key]) -> Cursor:
    """The cursor of an address. Raises CursorError."""
    try:
        if len(text) > _LONGEST:
            raise CursorError
        backwards, place, *said = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        values = tuple(map(_meant, said))
        if backwards not in (0, 1) or not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < 2**53:
            raise CursorError
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise CursorError("a cursor is taken from an answer, not made") from error
    if len(values) != len(keys) or any(isinstance(value, (list, dict, float, bool)) for value in values):
        raise CursorError("the cursor belongs to another order")
    for key, value in zip(keys, values, strict=True):
        # What a column can be compared with: its kind is told by its name.
        wanted = datetime if key.field.endswith("_at") else UUID if key.field == "id" else (str, int)
        if not isinstance(value, wanted) or (isinstance(value, datetime) and value.tzinfo is None):
            raise CursorError("the cursor belongs to another order")
        if (isinstance(value, str) and "\0" in value) or (isinstance(value, int) and abs(value) > 2**31):
            raise CursorError("the cursor belongs to another order")
        if isinstance(value, int) != (key.field == "strength_step"):
            raise CursorError("the cursor belongs to another order")
    return Cursor(values, place, bool(backwards))


def beyond(keys: Sequence[Key], values: Sequence[Any]) -> Q:
    """Rows that come after the one with these values.

    The first column's bound stands alone, so that an index is entered there and not walked from its beginning.
    """
    key, value = keys[0], values[0]
    step = "lt" if key.descending else "gt"
    strictly = Q((f"{key.field}__{step}", value))
    if len(keys) == 1:
        return strictly
    return Q((f"{key.field}__{step}e", value)) & (strictly | beyond(keys[1:], values[1:]))


@dataclass(frozen=True)
class Slice:
    """One page: its rows, the number of the first, and where the next and the previous begin."""

    rows: list[Any]
    first: int
    next: Cursor | None
    previous: Cursor | None

    @property
    def last(self) -> int:
        """The number of the last row."""
        return self.first + len(self.rows) - 1


class Keyset:
    """A list that is read by key. `parts` together are the list and share no row."""

    def __init__(self, parts: Sequence[QuerySet[Any]], keys: Sequence[Key], most: int = MOST_COUNTED) -> None:
        self.parts, self.keys, self.most = list(parts), list(keys), most

    def first_of(
        self, number: int, parts: Sequence[QuerySet[Any]] | None = None, *, backwards: bool = False
    ) -> QuerySet[Any]:
        """The first rows of the list, or of other parts in its order; one query, each part read for itself."""
        order = [(key.turned() if backwards else key).order for key in self.keys]
        # Only the keys: an index may have them all, and what a row shows is read when the rows are known.
        given = [part.only(*(key.field for key in self.keys)) for part in self.parts] if parts is None else parts
        found = [part.order_by(*order)[:number] for part in given]
        return found[0] if len(found) == 1 else found[0].union(*found[1:], all=True).order_by(*order)[:number]

    def _after(self, values: Sequence[Any] | None, number: int, *, backwards: bool) -> list[Any]:
        if values is None:
            return list(self.first_of(number, backwards=backwards))
        bound = beyond([key.turned() for key in self.keys] if backwards else self.keys, values)
        keys_only = [part.filter(bound).only(*(key.field for key in self.keys)) for part in self.parts]
        return list(self.first_of(number, keys_only, backwards=backwards))

    def at(self, row: Any, place: int, *, backwards: bool = False) -> Cursor:
        """Where the page after a row begins, or ends before it; `place` is the row's number."""
        return Cursor(tuple(getattr(row, key.field) for key in self.keys), place, backwards)

    def page(self, size: int, cursor: Cursor | None = None) -> Slice:
        """The page that begins at the cursor, or the first."""
        backwards = cursor is not None and cursor.backwards
        rows = self._after(cursor.values if cursor else None, size + 1, backwards=backwards)
        more = len(rows) > size
        rows = rows[:size]
        if backwards:
            assert cursor is not None
            rows.reverse()
            # Rows that came meanwhile are before the first of them: their numbers start at one again.
            first = max(cursor.place - len(rows), 1) if more else 1
            before, after = more, True
        else:
            first = cursor.place + 1 if cursor else 1
            before, after = cursor is not None, more
        if not rows:  # what lay before the cursor is gone; what lies after its end never was
            return self.page(size) if backwards else Slice([], 0, None, None)
        last = first + len(rows) - 1
        return Slice(
            rows,
            first,
            self.at(rows[-1], last) if after else None,
            self.at(rows[0], first, backwards=True) if before else None,
        )

    def counted(self) -> QuerySet[Any]:
        """Rows to be counted: all there are, or some more than `most`.

        Where each is read to be counted, the first are: those lie beside each other, and in any other order a database
        may take it for cheaper to read through the whole table until it has so many.
        """
        order = [key.order for key in self.keys] if self.most <= MOST_READ else []
        parts = [part.order_by(*order).values("pk")[: self.most + 1] for part in self.parts]
        return parts[0] if len(parts) == 1 else parts[0].union(*parts[1:], all=True)

    def count(self) -> int:
        """How many rows there are; more than `most` where there are more than that, and then not how many."""
        return self.counted().count()

    def every(self, at_once: int = 1000) -> Iterator[list[Any]]:
        """All rows, some at once: what is held in memory does not grow with the list."""
        values = None
        while rows := self._after(values, at_once, backwards=False):
            yield rows
            values = [getattr(rows[-1], key.field) for key in self.keys]
