"""Drills over the API: what the pages show and do, with the same parameters and permissions."""

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import generics, serializers, status
from rest_framework.exceptions import APIException, PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from recovery import permissions
from recovery.drill import find, pages, record
from recovery.drill.form import DrillForm
from recovery.drill.tasks import NAME
from recovery.models import Drill, DrillCheck
from recovery.permissions import ReadOr
from verdicts.fleet.api import understood
from verdicts.given import user_of
from verdicts.listing.api_paging import Pages
from verdicts.models import Attempt
from verdicts.permissions import ReadOnly
from verdicts.record import NotPermitted
from verdicts.waking import wake_task

_FILTERS = [
    *(
        OpenApiParameter(name, str, enum=[word for word, _ in words], many=True)
        for name, words in DrillForm.sets.items()
    ),
    OpenApiParameter("attempt", str, description="The id of an attempt, or its job's."),
    OpenApiParameter("after", OpenApiTypes.DATETIME, description="Asked for then or later."),
    OpenApiParameter("before", OpenApiTypes.DATETIME, description="Asked for before."),
]


class OneAtATime(APIException):
    """A drill is asked for or going on already."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "drill_going_on"


class DrillSerializer(serializers.ModelSerializer[Drill]):
    """A drill. `passed` is a state of its own: what could not be checked is not passed."""

    class Meta:
        model = Drill
        fields = [
            *("id", "state", "made_up", "attempt", "job_id", "via", "asked_at", "started_at", "finished_at"),
            *("address", "host", "facts", "report_sha256"),
        ]


class CheckSerializer(serializers.ModelSerializer[DrillCheck]):
    """One thing that was looked at: what was asked, what was seen, and whether that is as it should be."""

    class Meta:
        model = DrillCheck
        fields = ["place", "name", "asked", "outcome", "seen", "facts", "at", "seconds"]


class DrillDetailSerializer(DrillSerializer):
    """A drill with its checks."""

    checks = CheckSerializer(many=True)

    class Meta(DrillSerializer.Meta):
        fields = [*DrillSerializer.Meta.fields, "checks"]


class AskSerializer(serializers.Serializer[Any]):
    """A drill that is asked for: over an attempt that it makes up, or over one of the site's."""

    attempt = serializers.UUIDField(required=False, allow_null=True, default=None)


class StandingSerializer(serializers.Serializer[Any]):
    """How drills stand. `overdue` says since when one should have passed that did not."""

    last = DrillSerializer(allow_null=True)
    passed = DrillSerializer(allow_null=True)
    overdue = serializers.DateTimeField(allow_null=True)
    wants_somebody = serializers.BooleanField()


class Drills(generics.ListAPIView[Drill]):
    """The drills, the newest first; or ask for one."""

    permission_classes = [ReadOr]
    write_permission = permissions.RUN_DRILL
    serializer_class = DrillSerializer
    pagination_class = Pages
    filter_backends: list[Any] = []
    queryset = Drill.objects.none()

    def get_queryset(self) -> Any:
        form = DrillForm(self.request.query_params)
        understood(form)
        return form.rows()

    @extend_schema(operation_id="drills_list", parameters=_FILTERS)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(operation_id="drills_create", request=AskSerializer, responses={202: DrillSerializer})
    def post(self, request: Request) -> Response:
        """Ask for a drill; a worker carries it out."""
        said = AskSerializer(data=request.data)
        said.is_valid(raise_exception=True)
        try:
            drill = record.ask(via="api", by=user_of(request), attempt=said.validated_data["attempt"])
        except Attempt.DoesNotExist as error:
            raise ValidationError({"attempt": ["There is none with that id."]}) from error
        except NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        except record.NotNow as error:
            raise OneAtATime(str(error)) from error
        wake_task(NAME, queue=None)
        drill.refresh_from_db()
        return Response(DrillSerializer(drill).data, status=status.HTTP_202_ACCEPTED)


class DrillDetail(generics.RetrieveAPIView[Drill]):
    """One drill with its checks."""

    permission_classes = [ReadOnly]
    serializer_class = DrillDetailSerializer
    queryset = Drill.objects.prefetch_related("checks")


class DrillStanding(APIView):
    """How drills stand."""

    permission_classes = [ReadOnly]

    @extend_schema(operation_id="drills_standing", responses={200: StandingSerializer})
    def get(self, request: Request) -> Response:
        return Response(StandingSerializer(find.standing()).data)


class DrillReport(APIView):
    """The report of a drill that ended as the ledger has its digest: canonical JSON, or text."""

    permission_classes = [ReadOnly]

    @extend_schema(
        operation_id="drills_report",
        responses={(200, "application/json"): OpenApiResponse(OpenApiTypes.BINARY)},
        parameters=[OpenApiParameter("form", str, OpenApiParameter.PATH, enum=["json", "txt"])],
    )
    def get(self, request: Request, pk: UUID, form: str) -> Any:
        return pages.reported(get_object_or_404(Drill, pk=pk), form)
