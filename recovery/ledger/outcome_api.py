"""Outcomes over the API: what their page shows, with the same parameters."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from recovery.ledger import outcome_pages, outcomes
from recovery.ledger.outcome_form import OutcomesForm
from recovery.models import Proposal
from verdicts.fleet.api import understood
from verdicts.listing.api_paging import Pages
from verdicts.permissions import ReadOnly

_FILTERS = [
    *(
        OpenApiParameter(name, str, many=True, enum=[word for word, _ in OutcomesForm.sets[name]])
        for name in OutcomesForm.sets
    ),
    OpenApiParameter("planted", str, enum=["no", "only", "all"], description="Planted faults; left out if not said."),
    OpenApiParameter("policy", str, description="Name of a policy, or none."),
    OpenApiParameter("rule", str, description='Id of a rule, or the start of some: "gpu.*".'),
    OpenApiParameter("reviewer", str, description="Who approved or rejected it, or none."),
    OpenApiParameter("cluster", str),
    OpenApiParameter("after", OpenApiTypes.DATETIME, description="Proposed at or after."),
    OpenApiParameter("before", OpenApiTypes.DATETIME, description="Proposed before."),
]
_BY = OpenApiParameter("by", str, enum=list(outcomes.BY), description="What the groups have in common.")


class EndedProposalSerializer(serializers.Serializer[Any]):
    """A proposal that is over, what came of it, and what was found about its diagnosis: two questions."""

    proposal = serializers.UUIDField()
    attempt = serializers.UUIDField()
    cluster = serializers.CharField()
    job_id = serializers.CharField()
    policy = serializers.CharField(allow_null=True)
    policy_version = serializers.IntegerField(allow_null=True)
    rule = serializers.CharField()
    cause = serializers.CharField()
    action = serializers.CharField()
    mode = serializers.CharField()
    state = serializers.CharField()
    nodes = serializers.ListField(child=serializers.CharField())
    outcome = serializers.CharField(allow_null=True, help_text="null where nobody said and nothing was seen.")
    outcome_at = serializers.DateTimeField(allow_null=True)
    outcome_by = serializers.CharField(allow_null=True, help_text="null where it was seen by itself.")
    outcome_why = serializers.CharField()
    diagnosis = serializers.CharField(allow_null=True, help_text="What was found about it afterwards: the label.")
    decided_by = serializers.ListField(child=serializers.CharField())
    planted = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    page = serializers.CharField()


class ShareSerializer(serializers.Serializer[Any]):
    """So many of so many, with the bounds of 95 percent."""

    count = serializers.IntegerField()
    of = serializers.IntegerField()
    share = serializers.FloatField(allow_null=True)
    low = serializers.FloatField()
    high = serializers.FloatField()


class OutcomeGroupSerializer(serializers.Serializer[Any]):
    """Proposals that have something in common."""

    name = serializers.CharField()
    total = serializers.IntegerField()
    outcomes = serializers.DictField(child=serializers.IntegerField())
    labels = serializers.DictField(child=serializers.IntegerField())
    worked = ShareSerializer(help_text="Of those that worked or did not.")
    right = ShareSerializer(help_text="Of those of which the cause was found out afterwards.")
    mistaken = ShareSerializer(help_text="Mistaken explanations among the same; reasonable precautions are none.")
    worked_though_another_cause = serializers.IntegerField(
        help_text="They worked, and the cause was another: success does not make a diagnosis right."
    )


class OutcomeFiguresSerializer(serializers.Serializer[Any]):
    """What came of proposals, by what they have in common."""

    by = serializers.CharField()
    more = serializers.BooleanField(help_text="Whether there are more groups than are told.")
    all = OutcomeGroupSerializer()
    groups = OutcomeGroupSerializer(many=True)


class Outcomes(generics.ListAPIView[Proposal]):
    """Proposals that are over with what came of them, the newest first."""

    permission_classes = [ReadOnly]
    pagination_class = Pages
    serializer_class = EndedProposalSerializer
    queryset = Proposal.objects.none()
    filter_backends: list[Any] = []

    def get_queryset(self) -> QuerySet[Proposal]:
        form = OutcomesForm(self.request.query_params)
        understood(form)
        return form.shown

    @extend_schema(operation_id="outcomes_list", parameters=_FILTERS)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        found = self.paginate_queryset(self.get_queryset()) or []
        return self.get_paginated_response([outcome_pages.record(row) for row in found])


class OutcomeFigures(APIView):
    """What came of proposals by policy, rule, reviewer or month."""

    permission_classes = [ReadOnly]

    @extend_schema(operation_id="outcomes_figures", parameters=[_BY, *_FILTERS], responses=OutcomeFiguresSerializer)
    def get(self, request: Request) -> Response:
        form = OutcomesForm(request.query_params)
        understood(form)
        groups, more = outcomes.grouped(form.rows, form.by)
        whole = outcome_pages.summary(outcomes.together(form.rows))
        return Response(
            {"by": form.by, "more": more, "all": whole, "groups": [outcome_pages.summary(one) for one in groups]}
        )
