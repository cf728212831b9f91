"""Policies, their modes and records, and what was found afterwards, over the API: what the pages show and do."""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from recovery import permissions
from recovery.models import Policy, Promotion, Proposal, Scope
from recovery.permissions import ReadOr
from recovery.policies import find, labels, record, trial
from recovery.policies import serializers as shapes
from recovery.policies.forms import LabelsForm, ScopesForm
from recovery.policies.meter import Labelled
from recovery.words import CaseLabel, LabelBasis, Outcome, PolicyMode
from verdicts.api import Conflict
from verdicts.fleet.api import understood
from verdicts.given import checked, refused, user_of
from verdicts.listing.api_paging import Pages
from verdicts.permissions import ReadOnly
from verdicts.storable import storable_text

T = TypeVar("T")
FILTERS = [OpenApiParameter(name, str) for name in ("cluster", "policy", "node")]


def _done(call: Callable[[], T]) -> T:
    """What a writer returns, or its error as the API's."""
    try:
        return call()
    except ObjectDoesNotExist as error:
        raise NotFound from error
    except PermissionError as error:
        raise PermissionDenied(str(error)) from error
    except (record.NotPromotable, record.Changed) as error:
        raise Conflict(str(error)) from error
    except ValueError as error:
        raise refused(error) from error


def _policy(name: str) -> Policy:
    return get_object_or_404(find.policies(), name=name)


class Policies(generics.ListAPIView[Policy]):
    """Policies: list them, or write one. It observes until it is promoted."""

    permission_classes = [ReadOr]
    write_permission = permissions.WRITE_POLICY
    pagination_class = Pages
    filter_backends: list[Any] = []
    serializer_class = shapes.PolicySerializer

    def get_queryset(self) -> QuerySet[Policy]:
        return find.policies()

    @extend_schema(request=shapes.CreateSerializer, responses={201: shapes.PolicySerializer})
    def post(self, request: Request) -> Response:
        said = checked(shapes.CreateSerializer(data=request.data))
        made = _done(lambda: record.create(said["name"], said["body"], by=user_of(request), reason=said["reason"]))
        return Response(shapes.PolicySerializer(_policy(made.name)).data, status=status.HTTP_201_CREATED)


class PolicyDetail(APIView):
    """One policy with its versions: read it, or write a new version."""

    permission_classes = [ReadOr]
    write_permission = permissions.WRITE_POLICY

    @extend_schema(responses={200: shapes.PolicySerializer})
    def get(self, request: Request, name: str) -> Response:
        return Response(shapes.PolicySerializer(_policy(name)).data)

    @extend_schema(request=shapes.ChangeSerializer, responses={200: shapes.ChangedSerializer})
    def put(self, request: Request, name: str) -> Response:
        said = checked(shapes.ChangeSerializer(data=request.data))
        policy = _policy(name)
        before = find.present(policy)
        version = _done(
            lambda: record.change(
                policy.pk, said["body"], by=user_of(request), reason=said["reason"], seen=said["seen"]
            )
        )
        return Response(shapes.changed(before, version))


class RetirePolicy(APIView):
    """End a policy: it proposes nothing more."""

    permission_classes = [ReadOr]
    write_permission = permissions.WRITE_POLICY

    @extend_schema(request=shapes.PolicyReasonSerializer, responses={200: shapes.PolicySerializer})
    def post(self, request: Request, name: str) -> Response:
        said = checked(shapes.PolicyReasonSerializer(data=request.data))
        policy = _policy(name)
        _done(lambda: record.retire(policy.pk, by=user_of(request), reason=said["reason"]))
        return Response(shapes.PolicySerializer(_policy(name)).data)


class TryPolicy(APIView):
    """What a policy would have done over the last days, against what was done. Nothing is written."""

    permission_classes = [ReadOr]
    write_permission = permissions.WRITE_POLICY

    @extend_schema(request=shapes.TryPolicySerializer, responses={200: shapes.TriedPolicySerializer})
    def post(self, request: Request) -> Response:
        said = checked(shapes.TryPolicySerializer(data=request.data))
        tried = _done(lambda: trial.run(said["body"], days=said["days"], cluster=storable_text(said["cluster"])))
        return Response(shapes.TriedPolicySerializer(tried).data)


class Scopes(generics.ListAPIView[Scope]):
    """What each policy may do with which domain on which cluster, with its record."""

    permission_classes = [ReadOnly]
    pagination_class = Pages
    filter_backends: list[Any] = []
    serializer_class = shapes.ScopeSerializer
    cases: dict[UUID, list[Labelled]] = {}

    def get_queryset(self) -> QuerySet[Scope]:
        form = ScopesForm(self.request.query_params)
        understood(form)
        return form.rows()

    def paginate_queryset(self, queryset: Any) -> list[Any] | None:
        """The scopes of one page, with the cases of all of them."""
        rows = super().paginate_queryset(queryset)
        self.cases = find.cases_by_scope(rows or [])
        return rows

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "user": self.request.user, "cases": self.cases}

    @extend_schema(
        parameters=[
            *[OpenApiParameter(name, str) for name in ScopesForm.texts],
            *[OpenApiParameter(n, str, many=True, enum=[w for w, _ in words]) for n, words in ScopesForm.sets.items()],
        ]
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class Promotions(generics.ListAPIView[Promotion]):
    """Wishes to raise a mode, newest first."""

    permission_classes = [ReadOnly]
    pagination_class = Pages
    filter_backends: list[Any] = []
    serializer_class = shapes.PromotionSerializer

    def get_queryset(self) -> QuerySet[Promotion]:
        rows = Promotion.objects.select_related("scope__policy", "version", "asked_by", "seconded_by")
        return rows.order_by("-asked_at", "id")


class Promote(APIView):
    """Ask for the next mode of a scope: `advisory` is granted at once, `automatic` needs the record and a second."""

    permission_classes = [ReadOr]
    write_permission = permissions.PROMOTE

    @extend_schema(request=shapes.PromoteSerializer, responses={201: shapes.PromotionSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        said = checked(shapes.PromoteSerializer(data=request.data))
        made = _done(
            lambda: record.ask_promotion(pk, PolicyMode(said["to"]), by=user_of(request), reason=said["reason"])
        )
        return Response(shapes.PromotionSerializer(made).data, status=status.HTTP_201_CREATED)


class Demote(APIView):
    """Lower the mode of a scope: one person, at once."""

    permission_classes = [ReadOr]
    write_permission = permissions.DEMOTE

    @extend_schema(request=shapes.PromoteSerializer, responses={200: shapes.ScopeSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        said = checked(shapes.PromoteSerializer(data=request.data))
        _done(lambda: record.demote_by_hand(pk, PolicyMode(said["to"]), by=user_of(request), reason=said["reason"]))
        return Response(shapes.ScopeSerializer(find.scope_row(pk), context={"user": user_of(request)}).data)


class Second(APIView):
    """Agree to a promotion, as the second person."""

    permission_classes = [ReadOr]
    write_permission = permissions.PROMOTE

    @extend_schema(request=None, responses={200: shapes.PromotionSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        return Response(shapes.PromotionSerializer(_done(lambda: record.second(pk, by=user_of(request)))).data)


class Decline(APIView):
    """End a promotion without granting it."""

    permission_classes = [ReadOr]
    write_permission = permissions.PROMOTE

    @extend_schema(request=shapes.PolicyReasonSerializer, responses={200: shapes.PromotionSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        said = checked(shapes.PolicyReasonSerializer(data=request.data))
        done = _done(lambda: record.decline(pk, by=user_of(request), reason=said["reason"]))
        return Response(shapes.PromotionSerializer(done).data)


class Labels(generics.ListAPIView[Proposal]):
    """Cases that must get a label and have none, the most urgent first; or what was drawn for a look afterwards."""

    permission_classes = [ReadOnly]
    pagination_class = Pages
    filter_backends: list[Any] = []
    serializer_class = shapes.AwaitingSerializer

    def get_queryset(self) -> QuerySet[Proposal]:
        form = LabelsForm(self.request.query_params)
        understood(form)
        return form.rows()

    @extend_schema(parameters=[OpenApiParameter("show", str, enum=["awaiting", "sampled"]), *FILTERS])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class GiveLabel(APIView):
    """Say what was found about the diagnosis under a proposal. An approver's agreement is no label."""

    permission_classes = [ReadOr]
    write_permission = permissions.LABEL

    @extend_schema(request=shapes.GiveLabelSerializer, responses={201: shapes.CaseSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        said = checked(shapes.GiveLabelSerializer(data=request.data))
        word, basis = CaseLabel(said["label"]), LabelBasis(said["basis"])
        case = _done(lambda: labels.give(pk, word, basis, by=user_of(request), text=said["text"]))
        return Response(shapes.CaseSerializer(case).data, status=status.HTTP_201_CREATED)


class GiveOutcome(APIView):
    """Say what came of a proposal that is over."""

    permission_classes = [ReadOr]

    @property
    def write_permission(self) -> str:
        """Either of the two that the writer takes."""
        may_label = self.request.user.has_perm(permissions.LABEL)
        return permissions.LABEL if may_label else permissions.DECIDE

    @extend_schema(request=shapes.GiveOutcomeSerializer, responses={200: shapes.ProposalOutcomeSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        said = checked(shapes.GiveOutcomeSerializer(data=request.data))
        row = _done(lambda: labels.give_outcome(pk, Outcome(said["outcome"]), by=user_of(request), text=said["text"]))
        return Response(shapes.ProposalOutcomeSerializer(row).data)
