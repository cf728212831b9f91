"""The REST API: thin views over `find.py`, `record.py` and `conclude.py`."""

from hashlib import sha256
from typing import Any, cast
from uuid import UUID

import msgspec
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.defaults import page_not_found
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import (
    APIException,
    NotFound,
    PermissionDenied,
    ValidationError,
)
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from rules.attempt import Attempt as GivenAttempt
from rules.attempt import CollectorReport as GivenReport
from rules.attempt import InputError
from rules.observation import Observation as GivenObservation
from rules.words import Domain
from verdicts import conclude, limits, reading, record
from verdicts import serializers as shapes
from verdicts.choices import Label, Mode, Origin, RequestState
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
from verdicts.listing.api_paging import Pages
from verdicts.listing.filters import AttemptFilter, unknown_parameters
from verdicts.logs.find import LineFilter, in_order
from verdicts.models import (
    Attempt,
    AttributionRequest,
    Cluster,
    Comment,
    Node,
    Observation,
    Review,
    RulesetVersion,
    Verdict,
)
from verdicts.people import talk
from verdicts.permissions import ReadOnly, ReadOrAttribute, ReadOrComment, ReadOrIngest, ReadOrReview
from verdicts.schema import ATTEMPT, OBSERVATIONS, REPORTS

PAGING = ("limit", "offset", "format")
FAST_WAIT = 5.0
KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="Names the batch: sent again, it changes nothing.",
)


class Conflict(APIException):
    """The request contradicts an earlier one."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"


class KnownFilters(DjangoFilterBackend):
    """Refuses parameters that no filter knows: a misspelt filter must not answer with everything."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: APIView) -> QuerySet[Any]:
        if unknown := unknown_parameters(request.query_params, self.get_filterset_class(view, queryset), PAGING):
            raise ValidationError({name: ["No such filter."] for name in unknown})
        return super().filter_queryset(request, queryset, view)


class _List(generics.ListAPIView[Any]):
    """A list that is cut into pages."""

    pagination_class = Pages
    permission_classes = [ReadOnly]
    filter_backends: list[Any] = []


class Attempts(_List):
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


class Observations(_List):
    """The observations of an attempt: list them, or send a batch."""

    permission_classes = [ReadOrIngest]
    parser_classes = [BoundedJSON, JSONLines]
    serializer_class = shapes.ObservationSerializer
    filter_backends = [KnownFilters]
    filterset_class = LineFilter
    queryset = Observation.objects.none()

    def get_queryset(self) -> QuerySet[Observation]:
        attempt = _attempt(self.kwargs["pk"])
        reading.note(self.request.user, attempt.pk, via="api")
        return attempt.observations.all()

    def get_paginated_response(self, data: Any) -> Response:
        response = super().get_paginated_response(data)
        # An empty list of lines that were there and expired is not one of lines that never were.
        response.data["expired"] = [one for one in as_data(_attempt(self.kwargs["pk"])) if one["kept"] == Kept.LINES]
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
        _attempt(pk)
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
        reports = [msgspec.to_builtins(report) for report in effective_reports(_attempt(pk))]
        return Response({"reports": reports})

    @extend_schema(
        request={"application/json": REPORTS},
        responses={(200, "application/json"): REPORTS},
        description="Send collector reports. A later report of a collector for a source replaces its earlier one.",
    )
    def post(self, request: Request, pk: UUID) -> Response:
        reports = converted_list(only(request.data, "reports"), "reports", GivenReport)
        _attempt(pk)
        try:
            record.record_reports(pk, reports)
        except EvidenceExpired as error:
            raise Conflict(str(error)) from error
        except InputError as error:
            raise refused(error) from error
        return self.get(request, pk)


class Attributions(_List):
    """The attribution requests of an attempt: list them, or ask."""

    permission_classes = [ReadOrAttribute]
    serializer_class = shapes.AttributionSerializer
    queryset = AttributionRequest.objects.none()

    def get_queryset(self) -> QuerySet[AttributionRequest]:
        return _attempt(self.kwargs["pk"]).requests.order_by("-created_at", "id")

    @extend_schema(
        request=shapes.AttributionOrderSerializer,
        responses={
            200: OpenApiResponse(
                shapes.AttributionSerializer,
                description="Answered: `verdict` has the id.",
            ),
            202: OpenApiResponse(shapes.AttributionSerializer, description="Asked for; look again."),
        },
        description="Ask for an attribution. The open request of the same mode is returned if there is one.",
    )
    def post(self, request: Request, pk: UUID) -> Response:
        asked = shapes.AttributionOrderSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        mode = Mode(asked.validated_data["mode"])
        wait = asked.validated_data.get("wait", FAST_WAIT if mode is Mode.FAST else 0.0)
        _attempt(pk)
        try:
            made = conclude.request_attribution(pk, mode, by=cast("User", request.user))
        except EvidenceExpired as error:
            raise Conflict(str(error)) from error
        made = conclude.answer_within(made.pk, wait)
        return Response(
            shapes.AttributionSerializer(made).data,
            status=status.HTTP_202_ACCEPTED
            if made.state in (RequestState.PENDING, RequestState.RUNNING)
            else status.HTTP_200_OK,
        )


class AttributionDetail(generics.RetrieveAPIView[Any]):
    """How far an attribution request is."""

    permission_classes = [ReadOnly]
    serializer_class = shapes.AttributionSerializer
    queryset = AttributionRequest.objects.all()


class StandingVerdict(APIView):
    """The verdict of an attempt that stands."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={200: shapes.VerdictSerializer})
    def get(self, request: Request, pk: UUID) -> Response:
        attempt = _attempt(pk)
        verdict = Verdict.objects.for_detail().current().filter(attempt=attempt).first()
        if verdict is None:
            raise NotFound("This attempt has no verdict yet.", code="no_verdict")
        return Response(shapes.VerdictSerializer(verdict).data)


class VerdictHistory(_List):
    """All verdicts of an attempt, the newest first."""

    serializer_class = shapes.VerdictRowSerializer
    queryset = Verdict.objects.none()

    def get_queryset(self) -> QuerySet[Verdict]:
        return Verdict.objects.for_list().history_of(_attempt(self.kwargs["pk"]).pk)


class VerdictDetail(generics.RetrieveAPIView[Any]):
    """One verdict with its body."""

    permission_classes = [ReadOnly]
    serializer_class = shapes.VerdictSerializer
    queryset = Verdict.objects.for_detail()


class VerdictBody(APIView):
    """The canonical JSON of a verdict, byte for byte: its SHA-256 is `body_sha256`, and the ETag.

    Where its quotations expired, `X-Inquest-Expired` says so and has the hash of what was issued; the ETag is that of
    what is left.
    """

    permission_classes = [ReadOnly]

    @extend_schema(responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def get(self, request: Request, pk: UUID) -> HttpResponse:
        rows = Verdict.objects.select_related("attempt")
        rows = rows.only("body_json", "body_sha256", "attempt__quotes_expired_at")
        verdict = get_object_or_404(rows, pk=pk)
        raw, expired = verdict.body_json.encode(), verdict.attempt.quotes_expired_at
        response = HttpResponse(raw, content_type="application/json")
        response["ETag"] = f'"{sha256(raw).hexdigest() if expired else verdict.body_sha256}"'
        if expired:
            response["X-Inquest-Expired"] = f"quotes; at={expired.isoformat()}; sha256={verdict.body_sha256}"
        response["X-Content-Type-Options"] = "nosniff"
        return response


class Comments(_List):
    """Comments on a verdict: list them, or add one. `@name` in the text tells that person."""

    permission_classes = [ReadOrComment]
    serializer_class = shapes.CommentSerializer
    queryset = Comment.objects.none()

    def get_queryset(self) -> QuerySet[Comment]:
        verdict = get_object_or_404(Verdict.objects.only("pk"), pk=self.kwargs["pk"])
        return talk.comments_on(verdict.pk).prefetch_related("mentions__person")

    @extend_schema(request=shapes.CommentSerializer, responses={201: shapes.CommentSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        text = only(request.data, "text").get("text")
        if not isinstance(text, str):
            raise ValidationError({"text": ["A text."]})
        try:
            comment = talk.add_comment(pk, by=cast("User", request.user), text=text)
        except Verdict.DoesNotExist as error:
            raise NotFound from error
        except InputError as error:
            raise ValidationError({"text": [str(error)]}) from error
        return Response(shapes.CommentSerializer(comment).data, status=status.HTTP_201_CREATED)


class Reviews(_List):
    """Reviews: list them, or record one."""

    permission_classes = [ReadOrReview]
    serializer_class = shapes.ReviewSerializer

    def get_queryset(self) -> QuerySet[Review]:
        reviews = Review.objects.select_related("author").order_by("-created_at", "id")
        verdict = self.request.query_params.get("verdict")
        if verdict is None:
            return reviews
        try:
            return reviews.filter(verdict_id=UUID(verdict))
        except ValueError as error:
            raise ValidationError({"verdict": ["Not an id."]}) from error

    @extend_schema(parameters=[OpenApiParameter("verdict", OpenApiTypes.UUID, description="Reviews of this verdict.")])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(request=shapes.ReviewOrderSerializer, responses={201: shapes.ReviewSerializer})
    def post(self, request: Request) -> Response:
        said = shapes.ReviewOrderSerializer(data=request.data)
        said.is_valid(raise_exception=True)
        data = said.validated_data
        domain = data.get("actual_domain")
        try:
            review = record.record_review(
                data["verdict"],
                by=cast("User", request.user),
                label=Label(data["label"]),
                actual_domain=Domain(domain) if domain else None,
                actual_nodes=data["actual_nodes"],
                note=data["note"],
            )
        except Verdict.DoesNotExist as error:
            raise ValidationError({"verdict": ["No such verdict."]}) from error
        except record.NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        except InputError as error:
            raise refused(error) from error
        return Response(shapes.ReviewSerializer(review).data, status=status.HTTP_201_CREATED)


class Clusters(_List):
    """Clusters."""

    serializer_class = shapes.ClusterSerializer
    queryset = Cluster.objects.order_by("name")


class Nodes(_List):
    """Nodes, with how often a standing verdict names them."""

    serializer_class = shapes.NodeSerializer
    queryset = Node.objects.for_list().own()


class RulesetInForce(APIView):
    """The ruleset that new verdicts are made with."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={200: shapes.RulesetSerializer})
    def get(self, request: Request) -> Response:
        ruleset = conclude.current_ruleset()
        used = RulesetVersion.objects.order_by("-first_used_at")[:50]
        return Response(
            {
                "digest": ruleset.digest,
                "rules": len(ruleset.rules),
                "layers": list(ruleset.layers),
                "used": shapes.RulesetVersionSerializer(used, many=True).data,
            }
        )


def _attempt(pk: UUID) -> Attempt:
    return get_object_or_404(Attempt.objects.select_related("cluster"), pk=pk)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An address that is not there: for the API in the form of its other errors, else a page."""
    if not request.path.startswith("/api/"):
        return page_not_found(request, exception)
    error = {"code": "not_found", "detail": "There is no such address.", "attr": None}
    return JsonResponse({"type": "client_error", "errors": [error]}, status=404)
