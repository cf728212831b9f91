"""The verdict filters as a form, as chips and as column headings: one reading of one address."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from django.http import QueryDict

from rules.words import Domain, State, Strength
from verdicts import wording
from verdicts.choices import Label
from verdicts.filters import VerdictFilter, unknown_parameters
from verdicts.models import Cluster

#: Clusters that are offered for choosing; more are reached through the address.
MOST_CLUSTERS = 40

_LABELS = {
    "text": "Text",
    "cluster": "Cluster",
    "domain": "Domain",
    "state": "State",
    "strength": "Strength",
    "node": "Node",
    "workload": "Workload",
    "job": "Job",
    "symptom": "Symptom",
    "rule": "Rule",
    "status": "Symptom is",
    "review": "Review",
    "after": "Ended from",
    "before": "Ended before",
    "created_after": "Written from",
    "created_before": "Written before",
    "attempt": "Attempt",
    "mode": "Mode",
    "superseded": "Older verdicts too",
}

_REVIEWS = [
    ("", "any or none"),
    ("none", "not reviewed"),
    ("any", "reviewed"),
    *((label.value, wording.LABELS[label].text.lower()) for label in Label),
]

#: Filters that have a control of their own; others are carried along and shown as chips.
_WITH_CONTROL = {
    "text", "cluster", "domain", "state", "strength", "node", "workload", "symptom", "review", "after", "before",
}  # fmt: skip
_FOLDED = {"node", "workload", "symptom", "review", "after", "before"}


def given(query: QueryDict) -> QueryDict:
    """An address without its empty parameters: a field that was left empty is no filter."""
    kept = query.copy()
    for name, values in query.lists():
        if full := [value for value in values if value.strip()]:
            kept.setlist(name, full)
        else:
            del kept[name]
    return kept


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


class FilterForm:
    """What the list page shows of its filters."""

    def __init__(self, filters: VerdictFilter) -> None:
        self.filters = filters
        self.data: QueryDict = filters.data

    def value(self, name: str) -> str:
        """The first value of a parameter as it was given."""
        return str(self.data.get(name, "") or "")

    @cached_property
    def picks(self) -> list[Pick]:
        """The filters over closed sets, and the clusters that are known."""
        clusters = [(name, name) for name in Cluster.objects.values_list("name", flat=True)[:MOST_CLUSTERS] if name]
        picks = [
            self._pick("domain", [(word.value, wording.DOMAINS[word].text) for word in Domain]),
            self._pick("state", [(word.value, wording.STATES[word].text) for word in State]),
            self._pick("strength", [(word.value, wording.STRENGTHS[word]) for word in Strength] + [("none", "None")]),
        ]
        return [self._pick("cluster", clusters), *picks] if len(clusters) > 1 else picks

    def _pick(self, name: str, words: Iterable[tuple[str, str]]) -> Pick:
        given = set(self.data.getlist(name))
        return Pick(name, _LABELS[name], [Option(value, text, value in given) for value, text in words])

    @property
    def text(self) -> str:
        """The free text that is looked for."""
        return self.value("text")

    @property
    def fields(self) -> list[tuple[str, str, str, str]]:
        """The text filters under the fold: name, label, value, hint."""
        return [
            ("node", _LABELS["node"], self.value("node"), "gpu-017"),
            ("workload", _LABELS["workload"], self.value("workload"), "full name"),
            ("symptom", _LABELS["symptom"], self.value("symptom"), "nccl_*"),
        ]

    @property
    def times(self) -> list[tuple[str, str, str]]:
        """The bounds of the time range: name, label, value for a date field in UTC."""
        return [(name, f"{_LABELS[name]} (UTC)", _minute(self.value(name))) for name in ("after", "before")]

    @property
    def reviews(self) -> list[Option]:
        """What may be asked about reviews."""
        return [Option(value, text, value == self.value("review")) for value, text in _REVIEWS]

    @property
    def fold_open(self) -> bool:
        """Whether a filter under the fold is in force: it must not be hidden."""
        return any(self.value(name) for name in _FOLDED)

    @property
    def carried(self) -> list[tuple[str, str]]:
        """Parameters without a control, so that sending the form keeps them; the page number starts anew."""
        return [
            (name, value)
            for name, values in self.data.lists()
            if name not in _WITH_CONTROL and name != "page"
            for value in values
            if value
        ]

    @property
    def errors(self) -> list[str]:
        """What in the address cannot be understood."""
        unknown = [
            f"There is no filter called “{name}”." for name in unknown_parameters(self.data, VerdictFilter, ("page",))
        ]
        wrong = [
            f"{_LABELS.get(name, name)}: {' '.join(str(problem) for problem in problems)}"
            for name, problems in self.filters.form.errors.items()
        ]
        return unknown + wrong

    @property
    def chips(self) -> list[Chip]:
        """The filters in force, each with the address that takes it away."""
        return [
            Chip(_LABELS.get(name, name), _readable(name, value), self._address(without=(name, value)))
            for name, values in self.data.lists()
            if name not in ("page", "order")
            for value in values
            if value
        ]

    @property
    def cleared(self) -> str:
        """The address without filters, in the same order."""
        order = self.value("order")
        return "?" + QueryDict.fromkeys(["order"], order).urlencode() if order else "?"

    def heading(self, name: str, *, first: str = "") -> Heading:
        """A column's heading; `first` is "-" where the largest is wanted first."""
        now = self.value("order") or "-ended"
        if now.split(",")[0] not in (name, f"-{name}"):
            return Heading(name, "none", self._address(order=first + name))
        turned = name if now.startswith("-") else f"-{name}"
        return Heading(name, "descending" if now.startswith("-") else "ascending", self._address(order=turned))

    @property
    def headings(self) -> dict[str, Heading]:
        """The columns that can be sorted by."""
        return {
            "ended": self.heading("ended", first="-"),
            "workload": self.heading("workload"),
            "state": self.heading("state"),
            "domain": self.heading("domain"),
            "strength": self.heading("strength", first="-"),
        }

    def _address(self, *, without: tuple[str, str] | None = None, order: str | None = None) -> str:
        data = self.data.copy()
        data.pop("page", None)
        if without is not None:
            name, value = without
            data.setlist(name, [other for other in data.getlist(name) if other != value])
        if order is not None:
            data["order"] = order
        for name in [name for name, values in data.lists() if not any(values)]:
            del data[name]
        return "?" + data.urlencode()


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
    looks = {"domain": wording.DOMAINS, "state": wording.STATES, "review": wording.LABELS}.get(name, {})
    if value in looks:
        return looks[value].text
    if name == "strength":
        return wording.STRENGTHS.get(value, value)
    if name in ("after", "before"):
        return f"{_minute(value).replace('T', ' ')} +00:00" if _minute(value) else value
    return dict(_REVIEWS).get(value, value) if name == "review" else value
