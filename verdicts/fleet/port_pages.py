"""Switches and ports: their pages, and the same over the API."""

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response
from rest_framework.views import APIView

from verdicts import permissions
from verdicts.fleet import elements, figures, find
from verdicts.fleet import ports as fleet_ports
from verdicts.fleet.api import ANSWER, CLUSTER, DAYS, MOST, UNTIL, as_plain, understood
from verdicts.fleet.forms import PortForm, PortsForm
from verdicts.fleet.pages import with_headlines
from verdicts.guard import Request, part_wanted, permitted
from verdicts.listing.paging import page_of
from verdicts.permissions import ReadOnly

PORTS_A_PAGE = 50
MOST_NODES = 20
MOST_REVIEWS = 10
OWNER = OpenApiParameter("owner", str, description="The switch, or the node, that has the ports.")


def _found(form: PortsForm) -> list[fleet_ports.Port]:
    if form.errors:
        return []
    return fleet_ports.ports(form.span, cluster=form.cluster, text=form.value("text"), owner=form.value("owner"))


@require_safe
@permitted(permissions.may_read)
def ports(request: Request) -> HttpResponse:
    """The switches and ports that findings of a time name, those most often held to be the cause first."""
    form = PortsForm(request.GET)
    page = Paginator(_found(form), PORTS_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "section": "fleet",
        "tab": "ports",
        "form": form,
        "page": page,
        "rows": list(page.object_list),
        "part": part_wanted(request, "results"),
    }
    return render(request, "fleet/ports.html#results" if context["part"] else "fleet/ports.html", context)


@require_safe
@permitted(permissions.may_read)
def port(request: Request) -> HttpResponse:
    """One port, or a switch as a whole: what was seen at it, what came again, the verdicts and what people said."""
    form = PortForm(request.GET)
    owner, name = form.value("owner"), form.value("port")
    if not owner or form.errors:
        return redirect("verdicts:ports")
    here = (form.cluster, owner, name)
    seen = fleet_ports.sightings(*here)
    within = [one for one in seen if form.span.after <= one.at < form.span.before]
    by_week = figures.sightings_by_week(within, form.span)
    rows = fleet_ports.rows_of(*here)
    page = page_of(rows, request.GET.get("page"))
    nodes = fleet_ports.nodes_with(rows, MOST_NODES)
    ids = find.ids_of({node for _, node, _ in nodes})
    others = fleet_ports.ports(form.span, cluster=form.cluster, owner=owner)
    context = {
        "section": "fleet",
        "tab": "ports",
        "form": form,
        "carry": {"owner": owner, "port": name},
        "owner": owner,
        "port": name,
        "seen": seen,
        "verdicts": len({one.verdict for one in seen}),
        "blamed": len({one.verdict for one in seen if one.blamed}),
        "findings": fleet_ports.by_symptom(within),
        "again": fleet_ports.again(seen),
        "weeks": figures.weeks_of(form.span),
        "by_week": by_week,
        "figure": figures.port_over_time(by_week, form.span),
        "nodes": [(node, number, ids.get((cluster, node))) for cluster, node, number in nodes],
        "page": page,
        "rows": with_headlines(list(page)),
        "reviews": fleet_ports.reviews_of(*here, MOST_REVIEWS),
        "others": [one for one in others if one.port != name],
        "described": elements.described(cluster=form.cluster, kind="switch", name=owner),
    }
    return render(request, "fleet/port.html", context, status=200 if seen else 404)


class Ports(APIView):
    """The switches and ports that findings of a time name."""

    permission_classes = [ReadOnly]

    @extend_schema(
        operation_id="fleet_ports_list",
        parameters=[
            DAYS,
            UNTIL,
            CLUSTER,
            OWNER,
            OpenApiParameter("text", str, description="Part of the name of the switch, node or port."),
        ],
        responses=ANSWER,
    )
    def get(self, request: ApiRequest) -> Response:
        form = PortsForm(request.query_params)
        understood(form)
        found = _found(form)
        time = {"after": form.span.after, "before": form.span.before}
        return Response(time | {"count": len(found), "results": as_plain(found[:MOST])})


class PortDetail(APIView):
    """One port: what was seen at it by symptom and by week, what came again, its verdicts."""

    permission_classes = [ReadOnly]

    @extend_schema(
        operation_id="fleet_ports_retrieve",
        parameters=[
            DAYS,
            UNTIL,
            CLUSTER,
            OpenApiParameter("owner", str, required=True, description="The switch, or the node, that has it."),
            OpenApiParameter("port", str, description="Its name; without one, the switch as a whole."),
        ],
        responses=ANSWER,
    )
    def get(self, request: ApiRequest) -> Response:
        form = PortForm(request.query_params)
        understood(form)
        if not form.value("owner"):
            raise ValidationError({"owner": ["Say which switch or node."]})
        seen = fleet_ports.sightings(form.cluster, form.value("owner"), form.value("port"))
        if not seen:
            raise NotFound
        within = [one for one in seen if form.span.after <= one.at < form.span.before]
        told: dict[str, Any] = {
            "after": form.span.after,
            "before": form.span.before,
            "owner": form.value("owner"),
            "port": form.value("port"),
            "verdicts": len({one.verdict for one in seen}),
            "findings": as_plain(fleet_ports.by_symptom(within)),
            "again": as_plain(fleet_ports.again(seen)),
            "weeks": figures.weeks_of(form.span),
            "by_week": dict(figures.sightings_by_week(within, form.span)),
            "sightings": as_plain(seen[:MOST]),
        }
        return Response(told)
