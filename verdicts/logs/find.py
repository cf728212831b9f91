"""Stored lines: what they can be looked for by, and pages of them by key, for the log viewer and the API alike."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import django_filters as filters
from django.db.models import Q, QuerySet

from rules.words import Source
from verdicts.models import Observation

#: Orders, each total: by place in its stream, or by time as far as clocks can be compared.
ORDERS = {
    "stream": ("source", "file", "line", "id"),
    "time": ("clock", "micros", "source", "file", "line", "id"),
    "arrival": ("id",),
}
AFTER = "Id of a line: only those after it in this order. With `limit`, pages that neither overlap nor slow down."
#: Around a line that is pointed at.
LINES_BEFORE, LINES_AFTER = 30, 60


class LineFilter(filters.FilterSet):
    """What the lines of an attempt can be looked for by. `text` is plain text, found in any case."""

    source = filters.MultipleChoiceFilter(
        choices=[(word.value, word.value) for word in Source], help_text="Source; may be repeated."
    )
    node = filters.CharFilter(method="by_node", help_text="Node that it came from, or that it names at its start.")
    rank = filters.NumberFilter(
        method="by_rank",
        min_value=0,
        max_value=10_000_000,
        decimal_places=0,
        help_text="Rank that it came from, or that it names at its start.",
    )
    file = filters.CharFilter(field_name="file", help_text="File or stream: the reference without its line number.")
    ref = filters.CharFilter(field_name="ref", help_text="The whole reference.")
    text = filters.CharFilter(field_name="body", lookup_expr="icontains", strip=False, help_text="Text of the line.")
    order = filters.ChoiceFilter(
        choices=[(name, name) for name in ORDERS],
        method="by_nothing",
        help_text="stream: by source, file and line; time: by clock and time; arrival, the usual one: as they came.",
    )
    after = filters.NumberFilter(method="by_after", min_value=1, decimal_places=0, help_text=AFTER)

    class Meta:
        model = Observation
        fields: list[str] = []

    def by_node(self, queryset: QuerySet[Observation], name: str, value: str) -> QuerySet[Observation]:
        """Lines of a node; one log of many nodes has lines that name theirs at the start."""
        at_start = rf"^.{{0,60}}\m{_literal(value)}\M"
        return queryset.filter(Q(node=value) | Q(node="", body__regex=at_start))

    def by_rank(self, queryset: QuerySet[Observation], name: str, value: Any) -> QuerySet[Observation]:
        """Lines of a rank; one log of many ranks has lines that begin with theirs: `3:`, `[3]:` or `[rank3]:`."""
        at_start = rf"^[ \t]*(\[(rank)?{int(value)}\]|{int(value)}):"
        return queryset.filter(Q(rank=int(value)) | Q(rank__isnull=True, body__regex=at_start))

    def by_after(self, queryset: QuerySet[Observation], name: str, value: Any) -> QuerySet[Observation]:
        """The next page; nothing where the line is not there."""
        line = self.queryset.filter(pk=int(value)).first() if int(value) < 2**63 else None
        order = self.form.cleaned_data.get("order") or "arrival"
        return queryset.filter(beyond(order, line)) if line is not None else queryset.none()

    def by_nothing(self, queryset: QuerySet[Observation], name: str, value: Any) -> QuerySet[Observation]:
        """The order is set by who cuts the pages."""
        return queryset


def _literal(text: str) -> str:
    """A text as a regular expression of PostgreSQL that matches nothing else."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", text)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Some of the lines in their order; whether there are more on either side."""

    lines: list[Observation]
    earlier: bool = False
    later: bool = False


def beyond(order: str, line: Observation, *, back: bool = False) -> Q:
    """The lines that come after one in the order, or before it."""
    step = "lt" if back else "gt"
    found, same = Q(), Q()
    for field in ORDERS[order]:
        found |= same & Q(**{f"{field}__{step}": getattr(line, field)})
        same &= Q(**{field: getattr(line, field)})
    return found


def in_order(lines: QuerySet[Observation], order: str, *, back: bool = False) -> QuerySet[Observation]:
    """The lines sorted, or sorted from the end."""
    return lines.order_by(*(f"-{field}" if back else field for field in ORDERS[order]))


def cut_after(lines: QuerySet[Observation], order: str, line: Observation | None, size: int) -> Cut:
    """The first lines, or those after one."""
    rest = lines if line is None else lines.filter(beyond(order, line))
    found = list(in_order(rest, order)[: size + 1])
    return Cut(lines=found[:size], earlier=line is not None, later=len(found) > size)


def cut_before(lines: QuerySet[Observation], order: str, line: Observation, size: int) -> Cut:
    """The lines before one."""
    found = list(in_order(lines.filter(beyond(order, line, back=True)), order, back=True)[: size + 1])
    return Cut(lines=found[:size][::-1], earlier=len(found) > size, later=True)


def cut_around(lines: QuerySet[Observation], order: str, line: Observation) -> Cut:
    """A line with those around it; it is there even where a filter leaves it out."""
    before = cut_before(lines, order, line, LINES_BEFORE)
    after = cut_after(lines, order, line, LINES_AFTER)
    return Cut(lines=[*before.lines, line, *after.lines], earlier=before.earlier, later=after.later)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line, and what is to be said before it: a new stream, other clocks, lines that are not there."""

    line: Observation
    stream: bool = False
    clock: int | None = None
    gap: int = 0


def rows(cut: Cut, order: str) -> Iterator[Row]:
    """The lines with what lies between them."""
    last: Observation | None = None
    for line in cut.lines:
        if order == "time":
            yield Row(line=line, clock=line.clock if last is None or last.clock != line.clock else None)
        elif last is None or (last.source, last.file) != (line.source, line.file):
            yield Row(line=line, stream=True)
        else:
            # A record of several lines has the number of its first.
            through = last.line + last.body.count("\n")
            yield Row(line=line, gap=max(line.line - through - 1, 0) if last.line and line.line else 0)
        last = line
