"""The log viewer: an attempt's stored lines, with what the verdict found in them."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from rules.words import Source
from verdicts import permissions, reading, wording
from verdicts.expired import tombstones_of
from verdicts.guard import Request, permitted
from verdicts.keeping import Kept
from verdicts.listing.filter_form import given
from verdicts.logs import find
from verdicts.models import Attempt, Observation, Verdict
from verdicts.verdict_page import presentation

PAGE = 100
MOST_COUNTED = 10_000
#: Names offered while typing a node.
MOST_NAMES = 500
#: Ranks without a line that are worth naming.
MOST_SILENT = 16
#: Parameters that choose a place in the list and filter nothing.
PLACES = ("line", "ref", "after", "before")
_LABELS = {"source": "Source", "node": "Node", "rank": "Rank", "file": "File", "text": "Text", "order": "Order"}


@require_safe
@permitted(permissions.may_read)
def log(request: Request, attempt_id: UUID) -> HttpResponse:
    """The lines that the address asks for: filtered, around one, or the next page."""
    attempt = get_object_or_404(Attempt.objects.select_related("workload"), pk=attempt_id)
    query = given(request.GET)
    every = attempt.observations.all()
    asked = {name: _line(every, name, query) for name in PLACES}
    if query.get("ref") and (found := asked["ref"]) is not None:
        return redirect(_address(attempt, {"line": str(found.pk)}) + f"#L{found.pk}")
    wanted = query.copy()
    for name in PLACES:
        wanted.pop(name, None)
    form = find.LineFilter(wanted, queryset=every)
    errors = _errors(form, wanted)
    order = query.get("order") if query.get("order") in find.ORDERS else "stream"
    matching = every.none() if errors else form.qs
    cut = _cut(matching, str(order), asked)
    standing = Verdict.objects.current().filter(attempt=attempt).only("id", "number", "body").first()
    kept = {name: query.getlist(name) for name in _LABELS if query.get(name)}
    at = asked["line"]
    context: dict[str, Any] = {
        "section": "verdicts",
        "attempt": attempt,
        "verdict": standing,
        "tombstones": [stone for stone in tombstones_of(attempt) if stone.kept == Kept.LINES],
        "rows": _marked(find.rows(cut, str(order)), standing),
        "order": order,
        "at": at,
        "not_there": bool(query.get("line") or query.get("ref")) and at is None,
        "errors": errors,
        "filtered": any(kept.get(name) for name in ("source", "node", "rank", "file", "text")),
        "text": query.get("text", ""),
        "count": matching.order_by()[: MOST_COUNTED + 1].count(),
        "most": MOST_COUNTED,
        "sources": _sources(every, query.getlist("source")),
        "node": query.get("node", ""),
        "rank": query.get("rank", ""),
        "file": query.get("file", ""),
        "silent": _silent(every, attempt),
        "names": list(attempt.body.get("nodes") or [])[:MOST_NAMES],
        "earlier": _address(attempt, kept | {"before": str(cut.lines[0].pk)}) if cut.earlier and cut.lines else "",
        "later": _address(attempt, kept | {"after": str(cut.lines[-1].pk)}) if cut.later and cut.lines else "",
        "other_order": _address(attempt, kept | {"order": "stream" if order == "time" else "time"} | _at(at)),
        "cleared": _address(attempt, {"order": order} if order != "stream" else {}),
        "here": _address(attempt, {"order": order} if order != "stream" else {}),
    }
    reading.note(request.user, attempt.pk, via="console")
    return render(request, "verdicts/log.html", context)


def _line(lines: QuerySet[Observation], name: str, query: QueryDict) -> Observation | None:
    """The line that a parameter names; None for none, and for one that is not there."""
    value = str(query.get(name) or "")
    if not value:
        return None
    if name == "ref":
        return lines.filter(ref=value).order_by("id").first() if "\0" not in value else None
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        return None
    return lines.filter(pk=int(value)).first()


def _cut(lines: QuerySet[Observation], order: str, asked: dict[str, Observation | None]) -> find.Cut:
    if (at := asked["line"]) is not None:
        return find.cut_around(lines, order, at)
    if (before := asked["before"]) is not None:
        return find.cut_before(lines, order, before, PAGE)
    return find.cut_after(lines, order, asked["after"], PAGE)


def _errors(form: find.LineFilter, query: QueryDict) -> list[str]:
    """What in the address cannot be understood: such a list must not look like an answer."""
    said = [f"{_LABELS.get(name, name)}: {text}" for name, texts in form.errors.items() for text in texts]
    unknown = sorted(set(query) - set(form.filters))
    return said + [f"There is no filter called “{name}”." for name in unknown]


def _sources(lines: QuerySet[Observation], chosen: list[str]) -> list[tuple[str, str, int, bool]]:
    """The sources that have lines: word, name, lines, whether chosen."""
    held = dict(lines.order_by().values_list("source").annotate(number=Count("id")))
    return [
        (word.value, wording.SOURCES[word], held.get(word.value, 0), word.value in chosen)
        for word in Source
        if held.get(word.value) or word.value in chosen
    ]


def _silent(lines: QuerySet[Observation], attempt: Attempt) -> list[int]:
    """The few ranks without a line where most have one: the one that says nothing is often the one that stopped."""
    known = {int(rank) for rank in attempt.body.get("ranks") or {}}
    if not known:
        return []
    silent = known - set(lines.filter(rank__isnull=False).order_by().values_list("rank", flat=True).distinct())
    return sorted(silent) if len(silent) <= MOST_SILENT and len(silent) * 4 < len(known) else []


def _marked(rows: Iterable[find.Row], standing: Verdict | None) -> list[tuple[find.Row, Any]]:
    """Each row with the findings of the standing verdict that rest on its line."""
    found = presentation.findings_by_ref(standing.body if standing else {})
    return [(row, found.get(row.line.ref, ())) for row in rows]


def _at(line: Observation | None) -> dict[str, str]:
    return {"line": str(line.pk)} if line is not None else {}


def _address(attempt: Attempt, parameters: dict[str, Any]) -> str:
    path = reverse("verdicts:log", args=[attempt.pk])
    return f"{path}?{urlencode(parameters, doseq=True)}" if parameters else path
