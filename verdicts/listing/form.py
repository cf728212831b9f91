"""The filters of a small list as form, chips and headings: one reading of one address, for page and API."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from uuid import UUID

from django.http import QueryDict

from verdicts.listing.filter_form import Chip, Heading, Option, Pick, given

MIN_YEAR, MAX_YEAR = 1970, 9000
#: Parameters that cut a list and filter nothing.
PAGING = ("page", "limit", "offset", "format")


class ListForm:
    """What an address asks of a list, what of it cannot be understood, and the addresses that ask otherwise.

    A list says its parameters in the class attributes: `sets` may be repeated, of `choices` one holds, `texts`
    and `times` take anything that reads as such, `orders` may be turned round by a leading minus.
    """

    labels: Mapping[str, str] = {}
    sets: Mapping[str, list[tuple[str, str]]] = {}
    choices: Mapping[str, list[tuple[str, str]]] = {}
    texts: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    #: Each order with the sign that its first click wants: "-" where the largest comes first.
    orders: Mapping[str, str] = {}
    usual: str = ""

    def __init__(self, query: QueryDict) -> None:
        self.data = given(query)

    def value(self, name: str) -> str:
        """The first value of a parameter as it was given."""
        return str(self.data.get(name, "") or "")

    def values(self, name: str) -> list[str]:
        """All values of a parameter that may be repeated."""
        return [str(value) for value in self.data.getlist(name)]

    def moment(self, name: str) -> datetime | None:
        """A time of the address; without an offset it is UTC."""
        try:
            at = datetime.fromisoformat(self.value(name))
        except ValueError:
            return None
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        # What is reckoned from it must stay within the calendar, in every zone; PostgreSQL knows no offset of a day.
        return at.astimezone(UTC) if MIN_YEAR <= at.year <= MAX_YEAR else None

    @property
    def order(self) -> str:
        """The order asked for, or the usual one."""
        return self.value("order") or self.usual

    @cached_property
    def errors(self) -> dict[str, str]:
        """What in the address cannot be understood, by parameter: such a list must not look like an answer."""
        wrong: dict[str, str] = {}
        known = {*self.sets, *self.choices, *self.texts, *self.times, *PAGING, *(["order"] if self.orders else [])}
        for name in self.data:
            if name not in known:
                wrong[name] = f"There is no filter called “{name}”."
        for name, words in [*self.sets.items(), *self.choices.items()]:
            for value in self.values(name):
                if value not in dict(words):
                    wrong[name] = f"{self.labels[name]}: “{value}” is none of {', '.join(word for word, _ in words)}."
        for name in self.texts:
            if "\0" in self.value(name):
                wrong[name] = f"{self.labels[name]}: a text with a NUL, which nothing stored has."
        for name in self.times:
            if self.value(name) and self.moment(name) is None:
                wrong[name] = f"{self.labels[name]}: “{self.value(name)}” is not a time."
        if self.orders and self.order.removeprefix("-") not in self.orders:
            wrong["order"] = f"Order: “{self.order}” is none of {', '.join(self.orders)}."
        return wrong

    @property
    def picks(self) -> list[Pick]:
        """The filters over closed sets."""
        return [Pick(name, self.labels[name], _options(words, self.values(name))) for name, words in self.sets.items()]

    @property
    def selects(self) -> list[Pick]:
        """The filters of which one word holds; the first is the usual one."""
        return [
            Pick(name, self.labels[name], _options(words, [self.value(name) or words[0][0]]))
            for name, words in self.choices.items()
        ]

    @property
    def fields(self) -> list[tuple[str, str, str]]:
        """The text filters: name, label, value."""
        return [(name, self.labels[name], self.value(name)) for name in self.texts]

    @property
    def bounds(self) -> list[tuple[str, str, str]]:
        """The bounds of a time range: name, label, value for a date field in UTC."""
        return [(name, f"{self.labels[name]} (UTC)", self._minute(name)) for name in self.times]

    @property
    def carried(self) -> list[tuple[str, str]]:
        """Parameters without a control, so that sending the form keeps them; the page number starts anew."""
        return [("order", self.value("order"))] if self.value("order") else []

    @property
    def chips(self) -> list[Chip]:
        """The filters in force, each with the address that takes it away."""
        return [
            Chip(self.labels.get(name, name), self._readable(name, value), self.address(without=(name, value)))
            for name, values in self.data.lists()
            if name not in (*PAGING, "order")
            for value in map(str, values)
        ]

    @property
    def cleared(self) -> str:
        """The address without filters, in the same order."""
        order = self.value("order")
        return "?" + QueryDict.fromkeys(["order"], order).urlencode() if order else "?"

    @property
    def headings(self) -> dict[str, Heading]:
        """The columns that can be sorted by."""
        now, down = self.order.removeprefix("-"), self.order.startswith("-")
        found = {}
        for name, first in self.orders.items():
            if name == now:
                turned = name if down else f"-{name}"
                found[name] = Heading(name, "descending" if down else "ascending", self.address(order=turned))
            else:
                found[name] = Heading(name, "none", self.address(order=first + name))
        return found

    def address(self, *, without: tuple[str, str] | None = None, order: str | None = None) -> str:
        """This list's address, from its first page, with something changed."""
        data = self.data.copy()
        for name in PAGING:
            data.pop(name, None)
        if without is not None:
            name, value = without
            data.setlist(name, [other for other in data.getlist(name) if other != value])
        if order is not None:
            data["order"] = order
        return "?" + data.urlencode()

    def _minute(self, name: str) -> str:
        at = self.moment(name)
        return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M") if at else ""

    def _readable(self, name: str, value: str) -> str:
        words = {**dict(self.sets.get(name, [])), **dict(self.choices.get(name, []))}
        if name in self.times and self._minute(name):
            return f"{self._minute(name).replace('T', ' ')} +00:00"
        return words.get(value, value)


def id_of(text: str) -> UUID | None:
    """An id out of an address; None where the text is none."""
    try:
        return UUID(text)
    except ValueError:
        return None


def _options(words: Iterable[tuple[str, str]], chosen: list[str]) -> list[Option]:
    return [Option(value, text, value in chosen) for value, text in words]
