"""Progress and anomalies over the API: what workloads post, and what the pages show with the same parameters."""

from typing import Any, cast
from uuid import UUID

import msgspec
from django.db.models import QuerySet
from django.http import QueryDict
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import ScopedRateThrottle
from rest_framework.views import APIView

from recovery import permissions
from recovery.goodput import find as goodput_find
from recovery.models import Anomaly
from recovery.permissions import ReadOr
from recovery.progress import find, record
from recovery.progress import serializers as shapes
from recovery.progress.anomaly_form import AnomaliesForm
from recovery.progress.record import NoSuchAttempt, Sign
from recovery.words import Via
from rules.attempt import InputError
from verdicts.fleet.api import ANSWER, CLUSTER, DAYS, UNTIL, as_plain, understood
from verdicts.fleet.forms import SpanForm
from verdicts.given import BoundedJSON, converted, converted_list, only, refused
from verdicts.listing.api_paging import Pages
from verdicts.models import Attempt
from verdicts.permissions import ReadOnly


class _Named(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The attempt that signs are of: by its id, or by the job's."""

    attempt: UUID | None = None
    cluster: str = ""
    job_id: str = ""
    scheduler: str = ""
    submit_time: str | None = None
    restart_count: int | None = None


_SIGN: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "rank": {"type": "integer", "minimum": 0, "description": "Left out where the sign is the whole job's."},
        "step": {"type": "integer", "minimum": 0},
        "checkpoint_step": {"type": "integer", "minimum": 0},
        "collective": {"type": "integer", "minimum": 0},
        "step_seconds": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "phase": {"type": "string", "maxLength": 64},
        "node": {"type": "string", "maxLength": 255},
        "gpu": {"type": "string", "maxLength": 255},
        "at": {"type": "string", "format": "date-time"},
    },
}
_SIGNS: dict[str, Any] = {
    "type": "object",
    "required": ["signs"],
    "properties": {
        "attempt": {"type": "string", "format": "uuid"},
        "cluster": {"type": "string"},
        "job_id": {"type": "string"},
        "scheduler": {"type": "string"},
        "submit_time": {"type": "string", "format": "date-time"},
        "restart_count": {"type": "integer"},
        "signs": {"type": "array", "items": _SIGN},
    },
}


class Progress(APIView):
    """How far an attempt is: what is known of it, or signs of it."""

    permission_classes = [ReadOr]
    write_permission = permissions.POST_PROGRESS
    parser_classes = [BoundedJSON]
    throttle_classes = [ScopedRateThrottle]
    throttle_scope = "progress"

    @extend_schema(
        parameters=[OpenApiParameter("attempt", OpenApiTypes.UUID, required=True)],
        responses=shapes.AttemptProgressSerializer,
    )
    def get(self, request: Request) -> Response:
        try:
            attempt_id = UUID(request.query_params.get("attempt", ""))
        except ValueError as error:
            raise ValidationError({"attempt": ["The id of an attempt."]}) from error
        get_object_or_404(Attempt.objects.only("pk"), pk=attempt_id)
        return Response(shapes.AttemptProgressSerializer(find.told(attempt_id)).data)

    @extend_schema(
        request={"application/json": _SIGNS},
        responses=shapes.PostedSerializer,
        description="Send signs of progress. The attempt is named by its id, or by cluster and job id: then the newest "
        "attempt of the job that has not ended, or the one with that submit time and restart count. The same signs "
        "sent again change nothing. What a sign leaves out stays unknown.",
    )
    def post(self, request: Request) -> Response:
        names = msgspec.structs.fields(_Named)
        data = only(request.data, *(field.name for field in names), "signs")
        signs = converted_list(data, "signs", Sign)
        named = converted({name: value for name, value in data.items() if name != "signs"}, _Named)
        try:
            attempt_id = _attempt(named)
            done = record.post(attempt_id, signs, Via.POST)
        except InputError as error:
            raise refused(error) from error
        return Response(shapes.PostedSerializer({"attempt": attempt_id, **vars(done)}).data)


def _attempt(named: _Named) -> UUID:
    """The attempt that is meant."""
    if named.attempt is not None:
        return get_object_or_404(Attempt.objects.only("pk"), pk=named.attempt).pk
    if not named.job_id:
        raise ValidationError({"attempt": ["Name the attempt by its id, or by cluster and job_id."]})
    try:
        return record.attempt_of(
            cluster=named.cluster,
            job_id=named.job_id,
            scheduler=named.scheduler,
            submit_time=named.submit_time,
            restart_count=named.restart_count,
        ).pk
    except NoSuchAttempt as error:
        raise NotFound(str(error)) from error


def _query(request: Request) -> QueryDict:
    return cast("QueryDict", request.query_params)


class Anomalies(generics.ListAPIView[Anomaly]):
    """Detected crashes, hangs and stragglers."""

    pagination_class = Pages
    permission_classes = [ReadOnly]
    filter_backends: list[Any] = []
    serializer_class = shapes.AnomalySerializer

    def get_queryset(self) -> QuerySet[Anomaly]:
        form = AnomaliesForm(_query(self.request))
        understood(form)
        return form.rows()

    @extend_schema(
        operation_id="anomalies_list",
        parameters=[
            OpenApiParameter("show", str, enum=[word for word, _ in AnomaliesForm.choices["show"]]),
            OpenApiParameter("kind", str, many=True, enum=[word for word, _ in AnomaliesForm.sets["kind"]]),
            *[OpenApiParameter(name, str) for name in AnomaliesForm.texts],
            *[OpenApiParameter(name, OpenApiTypes.DATETIME) for name in AnomaliesForm.times],
            OpenApiParameter("order", str, enum=[sign + name for name in AnomaliesForm.orders for sign in ("", "-")]),
            CLUSTER,
        ],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class AnomalyDetail(generics.RetrieveAPIView[Anomaly]):
    """One anomaly."""

    permission_classes = [ReadOnly]
    serializer_class = shapes.AnomalySerializer
    queryset = find.anomalies()


class Goodput(APIView):
    """What failures cost, how long recoveries took, and what would have cost less; each with its n and its unknown."""

    permission_classes = [ReadOnly]

    @extend_schema(parameters=[DAYS, UNTIL, CLUSTER], responses=ANSWER)
    def get(self, request: Request) -> Response:
        form = SpanForm(_query(request))
        understood(form)
        found = goodput_find.measured(form.span, form.cluster)
        return Response({"after": form.span.after, "before": form.span.before, **as_plain(found)})
