"""The pages of the fleet: nodes, their GPUs, what nodes share, and attempts compared by what they have in common."""

from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from verdicts import permissions
from verdicts.fleet import elements as fleet_elements
from verdicts.fleet import figures, find
from verdicts.fleet.elements import Element
from verdicts.fleet.forms import BlamedForm, ComparisonForm, NodesForm, SpanForm, TopologyForm
from verdicts.guard import Request, part_wanted, permitted
from verdicts.listing.paging import PAGE_SIZE, page_of
from verdicts.models import Cluster, Node

NODES_A_PAGE = 50
MOST_REVIEWS = 10
MOST_LATEST = 10
MOST_ELEMENTS = 200


@require_safe
@permitted(permissions.may_read)
def nodes(request: Request) -> HttpResponse:
    """The nodes that verdicts blame, filtered, sorted and paged by what the address says; and for what."""
    form = NodesForm(request.GET)
    rows = form.rows()
    page = Paginator(rows, NODES_A_PAGE).get_page(request.GET.get("page"))
    shown = list(page.object_list)
    find.identified(shown)
    top = sorted((row for row in rows if row.failures), key=lambda row: -row.failures)[: figures.MOST_ROWS]
    find.symptoms_of([*shown, *top], form.span, **form.narrowed)
    context: dict[str, Any] = {
        "section": "fleet",
        "tab": "nodes",
        "form": form,
        "page": page,
        "rows": shown,
        "part": part_wanted(request, "results"),
        "nothing_stored": not rows and not Node.objects.exists(),
    }
    heat = figures.nodes_by_symptom(top)
    context |= {"heat": heat, "figure": figures.heat_map(heat, form.span)}
    return render(request, "fleet/nodes.html#results" if context["part"] else "fleet/nodes.html", context)


@require_safe
@permitted(permissions.may_read)
def node(request: Request, node_id: UUID) -> HttpResponse:
    """One node: what it was blamed for, what was found on it, what came again, and what people said of it."""
    found = get_object_or_404(Node.objects.select_related("cluster"), pk=node_id)
    form = SpanForm(request.GET)
    rows = find.history_of(found)
    if len(rows) == find.MOST_HISTORY:
        form.count_since(rows[-1].happened_at)
    span = form.span
    within = [row for row in rows if span.after <= row.happened_at < span.before]
    by_week = figures.symptoms_by_week(within, span)
    page = page_of(find.rows_of(found), request.GET.get("page"))
    context = {
        "section": "fleet",
        "tab": "nodes",
        "node": found,
        "form": form,
        "page": page,
        "rows": with_headlines(list(page)),
        "failures": len(rows),
        "more": len(rows) == find.MOST_HISTORY,
        "within": len(within),
        "again": [one for one in find.again(rows) if one.times > 1],
        "since": find.since(found, rows[0].happened_at) if rows else None,
        "last": rows[0].happened_at if rows else None,
        "findings": find.findings_on(found, span),
        "gpus": find.gpus_of(found, span),
        "links": find.links_of(rows[:PAGE_SIZE], found),
        "reviews": find.reviews_of(found, MOST_REVIEWS),
        "latest": find.latest_on(found, MOST_LATEST),
        "elements": [one for one in fleet_elements.described(cluster=found.cluster.name) if found.name in one.nodes],
        "weeks": figures.weeks_of(span),
        "by_week": by_week,
        "figure": figures.node_over_time(found, by_week, span),
    }
    return render(request, "fleet/node.html", context)


@require_safe
@permitted(permissions.may_read)
def gpu(request: Request, node_id: UUID) -> HttpResponse:
    """One GPU of a node by the name that logs give it; without a name, the GPUs that were named."""
    found = get_object_or_404(Node.objects.select_related("cluster"), pk=node_id)
    form = SpanForm(_without(request, "gpu"))
    name = request.GET.get("gpu", "").replace("\0", "")
    gpus = find.gpus_of(found, form.span)
    context = {
        "section": "fleet",
        "tab": "nodes",
        "node": found,
        "gpu": name,
        "gpus": gpus,
        "this": next((one for one in gpus if one["gpu"] == name), None),
        "form": form,
        "findings": find.findings_on(found, form.span, gpu=name) if name else [],
        "again": find.again_on_gpu(found, name) if name else [],
        "rows": with_headlines(find.rows_with_gpu(found, name, PAGE_SIZE)) if name else [],
        "carry": {"gpu": name},
    }
    return render(request, "fleet/gpu.html", context)


@require_safe
@permitted(permissions.may_read)
def topology(request: Request) -> HttpResponse:
    """What nodes share, with what was blamed of it and of them."""
    form = TopologyForm(request.GET)
    elements: list[Element] = []
    if not form.errors:
        kind = form.value("kind")
        described = fleet_elements.described(cluster=form.cluster, kind=kind)
        blamed = find.blamed(form.span, cluster=form.cluster)
        elements = fleet_elements.with_blame(described, form.span, blamed, cluster=form.cluster)
        elements = [one for one in elements if not kind or one.kind == kind]
    context = {
        "section": "fleet",
        "tab": "topology",
        "form": form,
        "elements": elements[:MOST_ELEMENTS],
        "more": len(elements) - MOST_ELEMENTS,
        "most_described": fleet_elements.MOST_DESCRIBED,
    }
    return render(request, "fleet/topology.html", context)


@require_safe
@permitted(permissions.may_read)
def element(request: Request, kind: str, element: str) -> HttpResponse:
    """One switch, rack, image, …: the verdicts that hold it to be the cause, and its nodes."""
    form = BlamedForm(request.GET)
    elements = fleet_elements.described(cluster=form.cluster, kind=kind, name=element)
    blamed = find.blamed(form.span, cluster=form.cluster)
    found = [
        one
        for one in fleet_elements.with_blame(elements, form.span, blamed, cluster=form.cluster)
        if (one.kind, one.name) == (kind, element)
    ]
    page = page_of(fleet_elements.rows_of(kind, element, form.cluster), request.GET.get("page"))
    ids = find.ids_of({node for one in found for node in one.nodes})
    context = {
        "section": "fleet",
        "tab": "topology",
        "kind": kind,
        "name": element,
        "form": form,
        "found": [
            (one, [(node, number, ids.get((one.cluster, node))) for node, number in one.listed]) for one in found
        ],
        "page": page,
        "rows": with_headlines(list(page)),
    }
    return render(request, "fleet/element.html", context, status=200 if found or page.paginator.count else 404)


@require_safe
@permitted(permissions.may_read)
def comparison(request: Request) -> HttpResponse:
    """How often attempts failed, by image, partition or another thing they have in common."""
    form = ComparisonForm(request.GET)
    context = {
        "section": "fleet",
        "tab": "comparison",
        "form": form,
        "by": fleet_elements.COMPARED[form.by][0] if not form.errors else "",
        "rows": [] if form.errors else fleet_elements.compared(form.by, form.span, cluster=form.cluster),
        "most": fleet_elements.MOST_COMPARED,
        "nothing_stored": not Cluster.objects.exists(),
        "now": timezone.now(),
    }
    return render(request, "fleet/comparison.html", context)


def with_headlines(rows: list[Any]) -> list[tuple[Any, Any]]:
    """Rows with their verdicts, whose headlines the table shows."""
    verdicts = find.verdicts_of(rows)
    return [(row, verdicts[row.verdict_id]) for row in rows if row.verdict_id in verdicts]


def _without(request: Request, name: str) -> Any:
    query = request.GET.copy()
    query.pop(name, None)
    return query
