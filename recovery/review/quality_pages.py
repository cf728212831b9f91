"""How often recovery was wrong: a part of the page of quality, and the same in the API."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response
from rest_framework.views import APIView

from recovery.review import quality
from verdicts.fleet.api import ANSWER, CLUSTER, DAYS, UNTIL, as_plain, understood
from verdicts.guard import Request, permitted
from verdicts.permissions import ReadOnly, may_read
from verdicts.quality.pages import QualityForm


@require_safe
@permitted(may_read)
def part(request: Request) -> HttpResponse:
    """The figures of the time that the page of quality shows."""
    form = QualityForm(request.GET)
    if form.errors:
        return HttpResponse("")
    found = quality.measured(form.span, cluster=form.cluster)
    return render(request, "recovery/_quality.html", {"found": found})


class RecoveryQuality(APIView):
    """How often exclusions, actions and proposals were wrong."""

    permission_classes = [ReadOnly]

    @extend_schema(operation_id="recovery_quality", parameters=[DAYS, UNTIL, CLUSTER], responses=ANSWER)
    def get(self, request: ApiRequest) -> Response:
        form = QualityForm(request.query_params)
        understood(form)
        found = quality.measured(form.span, cluster=form.cluster)
        return Response({"after": form.span.after, "before": form.span.before, **as_plain(found)})
