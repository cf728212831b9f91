"""The fleet over the API: what its pages show, with the same parameters."""

import dataclasses
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.http import QueryDict
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from verdicts.fleet import elements, figures, find
from verdicts.fleet.forms import ComparisonForm, NodesForm, SpanForm, TopologyForm
from verdicts.listing.form import ListForm
from verdicts.models import Node
from verdicts.permissions import ReadOnly

MOST = 500
DAYS = OpenApiParameter("days", int, enum=[7, 30, 90, 365], description="The length of the time; 30 if not said.")
UNTIL = OpenApiParameter("until", OpenApiTypes.DATETIME, description="Its end; now if not said.")
CLUSTER = OpenApiParameter("cluster", str)
ANSWER = {(200, "application/json"): OpenApiTypes.OBJECT}


def understood(form: ListForm) -> None:
    """Refuse an address that is not understood."""
    if form.errors:
        raise ValidationError({name: [error] for name, error in form.errors.items()})


def _query(request: Request) -> QueryDict:
    query = request.query_params
    assert isinstance(query, QueryDict)
    return query


def _time(form: SpanForm) -> dict[str, Any]:
    return {"after": form.span.after, "before": form.span.before}


def as_plain(value: Any) -> Any:
    """A row as JSON has it: times stay for the renderer, lengths of time become seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: as_plain(one) for key, one in value.items()}
    return [as_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


class Nodes(APIView):
    """The nodes that standing verdicts blame, with for what."""

    permission_classes = [ReadOnly]

    @extend_schema(
        operation_id="fleet_nodes_list",
        parameters=[
            DAYS,
            UNTIL,
            CLUSTER,
            OpenApiParameter("text", str, description="Part of the name."),
            OpenApiParameter("domain", str, many=True),
            OpenApiParameter("symptom", str),
            OpenApiParameter("show", str, enum=["blamed", "all"]),
            OpenApiParameter("order", str, enum=["node", "cluster", "failures", "workloads", "last"]),
            OpenApiParameter("limit", int),
            OpenApiParameter("page", int),
        ],
        responses=ANSWER,
    )
    def get(self, request: Request) -> Response:
        form = NodesForm(_query(request))
        understood(form)
        rows = form.rows()
        limit = request.query_params.get("limit", "50")
        if not (limit.isascii() and limit.isdigit() and 1 <= int(limit) <= MOST):
            raise ValidationError({"limit": [f"1 to {MOST}."]})
        page = Paginator(rows, int(limit)).get_page(request.query_params.get("page"))
        shown = list(page.object_list)
        find.identified(shown)
        find.symptoms_of(shown, form.span, **form.narrowed)
        return Response(_time(form) | {"count": len(rows), "page": page.number, "results": as_plain(shown)})


class NodeDetail(APIView):
    """One node: what it was blamed for by week, what came again, what was found on it, its GPUs."""

    permission_classes = [ReadOnly]

    @extend_schema(operation_id="fleet_nodes_retrieve", parameters=[DAYS, UNTIL], responses=ANSWER)
    def get(self, request: Request, node_id: UUID) -> Response:
        node = get_object_or_404(Node.objects.select_related("cluster"), pk=node_id)
        form = SpanForm(_query(request))
        understood(form)
        rows = find.history_of(node)
        if len(rows) == find.MOST_HISTORY:
            form.count_since(rows[-1].happened_at)
        within = [row for row in rows if form.span.after <= row.happened_at < form.span.before]
        told = {
            "id": node.pk,
            "name": node.name,
            "cluster": node.cluster.name,
            "failures": len(rows),
            "failures_within": len(within),
            "since_last": as_plain(find.since(node, rows[0].happened_at)) if rows else None,
            "again": as_plain(find.again(rows)),
            "weeks": figures.weeks_of(form.span),
            "by_week": dict(figures.symptoms_by_week(within, form.span)),
            "findings": find.findings_on(node, form.span),
            "gpus": find.gpus_of(node, form.span),
            "elements": [
                {"kind": one.kind, "name": one.name, "nodes": len(one.nodes)}
                for one in elements.described(cluster=node.cluster.name)
                if node.name in one.nodes
            ],
            "verdicts": [
                {"id": row.verdict_id, "happened_at": row.happened_at, "domain": row.domain, "strength": row.strength}
                for row in rows[:MOST]
            ],
        }
        return Response(_time(form) | told)


class Elements(APIView):
    """What nodes share, with what was blamed of it and of its nodes."""

    permission_classes = [ReadOnly]

    @extend_schema(
        parameters=[
            DAYS,
            UNTIL,
            CLUSTER,
            OpenApiParameter("kind", str, enum=list(elements.KINDS)),
            OpenApiParameter("name", str),
        ],
        responses=ANSWER,
    )
    def get(self, request: Request) -> Response:
        query = _query(request).copy()
        name = str(query.pop("name", [""])[0])
        form = TopologyForm(query)
        understood(form)
        kind = form.value("kind")
        described = elements.described(cluster=form.cluster, kind=kind, name=name)
        blamed = find.blamed(form.span, cluster=form.cluster)
        found = [
            one
            for one in elements.with_blame(described, form.span, blamed, cluster=form.cluster)
            if kind in ("", one.kind) and name in ("", one.name)
        ]
        if name and not found:
            raise NotFound
        return Response(_time(form) | {"count": len(found), "results": as_plain(found[:MOST])})


class Comparison(APIView):
    """How often attempts failed, by what they have in common."""

    permission_classes = [ReadOnly]

    @extend_schema(
        parameters=[DAYS, UNTIL, CLUSTER, OpenApiParameter("by", str, enum=list(elements.COMPARED))],
        responses=ANSWER,
    )
    def get(self, request: Request) -> Response:
        form = ComparisonForm(_query(request))
        understood(form)
        rows = elements.compared(form.by, form.span, cluster=form.cluster)
        return Response(_time(form) | {"by": form.by, "count": len(rows), "results": as_plain(rows)})
