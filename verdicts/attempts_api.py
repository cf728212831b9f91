"""The REST API of attempts and their evidence: observations and collector reports."""

from typing import Any
from uuid import UUID

import msgspec
from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import (
    ValidationError,
)
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from rules.attempt import Attempt as GivenAttempt
from rules.attempt import CollectorReport as GivenReport
from rules.attempt import InputError
from rules.observation import Observation as GivenObservation
from verdicts import limits, reading, record
from verdicts import serializers as shapes
from verdicts.api import Conflict, KnownFilters, List, attempt_of
from verdicts.choices import Origin
from verdicts.evidence import effective_reports
from verdicts.expired import EvidenceExpired, as_data
from verdicts.given import (
    BoundedJSON,
    JSONLines,
    converted,
    converted_list,
    only,
    refused,
)
from verdicts.keeping import Kept
from verdicts.listing.attempt_filter import AttemptFilter
from verdicts.logs.find import LineFilter, in_order
from verdicts.models import (
    Attempt,
    Observation,
)
from verdicts.permissions import ReadOnly, ReadOrIngest
from verdicts.schema import ATTEMPT, OBSERVATIONS, REPORTS

KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="Names the batch: sent again, it changes nothing.",
)


class Attempts(List):
    """Attempts: list them, or send one."""

    permission_classes = [ReadOrIngest]
    parser_classes = [BoundedJSON]
    serializer_class = shapes.AttemptSerializer
    filter_backends = [KnownFilters]
    filterset_class = AttemptFilter
    queryset = Attempt.objects.for_list().exclude(origin=Origin.DRILL.value)

    @extend_schema(
        request={"application/json": ATTEMPT},
        responses={
            200: shapes.AttemptDetailSerializer,
            201: shapes.AttemptDetailSerializer,
        },
        description="Send an attempt (the content of attempt.json). The attempt with the same cluster, scheduler, "
        "job id, submit time and restart count is returned if it is there; fields that are set replace what was known.",
    )
    def post(self, request: Request) -> Response:
        given = converted(request.data, GivenAttempt)
        try:
            attempt, created = record.record_attempt(given)
        except InputError as error:
            raise refused(error) from error
        attempt = Attempt.objects.for_list().get(pk=attempt.pk)
        return Response(
            shapes.AttemptDetailSerializer(attempt).data,
            status=status.HTTP_201_CREATED if created else status.HTTP_200_OK,
        )


class AttemptDetail(generics.RetrieveAPIView[Any]):
    """One attempt."""

    permission_classes = [ReadOnly]
    serializer_class = shapes.AttemptDetailSerializer
    queryset = Attempt.objects.for_list()


class Observations(List):
    """The observations of an attempt: list them, or send a batch."""

    permission_classes = [ReadOrIngest]
    parser_classes = [BoundedJSON, JSONLines]
    serializer_class = shapes.ObservationSerializer
    filter_backends = [KnownFilters]
    filterset_class = LineFilter
    queryset = Observation.objects.none()

    def get_queryset(self) -> QuerySet[Observation]:
        attempt = attempt_of(self.kwargs["pk"])
        reading.note(self.request.user, attempt.pk, via="api")
        return attempt.observations.all()

    def get_paginated_response(self, data: Any) -> Response:
        response = super().get_paginated_response(data)
        # An empty list of lines that were there and expired is not one of lines that never were.
        response.data["expired"] = [one for one in as_data(attempt_of(self.kwargs["pk"])) if one["kept"] == Kept.LINES]
        return response

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return in_order(super().filter_queryset(queryset), self.request.query_params.get("order") or "arrival")

    @extend_schema(
        request={
            "application/json": OBSERVATIONS,
            "application/x-ndjson": OpenApiTypes.STR,
        },
        responses={200: shapes.DeliverySerializer, 201: shapes.DeliverySerializer},
        parameters=[KEY],
        description=f"Send up to {limits.MAX_BATCH} observations, in any order. A record that is there already "
        "changes nothing.",
    )
    def post(self, request: Request, pk: UUID) -> Response:
        data = only(request.data, "observations", "key")
        key = request.headers.get("Idempotency-Key") or data.get("key") or ""
        if not isinstance(key, str) or len(key) > record.SHORT:
            raise ValidationError({"key": [f"A text of at most {record.SHORT} characters."]})
        observations = converted_list(data, "observations", GivenObservation)
        attempt_of(pk)
        try:
            delivery = record.add_observations(pk, observations, key=key)
        except (record.BatchConflict, EvidenceExpired) as error:
            raise Conflict(str(error)) from error
        return Response(
            shapes.DeliverySerializer(delivery).data,
            status=status.HTTP_200_OK if delivery.replayed else status.HTTP_201_CREATED,
        )


class Reports(APIView):
    """The collector reports of an attempt, with what the store knows of delivery."""

    permission_classes = [ReadOrIngest]
    parser_classes = [BoundedJSON]

    @extend_schema(responses={(200, "application/json"): REPORTS})
    def get(self, request: Request, pk: UUID) -> Response:
        reports = [msgspec.to_builtins(report) for report in effective_reports(attempt_of(pk))]
        return Response({"reports": reports})

    @extend_schema(
        request={"application/json": REPORTS},
        responses={(200, "application/json"): REPORTS},
        description="Send collector reports. A later report of a collector for a source replaces its earlier one.",
    )
    def post(self, request: Request, pk: UUID) -> Response:
        reports = converted_list(only(request.data, "reports"), "reports", GivenReport)
        attempt_of(pk)
        try:
            record.record_reports(pk, reports)
        except EvidenceExpired as error:
            raise Conflict(str(error)) from error
        except InputError as error:
            raise refused(error) from error
        return self.get(request, pk)
