"""The verdict filters as a form, as chips and as column headings: one reading of one address."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from urllib.parse import urlencode

from django.core.exceptions import TooManyFieldsSent
from django.http import QueryDict
from django.utils import timezone

from rules.attempt import InputError
from verdicts import wording
from verdicts.listing.facets import LABELS, LOOKED_AT, NOTHING_KNOWN, Facet, facets, text_of
from verdicts.listing.filters import VerdictFilter
from verdicts.listing.keyset import Cursor
from verdicts.listing.read import PAGING, asked, problems

_LABELS = {
    **LABELS,
    "text": "Text",
    "job": "Job",
    "rule": "Rule",
    "status": "Symptom is",
    "shared": "Shared element",
    "after": "Ended from",
    "before": "Ended before",
    "created_after": "Written from",
    "created_before": "Written before",
    "attempt": "Attempt",
    "mode": "Mode",
    "superseded": "Older verdicts too",
    "cursor": "Page",
    "limit": "Limit",
    "order": "Order",
}
#: Filters that have a control of their own; others are carried along and shown as chips.
_WITH_CONTROL = {*LABELS, "text", "job", "rule", "after", "before"}
#: What can be typed where the word wanted is not among those offered: name, label, hint.
_TYPED = (
    ("node", "Node", "gpu-017"),
    ("workload", "Workload", "full name"),
    ("job", "Job id", "48213"),
    ("user", "User", "full name"),
    ("symptom", "Symptom", "nccl_*"),
    ("rule", "Rule", "gpu.*"),
)
#: Facets that are open before anybody opened one.
_OPEN = ("domain", "state", "cluster", "review")
#: Time ranges that are one click away: name and days.
_RANGES = (("24 h", 1), ("7 days", 7), ("30 days", 30), ("90 days", 90))


#: The longest text of an address that is kept or worked on.
LONGEST_QUERY = 4000


def given(query: QueryDict) -> QueryDict:
    """An address without its empty parameters: a field that was left empty is no filter."""
    kept = query.copy()
    for name, values in query.lists():
        if full := [value for value in values if value.strip()]:
            kept.setlist(name, full)
        else:
            del kept[name]
    return kept


def filters_of(query: str, field: str, *, without: Iterable[str] = PAGING) -> VerdictFilter:
    """The filters in the text of an address of the list, less the parameters that are left out.

    Raises InputError that names the field which the text came in. A word without a value is no filter: passed over, it
    would ask for everything.
    """
    if len(query) > LONGEST_QUERY:
        raise InputError(f"{field}: longer than {LONGEST_QUERY} characters")
    query = query.removeprefix("?")
    for part in query.split("&"):
        if part and "=" not in part:
            raise InputError(f"{field}: {part[:80]!r} is no filter: name=value is")
    try:
        data = given(QueryDict(query, mutable=True))
    except TooManyFieldsSent as error:
        raise InputError(f"{field}: more filters than any list has") from error
    for parameter in without:
        data.pop(parameter, None)
    filters = asked(data)
    if wrong := problems(filters):
        raise InputError(f"{field}: " + "; ".join(f"{name}: {said}" for name, said in sorted(wrong.items())))
    return filters


@dataclass(frozen=True)
class Option:
    """One word that a filter may be set to."""

    value: str
    text: str
    chosen: bool


@dataclass(frozen=True)
class Pick:
    """A filter that takes any number of words of a closed set."""

    name: str
    label: str
    options: list[Option]

    @property
    def chosen(self) -> list[Option]:
        """The words that are set."""
        return [option for option in self.options if option.chosen]


@dataclass(frozen=True)
class Chip:
    """A filter in force, and the address without it."""

    label: str
    text: str
    without: str


@dataclass(frozen=True)
class Heading:
    """A column that can be sorted by: how it is sorted now, and the address that sorts it."""

    name: str
    sorted: str  # aria-sort: ascending, descending or none
    address: str


@dataclass(frozen=True)
class Range:
    """A time range that ends now: its name, and the address that sets it."""

    text: str
    address: str


class FilterForm:
    """What the list page shows of its filters."""

    def __init__(self, filters: VerdictFilter) -> None:
        self.filters = filters
        self.data: QueryDict = filters.data
        self.known = NOTHING_KNOWN

    def value(self, name: str) -> str:
        """The first value of a parameter as it was given."""
        return str(self.data.get(name, "") or "")

    @cached_property
    def facets(self) -> list[tuple[Facet, bool]]:
        """The facets that have a word to offer, and whether each is open; none where the address is not understood."""
        if self.problems:
            return []
        return [
            (facet, facet.name in _OPEN or facet.chosen)
            for facet in facets(self.filters, self.known)
            if facet.words and (len(facet.words) > 1 or facet.chosen or facet.name in _OPEN)
        ]

    @property
    def looked_at(self) -> int:
        """How many rows the facets' counts are of, where more match; 0 where the counts are of all."""
        return LOOKED_AT if any(facet.at_least for facet, _ in self.facets) else 0

    @property
    def text(self) -> str:
        """The free text that is looked for."""
        return self.value("text")

    @property
    def typed(self) -> list[tuple[str, str, str, str]]:
        """The filters that a word can be typed for: name, label, hint, and the value where no facet shows it."""
        return [(name, label, hint, "" if name in LABELS else self.value(name)) for name, label, hint in _TYPED]

    @property
    def times(self) -> list[tuple[str, str, str]]:
        """The bounds of the time range: name, label, value for a date field in UTC."""
        return [(name, f"{_LABELS[name]} (UTC)", _minute(self.value(name))) for name in ("after", "before")]

    @property
    def ranges(self) -> list[Range]:
        """Time ranges of one click, from the full hour so many days ago."""
        hour = timezone.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return [
            Range(text, self._address(after=f"{hour - timedelta(days=days):%Y-%m-%dT%H:%MZ}")) for text, days in _RANGES
        ]

    @property
    def fold_open(self) -> bool:
        """Whether a filter under the fold is in force: it must not be hidden."""
        return any(self.value(name) for name in ("job", "rule"))

    @property
    def carried(self) -> list[tuple[str, str]]:
        """Parameters without a control, so that sending the form keeps them; the page starts anew."""
        return [
            (name, value)
            for name, values in self.data.lists()
            if name not in _WITH_CONTROL and name not in PAGING
            for value in values
            if value
        ]

    @cached_property
    def problems(self) -> dict[str, str]:
        """What in the address cannot be understood, by parameter."""
        return problems(self.filters)

    @property
    def errors(self) -> list[str]:
        """The same as sentences."""
        return [
            f"There is no filter called “{name}”." if name not in _LABELS else f"{_LABELS[name]}: {said}"
            for name, said in self.problems.items()
        ]

    @cached_property
    def chips(self) -> list[Chip]:
        """The filters in force, each with the address that takes it away."""
        return [
            Chip(_LABELS.get(name, name), _readable(name, value), self._address(without=(name, value)))
            for name, values in self.data.lists()
            if name not in (*PAGING, "order")
            for value in values
            if value
        ]

    @cached_property
    def query(self) -> str:
        """The filters and the order, without the place in the list: what a saved view keeps."""
        return self._address()[1:]

    @cached_property
    def cleared(self) -> str:
        """The address without filters, in the same order."""
        order = self.value("order")
        return "?" + QueryDict.fromkeys(["order"], order).urlencode() if order else "?"

    def at(self, cursor: Cursor) -> str:
        """The address of the page that begins there."""
        return f"{self._address()}&cursor={cursor}" if self.query else f"?cursor={cursor}"

    @cached_property
    def start(self) -> str:
        """The address of this list's first page."""
        return self._address()

    def heading(self, name: str, *, first: str = "") -> Heading:
        """A column's heading; `first` is "-" where the largest is wanted first."""
        now = self.value("order") or "-ended"
        if now.split(",")[0] not in (name, f"-{name}"):
            return Heading(name, "none", self._address(order=first + name))
        turned = name if now.startswith("-") else f"-{name}"
        return Heading(name, "descending" if now.startswith("-") else "ascending", self._address(order=turned))

    @cached_property
    def headings(self) -> dict[str, Heading]:
        """The columns that can be sorted by."""
        return {
            "ended": self.heading("ended", first="-"),
            "workload": self.heading("workload"),
            "state": self.heading("state"),
            "domain": self.heading("domain"),
            "strength": self.heading("strength", first="-"),
        }

    def _address(self, *, without: tuple[str, str] | None = None, **changes: str) -> str:
        kept = {name: values for name, values in self.data.lists() if name not in PAGING}
        if without is not None:
            name, value = without
            kept[name] = [other for other in kept.get(name, ()) if other != value]
        kept |= {name: [value] for name, value in changes.items()}
        return "?" + urlencode({name: values for name, values in kept.items() if any(values)}, doseq=True)


def _minute(text: str) -> str:
    """A time of the address as a date field shows it: UTC, to the minute."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return ""
    try:
        return (at if at.tzinfo is None else at.astimezone(UTC)).strftime("%Y-%m-%dT%H:%M")
    except OverflowError:  # the last year's last hours in the far west
        return ""


def _readable(name: str, value: str) -> str:
    """A filter's value as a person reads it."""
    if name in ("after", "before", "created_after", "created_before"):
        return f"{_minute(value).replace('T', ' ')} +00:00" if _minute(value) else value
    if name == "status":
        return wording.FINDING_STATUSES.get(value, value)
    return text_of(name, value)
