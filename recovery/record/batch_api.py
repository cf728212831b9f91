"""Batches of records over the API: ask for one, see how far it is, take it away."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import generics, serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.views import APIView

from recovery.ledger.api import MayExport
from recovery.models import ExportBatch, ExportedRecord
from recovery.record import batch as writing
from recovery.record import batch_find, batch_pages
from rules.attempt import InputError
from verdicts.choices import RequestState
from verdicts.given import user_of
from verdicts.listing.api_paging import Pages
from verdicts.listing.filter_form import LONGEST_QUERY

_ZIP = {(200, "application/zip"): OpenApiResponse(OpenApiTypes.BINARY)}


class AskedSerializer(serializers.Serializer[Any]):
    """What is asked for."""

    filter = serializers.CharField(
        allow_blank=True,
        max_length=LONGEST_QUERY,
        help_text="Filters as in the address of the verdict list: domain=gpu_hardware&after=2026-11-01T00:00:00Z",
    )


class BatchSerializer(serializers.Serializer[Any]):
    """A batch, and how far it is."""

    id = serializers.UUIDField()
    filter = serializers.CharField()
    asked_by = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(choices=["waiting", "running", "stopped", "finished", "removed"])
    total = serializers.IntegerField()
    done = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="Those that could not be made.")
    stopped = serializers.IntegerField(help_text="Those that were stopped before their turn.")
    bytes = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True, help_text="Until when its files are kept.")
    removed_at = serializers.DateTimeField(allow_null=True)
    records_url = serializers.URLField()
    file_url = serializers.URLField(help_text="All records that are written, in one zip.")


class BatchRecordSerializer(serializers.ModelSerializer[ExportedRecord]):
    """One record of a batch. `size` and `sha256` are as it stands in the zip of all, with its rulesets beside it.

    Fetched alone it has them in it.
    """

    file_url = serializers.SerializerMethodField()

    class Meta:
        model = ExportedRecord
        fields = ["place", "attempt", "state", "size", "sha256", "error", "file_url"]

    def get_file_url(self, row: ExportedRecord) -> str | None:
        """Where it can be had; null where it is not written, or removed."""
        if not row.file:
            return None
        address: str = reverse("api-batch-file", args=[row.batch_id, row.attempt_id], request=self.context["request"])
        return address


def _plain(request: Request, found: list[ExportBatch]) -> list[dict[str, Any]]:
    return [
        {
            "id": one.pk,
            "filter": one.query,
            "asked_by": one.asked_by.get_username() if one.asked_by else None,
            "state": how.state,
            "total": how.total,
            "done": how.done,
            "failed": how.failed,
            "stopped": how.stopped,
            "bytes": how.bytes,
            "created_at": one.created_at,
            "finished_at": one.finished_at,
            "expires_at": one.expires_at,
            "removed_at": one.removed_at,
            "records_url": reverse("api-batch-records", args=[one.pk], request=request),
            "file_url": reverse("api-batch-whole", args=[one.pk], request=request),
        }
        for one, how in zip(found, batch_find.progress(found), strict=True)
    ]


def _one(batch_id: UUID) -> ExportBatch:
    found = batch_find.batches().filter(pk=batch_id).first()
    if found is None:
        raise Http404
    return found


class Batches(generics.GenericAPIView[ExportBatch]):
    """The batches, the newest first."""

    permission_classes = [MayExport]
    serializer_class = BatchSerializer
    pagination_class = Pages
    filter_backends: list[Any] = []

    def get_queryset(self) -> QuerySet[ExportBatch]:
        return batch_find.batches()

    @extend_schema(operation_id="record_batches_list", responses=BatchSerializer(many=True))
    def get(self, request: Request) -> Response:
        found = list(self.paginate_queryset(self.get_queryset()) or ())
        return self.get_paginated_response(BatchSerializer(_plain(request, found), many=True).data)

    @extend_schema(operation_id="record_batches_create", request=AskedSerializer, responses={201: BatchSerializer})
    def post(self, request: Request) -> Response:
        said = AskedSerializer(data=request.data)
        said.is_valid(raise_exception=True)
        try:
            made = writing.ask(said.validated_data["filter"], by=user_of(request), via="api")
        except InputError as error:
            raise ValidationError({"filter": [str(error).removeprefix("filter: ")]}) from error
        (told,) = _plain(request, [_one(made.pk)])
        return Response(BatchSerializer(told).data, status=status.HTTP_201_CREATED)


class Batch(APIView):
    """One batch."""

    permission_classes = [MayExport]

    @extend_schema(operation_id="record_batches_retrieve", responses=BatchSerializer)
    def get(self, request: Request, pk: UUID) -> Response:
        (told,) = _plain(request, [_one(pk)])
        return Response(BatchSerializer(told).data)

    @extend_schema(operation_id="record_batches_destroy", responses={204: None})
    def delete(self, request: Request, pk: UUID) -> Response:
        """Remove its files at once."""
        _do(writing.remove, pk, request)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _do(do: Callable[..., Any], pk: UUID, request: Request) -> None:
    try:
        do(pk, by=user_of(request))
    except ExportBatch.DoesNotExist:
        raise Http404 from None
    except InputError as error:
        raise ValidationError({"batch": [str(error)]}) from error


class _Does(APIView):
    permission_classes = [MayExport]
    do: Callable[..., Any]

    def post(self, request: Request, pk: UUID) -> Response:
        _do(type(self).do, pk, request)
        (told,) = _plain(request, [_one(pk)])
        return Response(BatchSerializer(told).data)


@extend_schema(request=None, responses=BatchSerializer)
class StopBatch(_Does):
    """Take back what no worker has begun; what is written stays."""

    do = staticmethod(writing.stop)


@extend_schema(request=None, responses=BatchSerializer)
class BatchAgain(_Does):
    """Go on with what was stopped or failed."""

    do = staticmethod(writing.again)


class BatchRecords(generics.ListAPIView[ExportedRecord]):
    """The records of a batch, in the order of the list that was asked for."""

    permission_classes = [MayExport]
    serializer_class = BatchRecordSerializer
    pagination_class = Pages
    queryset = ExportedRecord.objects.none()
    filter_backends: list[Any] = []

    def get_queryset(self) -> QuerySet[ExportedRecord]:
        rows = ExportedRecord.objects.filter(batch=_one(self.kwargs["pk"])).order_by("place", "pk")
        wanted = self.request.query_params.get("state", "")
        if wanted and wanted not in set(RequestState):
            raise ValidationError({"state": [f"One of {', '.join(RequestState)}."]})
        return rows.filter(state=wanted) if wanted else rows

    @extend_schema(parameters=[OpenApiParameter("state", str, enum=[state.value for state in RequestState])])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class BatchFile(APIView):
    """One record of a batch. That it is taken away is an entry of the ledger."""

    permission_classes = [MayExport]

    @extend_schema(operation_id="record_batches_file", responses=_ZIP)
    def get(self, request: Request, pk: UUID, attempt: UUID) -> Any:
        return batch_pages.record_sent(_one(pk), attempt, by=user_of(request), via="api")


class WholeBatch(APIView):
    """All records of a batch that are written, in one zip that is made while it is sent."""

    permission_classes = [MayExport]

    @extend_schema(operation_id="record_batches_whole", responses=_ZIP)
    def get(self, request: Request, pk: UUID) -> Any:
        return batch_pages.whole_sent(_one(pk), by=user_of(request), via="api")
