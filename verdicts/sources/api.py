"""The API about sources, discoveries and collections."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import generics, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from verdicts import waking
from verdicts.api import Conflict, List
from verdicts.collecting import gather
from verdicts.given import user_of
from verdicts.models import Attempt, Collection, CollectionTask, Discovery
from verdicts.permissions import ReadOnly, ReadOrAttribute
from verdicts.sources import find


class SourceSerializer(serializers.Serializer[Any]):
    """A configured source: whether it answers, and what its last check found."""

    cluster = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]
    health = serializers.CharField()
    blind_since = serializers.DateTimeField(source="row.blind_since", default=None)
    failures = serializers.IntegerField(source="row.failures", default=0)
    left_alone_until = serializers.DateTimeField(source="row.retry_at", default=None)
    answered_at = serializers.DateTimeField(source="row.answered_at", default=None)
    failed_at = serializers.DateTimeField(source="row.failed_at", default=None)
    error = serializers.CharField(source="row.error", default="")
    checked_at = serializers.DateTimeField(source="row.checked_at", default=None)
    check = serializers.DictField(source="row.check_body", default=dict)


class DiscoverySerializer(serializers.ModelSerializer[Discovery]):
    """A look for attempts: when it last succeeded, what it found, what was wrong."""

    cluster = serializers.CharField(source="cluster.name", default="")

    class Meta:
        model = Discovery
        fields = [
            "cluster", "name", "state", "due_at", "started_at", "succeeded_at", "failures", "error", "notes", "found",
        ]  # fmt: skip


class TaskSerializer(serializers.ModelSerializer[CollectionTask]):
    """One source of a round."""

    class Meta:
        model = CollectionTask
        fields = [
            "name", "kind", "source", "state", "status", "reason", "read", "kept", "bytes", "seconds", "tries", "error",
            "again", "finished_at",
        ]  # fmt: skip


class CollectionSerializer(serializers.ModelSerializer[Collection]):
    """A round of collecting an attempt's evidence, with its sources."""

    tasks = TaskSerializer(many=True)

    class Meta:
        model = Collection
        fields = [
            "id", "attempt", "round", "reason", "created_at", "due_at", "started_at", "fast_at", "deadline",
            "finished_at", "tasks",
        ]  # fmt: skip


class Sources(APIView):
    """The configured sources."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={200: SourceSerializer(many=True)})
    def get(self, request: Request) -> Response:
        return Response(SourceSerializer(find.configured_sources(), many=True).data)


class SourceChecks(APIView):
    """A look at all sources, by a worker."""

    permission_classes = [ReadOrAttribute]

    @extend_schema(
        request=None,
        responses={202: OpenApiResponse(description="A worker was woken; GET /sources has what it finds.")},
    )
    def post(self, request: Request) -> Response:
        if not waking.wake_task("verdicts.check_sources", queue=waking.COLLECT_QUEUE):
            raise Conflict("the broker is not reached; run `inquest sources check`")
        return Response({"detail": "asked for"}, status=status.HTTP_202_ACCEPTED)


class Discoveries(List):
    """The looks for attempts."""

    serializer_class = DiscoverySerializer

    def get_queryset(self) -> QuerySet[Discovery]:
        return find.discoveries()


class Collections(APIView):
    """The rounds of an attempt: list them, or ask for one."""

    permission_classes = [ReadOrAttribute]

    @extend_schema(responses={200: CollectionSerializer(many=True)})
    def get(self, request: Request, pk: UUID) -> Response:
        get_object_or_404(Attempt.objects.only("pk"), pk=pk)
        return Response(CollectionSerializer(find.collections_of(pk), many=True).data)

    @extend_schema(request=None, responses={202: CollectionSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        get_object_or_404(Attempt.objects.only("pk"), pk=pk)
        try:
            collection = gather.ask(pk, by=user_of(request))
        except gather.NotConfigured as error:
            raise Conflict(str(error)) from error
        return Response(CollectionSerializer(collection).data, status=status.HTTP_202_ACCEPTED)


class CollectionDetail(generics.RetrieveAPIView[Any]):
    """One round."""

    permission_classes = [ReadOnly]
    serializer_class = CollectionSerializer
    queryset = Collection.objects.prefetch_related("tasks")
