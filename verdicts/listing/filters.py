"""Filters and orders of the lists: one set each for the API and the page."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from datetime import UTC, datetime
from functools import cache
from typing import Any

import django_filters as filters
from django import forms
from django.db.models import Q, QuerySet, SmallIntegerField, Subquery, Value
from django.db.models.functions import Cast, Coalesce

from rules.words import STRENGTHS, Domain, Source, State, Strength
from verdicts.choices import FindingStatus, Label, Mode
from verdicts.listing.keyset import MOST_COUNTED, MOST_READ, Cursor, Key, Keyset, beyond
from verdicts.listing.moment_filter import MomentFilter
from verdicts.listing.parameters import LISTED, choices_of, repeated
from verdicts.listing.text_search import found_words, read_through, with_words
from verdicts.models import ListRow, RulesetVersion

#: In place of a domain, for attempts that no verdict was made of yet.
NOT_ANALYSED = "not_analysed"
#: How much of what was to be seen was seen.
COVERAGE = ("whole", "degraded", "narrow")
#: Longer words are cut in the list's own table.
LONGEST_WORD = 255
#: Filters that indexes carry together, and those that are looked for among a row's tags.
COUNTED_FAR = {
    *("domain", "state", "cluster", "strength", "coverage", "review", "attribution", "origin", "after", "before"),
}
TAGGED = {"symptom", "rule", "missing"}
#: What hardly any two people, jobs or workloads share: the rarest first. Each has an index in the list's order.
OWN = ("job", "workload", "user", "account")
#: What narrows no list by itself, or along the order of the list.
ALONE = {"order", "superseded", "status", "after", "before"}
EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
#: So many rows are read for a text before an index is asked where it is.
READ_THROUGH = 3000


#: What each order sorts by; ties and words that many rows share give the newest first.
ORDERS = {
    "ended": "happened_at",
    "created": "created_at",
    "domain": "domain",
    "state": "state",
    "strength": "strength_step",
    "job": "job_id",
    "workload": "workload",
    "cluster": "cluster",
}
NEWEST_FIRST = (Key("happened_at", descending=True), Key("id", descending=True))


def order_keys(order: Iterable[str]) -> list[Key]:
    """The keys of an order as the address gives it: names, a leading minus turns one round."""
    keys = [Key(ORDERS[name.removeprefix("-")], name.startswith("-")) for name in order]
    named = {key.field for key in keys}
    if named and named <= {"happened_at", "created_at"}:
        # A time is next to unique: the last key only has to make it wholly so, in the same direction.
        return [*keys, Key("id", keys[-1].descending)]
    return [*keys, *(key for key in NEWEST_FIRST if key.field not in named)]


class VerdictOrder(filters.OrderingFilter):
    """Orders by name. What it says is read by `VerdictFilter.keys`."""

    def filter(self, qs: QuerySet[ListRow], value: list[str] | None) -> QuerySet[ListRow]:
        return qs


class VerdictQuery(forms.Form):
    """The checks of filters that only make sense together."""

    def clean(self) -> dict[str, Any]:
        """`status` says what was made of a symptom or a rule, so one of them must be named."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if data.get("status") and not (data.get("symptom") or data.get("rule")):
            self.add_error("status", "It says what was made of a symptom or a rule: name one of them too.")
        return data


class AnyOf(filters.MultipleChoiceFilter):
    """Rows with any of the words: one condition that an index serves, and no search for doubles where none can be."""

    def filter(self, qs: QuerySet[ListRow], value: list[str]) -> QuerySet[ListRow]:
        if len(value) == 1:
            return qs.filter(**{self.field_name: value[0]})
        return qs.filter(**{f"{self.field_name}__in": sorted(value)}) if value else qs


class VerdictFilter(filters.FilterSet):
    """What the list can be looked through by.

    `symptom` and `rule` may end in `*`. `after` and `before` bound the time at which the attempt ended (or
    began, if no end is known); what still runs is always among the answers.
    """

    text = filters.CharFilter(
        method="by_text",
        help_text="Words of the headline, the titles of causes, job id, workload, user or affected node.",
    )
    cluster = filters.CharFilter(
        method="by_any", help_text="Name of a cluster, or none where no name was sent; may be repeated."
    )
    domain = AnyOf(
        choices=[*choices_of(Domain), (NOT_ANALYSED, NOT_ANALYSED)], help_text="Attributed domain; may be repeated."
    )
    state = AnyOf(choices=choices_of(State), help_text="Terminal state; may be repeated.")
    strength = AnyOf(
        choices=[*choices_of(Strength), ("none", "none")],
        method="by_strength",
        help_text="Strength of the verdict, or none; may be repeated.",
    )
    symptom = filters.CharFilter(
        method="by_finding", help_text='A symptom, or the start of some: "nccl_*"; may be repeated.'
    )
    rule = filters.CharFilter(
        method="by_finding", help_text='Id of a rule that fired, or the start of some: "gpu.*"; may be repeated.'
    )
    status = AnyOf(
        choices=choices_of(FindingStatus),
        method="by_nothing",
        help_text="What the verdict made of the symptom or rule that is looked for; may be repeated.",
    )
    node = filters.CharFilter(method="by_node", help_text="Name of an affected node; may be repeated.")
    shared = filters.CharFilter(method="by_shared", help_text="What the affected nodes share: kind:name.")
    workload = filters.CharFilter(method="by_any", help_text="Name of a workload; may be repeated.")
    user = filters.CharFilter(method="by_any", help_text="Whose job it was; may be repeated.")
    account = filters.CharFilter(method="by_any", help_text="The account that it ran for; may be repeated.")
    job = filters.CharFilter(field_name="job_id", lookup_expr="exact", help_text="The scheduler's job id.")
    attempt = filters.UUIDFilter(field_name="attempt_id", help_text="Id of an attempt; its older verdicts too.")
    coverage = AnyOf(
        choices=choices_of(COVERAGE),
        help_text="whole: every source was seen whole; degraded: one failed, came in part, or is never empty and was; "
        "narrow: some were not collected; may be repeated.",
    )
    missing = AnyOf(
        choices=choices_of(Source), method="by_missing", help_text="A source that was not seen whole; may be repeated."
    )
    review = AnyOf(
        choices=choices_of([*Label, "none", "any", "decided"]),
        method="by_review",
        help_text="The label that a standing review gives it; none: not reviewed; decided: right or wrong; "
        "may be repeated.",
    )
    attribution = AnyOf(
        field_name="asked",
        choices=[("open", "open"), ("failed", "failed")],
        help_text="open: an attribution is being made; failed: the last one failed.",
    )
    origin = AnyOf(
        choices=choices_of(LISTED),
        help_text="own: of this site; imported: from a record of another site. Lists have both, figures only own; "
        "may be repeated.",
    )
    mode = filters.ChoiceFilter(choices=choices_of(Mode), help_text="How it was asked for.")
    ruleset = filters.CharFilter(method="by_ruleset", help_text="Digest of the ruleset, or its first characters.")
    after = MomentFilter(method="by_nothing", help_text="Ended at this time or later (RFC 3339).")
    before = MomentFilter(method="by_nothing", help_text="Ended before this time.")
    created_after = MomentFilter(field_name="created_at", lookup_expr="gte", help_text="Written then or later.")
    created_before = MomentFilter(field_name="created_at", lookup_expr="lt", help_text="Written before.")
    superseded = filters.ChoiceFilter(
        choices=[("true", "true"), ("false", "false")],
        method="by_nothing",
        help_text="true: older verdicts too, not only those that stand.",
    )
    order = VerdictOrder(
        fields=[(field, name) for name, field in ORDERS.items()],
        help_text="Order; a leading minus turns it round.",
    )

    class Meta:
        model = ListRow
        fields: list[str] = []
        form = VerdictQuery

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._stands_for: dict[str, list[str]] = {}
        self._newest: dict[str, datetime | None] = {}

    def get_form_class(self) -> type[forms.Form]:
        """The form that reads the address: the same class at every visit."""
        return _form_class()

    def filter_queryset(self, queryset: QuerySet[ListRow]) -> QuerySet[ListRow]:
        """All filters, in the order asked for."""
        narrowed = self._narrowed(queryset)
        after, before = self._within()
        if after is not None or before is not None:
            narrowed = narrowed.filter(_between(after, before) | RUNS)
        return narrowed.order_by(*(key.order for key in self.keys))

    @property
    def keys(self) -> list[Key]:
        """The order that is asked for, as keys of which the last is unique."""
        return order_keys(self._asked.get("order") or ())

    def found(self, *, without: str = "") -> Keyset:
        """The answer as pages by key; `without` leaves one filter out, for counts beside its words.

        What still runs is in every time range. Asked by one condition, a database would have to walk from the
        newest row to the range; asked before, within and after it, each part has an index to begin in.
        """
        rows = self._narrowed(self.queryset, without=without)
        (after, before), keys, most = self._within(), self.keys, self.most(without)
        if after is None and before is None:
            return Keyset([rows], keys, most)
        inside = rows.filter(_between(after, before))
        states = self._asked.get("state")
        if without != "state" and states and State.RUNNING.value not in states:
            return Keyset([inside], keys, most)
        if after is not None and before is not None and before <= after:  # no time: only what still runs is left
            return Keyset([rows.filter(RUNS)], keys, most)
        parts = [inside]
        if before is not None:
            parts.append(rows.filter(RUNS, happened_at__gte=before))
        if after is not None:
            parts.append(rows.filter(RUNS, happened_at__lt=after))
        return Keyset(parts, keys, most)

    def read_through(self, newest: int, *, cursor: Cursor | None = None, without: str = "") -> Keyset | None:
        """The newest rows (or those after a cursor) looked through for the text one by one; None where that is no use.

        An index for text finds all rows with a word before the first can be shown. A word that many rows have is
        in the newest of them soon.
        """
        text, (after, before) = self._asked.get("text"), self._within()
        if not text or without == "text" or (after, before) != (None, None) or tuple(self.keys) != NEWEST_FIRST:
            return None
        found = read_through(self._narrowed(self.queryset, without=f"text {without}"), text)
        walked = ListRow.objects.filter(is_current=True)
        if cursor is not None:
            walked = walked.filter(beyond(self.keys, cursor.values))
        place = f"{newest} {cursor}"
        if place not in self._newest:
            order = (key.order for key in self.keys)
            self._newest[place] = (
                walked.order_by(*order).values_list("happened_at", flat=True)[newest - 1 : newest].first()
            )
        last = self._newest[place]
        # A store that has no more rows than that is read as fast without this.
        return None if last is None else Keyset([found.filter(happened_at__gte=last)], self.keys)

    def several(self, *, without: str = "") -> bool:
        """Whether rows have to have several things of which an index in the list's order has one only."""
        named = {name for name, value in self._asked.items() if value} - {*ALONE, without}
        plain = self._asked.get("superseded") != "true" and not self._asked.get("attempt")
        return plain and (len(named) > 1 or "mode" in named) and tuple(self.keys) == NEWEST_FIRST

    def near(self, newest: int, *, cursor: Cursor | None = None, without: str = "") -> tuple[Keyset, Any]:
        """The list as far as the newest rows (or those next to the cursor) have it, and the last of those, if any.

        Where there is no last one the whole store was looked at. Of a word that few rows have, its own newest rows are
        meant: fewer, as those are read.
        """
        backwards = cursor is not None and cursor.backwards
        walked = ListRow.objects.filter(is_current=True)
        for name in OWN:
            if (word := self._asked.get(name)) and name != without:
                walked, newest = self.filters[name].filter(walked, word), newest // 5
                break
        _, before = self._within()
        if cursor is not None:
            walked = walked.filter(
                beyond([key.turned() for key in self.keys] if backwards else self.keys, cursor.values)
            )
        elif before is not None:
            walked = walked.filter(happened_at__lt=before)
        order = [(key.turned() if backwards else key).order for key in self.keys]
        last = walked.order_by(*order).values("happened_at")[newest - 1 : newest]
        edge, step = (LATEST, "lte") if backwards else (EARLIEST, "gte")
        bound = Q((f"happened_at__{step}", Coalesce(Subquery(last), Value(edge))))
        found = self.found(without=without)
        return Keyset([part.filter(bound) for part in found.parts[:1]] + found.parts[1:], found.keys, found.most), last

    def _narrowed(self, rows: QuerySet[ListRow], *, without: str = "") -> QuerySet[ListRow]:
        """All filters but the time range and those named."""
        cleaned = self._asked
        if cleaned.get("superseded") != "true" and not cleaned.get("attempt"):
            rows = rows.filter(is_current=True)
        for name, value in cleaned.items():
            if name not in without.split():
                rows = self.filters[name].filter(rows, value)
        return rows

    def most(self, without: str = "") -> int:
        """How far the answer is counted: less far where no index has all that is asked for."""
        named = {name for name, value in self._asked.items() if value} - {"order", "superseded", "status", without}
        alone = len(named) == 1 and not named & TAGGED
        return MOST_COUNTED if alone or named <= COUNTED_FAR else MOST_READ

    @property
    def _asked(self) -> dict[str, Any]:
        """What the address asks for. Raises ValueError where it cannot be understood."""
        if not self.is_valid():
            raise ValueError(f"not understood: {', '.join(self.form.errors)}")
        asked: dict[str, Any] = self.form.cleaned_data
        return asked

    def _within(self) -> tuple[datetime | None, datetime | None]:
        return self._asked.get("after"), self._asked.get("before")

    def _meant(self, name: str, value: str, find: Callable[[str], list[str]]) -> list[str]:
        """What the words of a parameter stand for, looked up once for rows, count and facets alike."""
        if name not in self._stands_for:
            self._stands_for[name] = [word for start in repeated(self.data, name, value) for word in find(start)]
        return self._stands_for[name]

    def by_nothing(self, queryset: QuerySet[ListRow], name: str, value: Any) -> QuerySet[ListRow]:
        """For fields that another filter or `found` reads."""
        return queryset

    def by_any(self, queryset: QuerySet[ListRow], name: str, value: str) -> QuerySet[ListRow]:
        """Rows with any of the words given."""
        values = [word[:LONGEST_WORD] for word in repeated(self.data, name, value)]
        if name == "cluster":
            values = ["" if word == "none" else word for word in values]
        return queryset.filter(**({name: values[0]} if len(values) == 1 else {f"{name}__in": values}))

    def by_strength(self, queryset: QuerySet[ListRow], name: str, value: list[str]) -> QuerySet[ListRow]:
        """Rows of any of the strengths."""
        steps = [STRENGTHS.index(Strength(word)) + 1 if word != "none" else 0 for word in value]
        # Of the column's own type: an index of several columns knows no other.
        typed: Any = [Cast(Value(step), SmallIntegerField()) for step in steps]
        return queryset.filter(strength_step__in=typed) if steps else queryset

    def by_node(self, queryset: QuerySet[ListRow], name: str, value: str) -> QuerySet[ListRow]:
        """Rows that name one of the nodes as affected."""
        return queryset.filter(nodes__overlap=repeated(self.data, name, value))

    def by_shared(self, queryset: QuerySet[ListRow], name: str, value: str) -> QuerySet[ListRow]:
        """Rows whose affected nodes share the element."""
        return queryset.filter(shared=value[:LONGEST_WORD], shared__gt="")

    def by_finding(self, queryset: QuerySet[ListRow], name: str, value: str) -> QuerySet[ListRow]:
        """Rows with a finding of the symptom or rule, whatever was made of it unless `status` says more."""
        words = self._meant(name, value, lambda start: found_words(name, start[:-1]) if start[-1] == "*" else [start])
        made = [f":{status}" for status in self._asked.get("status") or ()] or [""]
        return queryset.filter(tags__overlap=[f"{name[0]}:{word}{status}" for word in words for status in made])

    def by_missing(self, queryset: QuerySet[ListRow], name: str, value: list[str]) -> QuerySet[ListRow]:
        """Rows of which one of the sources was not seen whole."""
        return queryset.filter(tags__overlap=[f"m:{word}" for word in value]) if value else queryset

    def by_review(self, queryset: QuerySet[ListRow], name: str, value: list[str]) -> QuerySet[ListRow]:
        """Rows by what people said of them."""
        if not value:
            return queryset
        said = {word for word in value if word in set(Label)}
        if "decided" in value:
            said |= {Label.RIGHT.value, Label.WRONG.value}
        wanted = Q(reviewed=True, tags__overlap=sorted(f"l:{label}" for label in said)) if said else Q(pk__in=[])
        for word in {"none", "any"} & set(value):
            wanted |= Q(reviewed=word == "any")
        return queryset.filter(wanted)

    def by_ruleset(self, queryset: QuerySet[ListRow], name: str, value: str) -> QuerySet[ListRow]:
        """Rows whose verdict was made by a ruleset of that digest."""
        known = RulesetVersion.objects.values_list("digest", flat=True)
        digests = self._meant(name, value, lambda start: list(known.filter(digest__startswith=start)[:100]))
        return queryset.filter(ruleset__in=digests)

    def by_text(self, queryset: QuerySet[ListRow], name: str, value: str) -> QuerySet[ListRow]:
        """Rows in which every word occurs somewhere."""
        return with_words(queryset, value)


@cache
def _form_class() -> type[forms.Form]:
    # Of copies: filters that have a field would be copied with it at every visit.
    fields = {name: one.field for name, one in deepcopy(VerdictFilter.base_filters).items()}
    return type("VerdictForm", (VerdictQuery,), fields)


RUNS = Q(state=State.RUNNING.value)


def _between(after: datetime | None, before: datetime | None) -> Q:
    inside = Q()
    if after is not None:
        inside &= Q(happened_at__gte=after)
    return inside & Q(happened_at__lt=before) if before is not None else inside
