"""The REST API of verdicts: asking for them, reading them, comments and reviews."""

from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import (
    NotFound,
    PermissionDenied,
    ValidationError,
)
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from rules.attempt import InputError
from rules.words import Domain
from verdicts import conclude, record
from verdicts import serializers as shapes
from verdicts.api import Conflict, List, attempt_of
from verdicts.choices import Label, Mode, RequestState
from verdicts.expired import EvidenceExpired
from verdicts.given import checked, only, refused, user_of
from verdicts.models import (
    AttributionRequest,
    Comment,
    Review,
    Verdict,
)
from verdicts.people import talk
from verdicts.permissions import ReadOnly, ReadOrAttribute, ReadOrComment, ReadOrReview

FAST_WAIT = 5.0


class Attributions(List):
    """The attribution requests of an attempt: list them, or ask."""

    permission_classes = [ReadOrAttribute]
    serializer_class = shapes.AttributionSerializer
    queryset = AttributionRequest.objects.none()

    def get_queryset(self) -> QuerySet[AttributionRequest]:
        return attempt_of(self.kwargs["pk"]).requests.order_by("-created_at", "id")

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
        asked = checked(shapes.AttributionOrderSerializer(data=request.data))
        mode = Mode(asked["mode"])
        wait = asked.get("wait", FAST_WAIT if mode is Mode.FAST else 0.0)
        attempt_of(pk)
        try:
            made = conclude.request_attribution(pk, mode, by=user_of(request))
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
        attempt = attempt_of(pk)
        verdict = Verdict.objects.for_detail().current().filter(attempt=attempt).first()
        if verdict is None:
            raise NotFound("This attempt has no verdict yet.", code="no_verdict")
        return Response(shapes.VerdictSerializer(verdict).data)


class VerdictHistory(List):
    """All verdicts of an attempt, the newest first."""

    serializer_class = shapes.VerdictRowSerializer
    queryset = Verdict.objects.none()

    def get_queryset(self) -> QuerySet[Verdict]:
        return Verdict.objects.for_list().history_of(attempt_of(self.kwargs["pk"]).pk)


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


class Comments(List):
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
            comment = talk.add_comment(pk, by=user_of(request), text=text)
        except Verdict.DoesNotExist as error:
            raise NotFound from error
        except InputError as error:
            raise ValidationError({"text": [str(error)]}) from error
        return Response(shapes.CommentSerializer(comment).data, status=status.HTTP_201_CREATED)


class Reviews(List):
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
        data = checked(shapes.ReviewOrderSerializer(data=request.data))
        domain = data.get("actual_domain")
        try:
            review = record.record_review(
                data["verdict"],
                by=user_of(request),
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
