"""Proposals and what keeps them from harm over the API: what the pages show and do, with the same parameters."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import NotFound, PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from recovery import brakes, decide, exclusions, find, incidents, machine, permissions, propose
from recovery.models import Brake, Exclusion, Incident, Proposal, Veto
from recovery.permissions import ReadOr
from recovery.review import find as queue_find
from recovery.review import guard_forms
from recovery.review import serializers as shapes
from recovery.review.form import QueueForm
from recovery.review.guard_pages import cluster_of, until, veto_kind
from recovery.review.propose_pages import action_kind
from recovery.words import BrakeKind
from verdicts.api import Conflict
from verdicts.fleet.api import understood
from verdicts.given import checked, refused, user_of
from verdicts.listing.api_paging import Pages
from verdicts.listing.form import ListForm
from verdicts.models import Attempt
from verdicts.permissions import ReadOnly

CLUSTER = OpenApiParameter("cluster", str)


def _many(name: str, form: type[ListForm]) -> OpenApiParameter:
    return OpenApiParameter(name, str, many=True, enum=[word for word, _ in form.sets[name]])


def _one(name: str, words: list[tuple[str, str]]) -> OpenApiParameter:
    return OpenApiParameter(name, str, enum=[word for word, _ in words])


class _Listed(generics.ListAPIView[Any]):
    """A list whose parameters are those of its page."""

    pagination_class = Pages
    permission_classes: Any = [ReadOnly]
    filter_backends: list[Any] = []
    form: type[ListForm]

    def get_queryset(self) -> QuerySet[Any]:
        form = self.form(self.request.query_params)
        understood(form)
        return form.rows()  # type: ignore[attr-defined]


class Proposals(_Listed):
    """Proposals: list them, or propose an action by hand."""

    permission_classes = [ReadOr]
    write_permission = permissions.PROPOSE
    serializer_class = shapes.ProposalRowSerializer
    form = QueueForm

    @extend_schema(
        operation_id="proposals_list",
        parameters=[
            _one("show", QueueForm.choices["show"]),
            *[_many(name, QueueForm) for name in QueueForm.sets],
            *[OpenApiParameter(name, str) for name in QueueForm.texts],
            *[OpenApiParameter(name, OpenApiTypes.DATETIME) for name in QueueForm.times],
            OpenApiParameter("order", str, enum=list(QueueForm.orders)),
            CLUSTER,
        ],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(request=shapes.ProposeSerializer, responses={201: shapes.ProposalSerializer})
    def post(self, request: Request) -> Response:
        said = checked(shapes.ProposeSerializer(data=request.data))
        attempt = Attempt.objects.filter(pk=said["attempt"]).first()
        if attempt is None:
            raise ValidationError({"attempt": ["There is none of this id."]})
        try:
            made = propose.propose_by_hand(
                attempt, action_kind(said["action"]), said.get("nodes", []), by=user_of(request), reason=said["reason"]
            )
        except decide.Guarded as error:
            raise Conflict(str(error)) from error
        except decide.NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        except ValueError as error:
            raise refused(error) from error
        return Response(_detail(made.pk), status=status.HTTP_201_CREATED)


def _detail(proposal_id: UUID) -> dict[str, Any]:
    row = get_object_or_404(
        find.proposals().prefetch_related("decisions__by", "exclusions__cluster", "exclusions__attempt"), pk=proposal_id
    )
    context = {"action": find.actions().filter(proposal=row).first(), "against": queue_find.against(row)}
    return dict(shapes.ProposalSerializer(row, context=context).data)


class ProposalDetail(APIView):
    """One proposal with its frozen plan and what came of it."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={200: shapes.ProposalSerializer})
    def get(self, request: Request, pk: UUID) -> Response:
        return Response(_detail(pk))


class Decide(APIView):
    """Approve, reject, ask for more or withdraw; `seen` is the hash of the plan that was looked at."""

    permission_classes = [ReadOr]
    write_permission = permissions.DECIDE

    @extend_schema(request=shapes.DecideSerializer, responses={200: shapes.ProposalSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        said = checked(shapes.DecideSerializer(data=request.data))
        seen, reason, text = (said.get(name, "") for name in ("seen", "reason", "text"))
        by = user_of(request)
        try:
            match said["decision"]:
                case "approve":
                    decide.approve(pk, by=by, seen=seen, text=text)
                case "reject":
                    decide.reject(pk, by=by, seen=seen, reason=reason, text=text)
                case "ask":
                    decide.ask(pk, by=by, seen=seen, text=text)
                case _:
                    decide.withdraw(pk, by=by, text=text)
        except Proposal.DoesNotExist as error:
            raise Http404 from error
        except (decide.PlanChanged, decide.AlreadyDecided, decide.Guarded, machine.WrongMove) as error:
            raise Conflict(str(error)) from error
        except decide.NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        except ValueError as error:
            raise refused(error) from error
        return Response(_detail(pk))


class Exclusions(_Listed):
    """Nodes that are kept away; by default those that are so now."""

    serializer_class = shapes.ExclusionSerializer
    form = guard_forms.ExclusionsForm


class Lift(APIView):
    """Let a node be used again: nothing stands in the way of it."""

    permission_classes = [ReadOr]
    write_permission = permissions.LIFT

    @extend_schema(request=shapes.ReasonSerializer, responses={200: shapes.ExclusionSerializer})
    def post(self, request: Request, pk: int) -> Response:
        said = checked(shapes.ReasonSerializer(data=request.data))
        try:
            exclusions.lift(pk, by=user_of(request), reason=said["reason"])
        except Exclusion.DoesNotExist as error:
            raise NotFound from error
        except ValueError as error:
            raise Conflict(str(error)) from error
        return Response(shapes.ExclusionSerializer(find.exclusions().get(pk=pk)).data)


class SharedCauses(_Listed):
    """Causes that several failures share; by default the open ones."""

    serializer_class = shapes.IncidentSerializer
    form = guard_forms.IncidentsForm


class CloseSharedCause(APIView):
    """Say that a shared cause is mended."""

    permission_classes = [ReadOr]
    write_permission = permissions.DECIDE

    @extend_schema(request=shapes.ReasonSerializer, responses={200: shapes.IncidentSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        said = checked(shapes.ReasonSerializer(data=request.data))
        try:
            closed = incidents.close(pk, by=user_of(request), reason=said["reason"])
        except Incident.DoesNotExist as error:
            raise NotFound from error
        except ValueError as error:
            raise Conflict(str(error)) from error
        return Response(shapes.IncidentSerializer(closed).data)


class Brakes(generics.ListAPIView[Any]):
    """The brakes that are pulled now; POST pulls a stop."""

    permission_classes = [ReadOr]
    write_permission = permissions.PULL_BRAKE
    pagination_class = Pages
    filter_backends: list[Any] = []
    serializer_class = shapes.BrakeSerializer

    def get_queryset(self) -> QuerySet[Brake]:
        return guard_forms.brakes_pulled()

    @extend_schema(request=shapes.PullSerializer, responses={201: shapes.BrakeSerializer})
    def post(self, request: Request) -> Response:
        said = checked(shapes.PullSerializer(data=request.data))
        try:
            cluster = cluster_of(said["cluster"]) if said.get("cluster") else None
            pulled = brakes.pull(cluster, BrakeKind.STOP, said["reason"], user_of(request))
        except ValueError as error:
            raise refused(error) from error
        return Response(shapes.BrakeSerializer(pulled).data, status=status.HTTP_201_CREATED)


class ReleaseBrake(APIView):
    """Release a brake, with a reason: a pace by whoever may pull one, a stop by fewer."""

    permission_classes = [ReadOr]
    write_permission = permissions.PULL_BRAKE

    @extend_schema(request=shapes.ReasonSerializer, responses={200: shapes.BrakeSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        said = checked(shapes.ReasonSerializer(data=request.data))
        try:
            released = brakes.release(pk, by=user_of(request), reason=said["reason"])
        except Brake.DoesNotExist as error:
            raise NotFound from error
        except brakes.NotPermitted as error:
            raise PermissionDenied(str(error)) from error
        except ValueError as error:
            raise Conflict(str(error)) from error
        return Response(shapes.BrakeSerializer(released).data)


class Vetoes(_Listed):
    """What is left alone, by default what is so now; POST protects something."""

    permission_classes = [ReadOr]
    write_permission = permissions.VETO
    serializer_class = shapes.VetoSerializer
    form = guard_forms.VetoesForm

    @extend_schema(request=shapes.ProtectSerializer, responses={201: shapes.VetoSerializer})
    def post(self, request: Request) -> Response:
        said = checked(shapes.ProtectSerializer(data=request.data))
        try:
            made = brakes.set_veto(
                cluster_of(said["cluster"]),
                veto_kind(said["kind"]),
                said["value"],
                reason=said["reason"],
                by=user_of(request),
                until=until(said.get("hours")),
            )
        except ValueError as error:
            raise refused(error) from error
        return Response(shapes.VetoSerializer(made).data, status=status.HTTP_201_CREATED)


class EndVeto(APIView):
    """Protect something no longer."""

    permission_classes = [ReadOr]
    write_permission = permissions.VETO

    @extend_schema(request=shapes.ReasonSerializer, responses={200: shapes.VetoSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        said = checked(shapes.ReasonSerializer(data=request.data))
        try:
            ended = brakes.end_veto(pk, by=user_of(request), reason=said["reason"])
        except Veto.DoesNotExist as error:
            raise NotFound from error
        except ValueError as error:
            raise Conflict(str(error)) from error
        return Response(shapes.VetoSerializer(ended).data)
