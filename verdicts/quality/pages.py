"""The page that says how often verdicts are wrong, and the same in the API."""

from typing import Any

from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response
from rest_framework.views import APIView

from rules.ruleset import Ruleset
from verdicts import conclude, permissions
from verdicts.fleet.api import ANSWER, CLUSTER, DAYS, UNTIL, as_plain, understood
from verdicts.fleet.forms import SpanForm
from verdicts.guard import Request, permitted
from verdicts.models import DriftCheck, RulesetVersion, Verdict
from verdicts.permissions import ReadOnly
from verdicts.quality import reckon
from verdicts.quality.benchmark_file import benchmark
from verdicts.quality.reckon import Quality
from verdicts.rulebook import catalogue

MOST_RULESETS = 20
#: How the points of the curve look, the strongest first.
_MARKS = (
    ("strong only", "circle", "var(--blue)"),
    ("moderate and stronger", "square", "var(--violet)"),
    ("weak and stronger", "diamond", "var(--amber)"),
)


class QualityForm(SpanForm):
    """The time, cluster and ruleset that the figures are about."""

    labels = {**SpanForm.labels, "ruleset": "Ruleset"}

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        used = RulesetVersion.objects.order_by("-first_used_at").values_list("digest", flat=True)[:MOST_RULESETS]
        self.choices = {**self.choices, "ruleset": [("", "all"), *((digest[:12], digest[:12]) for digest in used)]}


@require_safe
@permitted(permissions.may_read)
def page(request: Request) -> HttpResponse:
    """How often verdicts were wrong lately, how sure that is, and what it does not say."""
    form = QualityForm(request.GET)
    context: dict[str, Any] = {"section": "quality", "form": form, "nothing_stored": not Verdict.objects.exists()}
    if not form.errors and not context["nothing_stored"]:
        found = reckon.measured(form.span, cluster=form.cluster, ruleset=form.value("ruleset"))
        context |= {
            "found": found,
            "figure": _curve(found) if found.cases else None,
            "waiting": reckon.waiting(form.span, cluster=form.cluster),
            "benchmark": benchmark(),
            "rules": rule_figures(conclude.current_ruleset()),
            "drift": DriftCheck.objects.order_by("-checked_at").first(),
            "last_review": found.latest_review,
        }
    return render(request, "quality/page.html", context)


def rule_figures(ruleset: Ruleset) -> dict[str, Any]:
    """How much of what is published the rules know."""
    table = catalogue.coverage_map(ruleset)
    return {
        "rules": len(ruleset.rules),
        "xids": len(table.xids),
        "known_xids": sum(1 for xid in table.xids if xid.rules),
        "classes": sum(len(one.classes) for one in table.taxonomies),
        "known_classes": sum(1 for one in table.taxonomies for entry in one.classes if entry.rules),
    }


def _curve(found: Quality) -> dict[str, Any]:
    """The coverage–risk curve with its intervals: a line, and a mark for each strength."""
    points = [point for point in found.points if point.risk.whole]
    at = [(100 * (point.coverage.value or 0), 100 * (point.risk.value or 0)) for point in points]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [x for x, _ in at],
            "y": [y for _, y in at],
            "line": {"color": "var(--line-strong)"},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]
    for point, (x, y), (name, symbol, colour) in zip(points, at, _MARKS, strict=False):
        spread = {"array": [100 * point.risk.high - y], "arrayminus": [y - 100 * point.risk.low]}
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [x],
                "y": [y],
                "error_y": {"type": "data", "symmetric": False, "color": colour, **spread},
                "marker": {"size": 11, "symbol": symbol, "color": colour},
                "hovertemplate": "%{x:.1f} % with a cause named, %{y:.1f} % of them wrong",
            }
        )
    return {
        "data": data,
        "layout": {
            "height": 360,
            "xaxis": {"title": {"text": "failures with a cause named, %"}, "range": [0, 105]},
            "yaxis": {"title": {"text": "wrong, %"}, "rangemode": "tozero"},
        },
    }


class Figures(APIView):
    """How often verdicts are wrong: the figures of the page, each with its n and exact 95 % bounds."""

    permission_classes = [ReadOnly]

    @extend_schema(
        parameters=[DAYS, UNTIL, CLUSTER, OpenApiParameter("ruleset", str, description="The first 12 of its digest.")],
        responses=ANSWER,
    )
    def get(self, request: ApiRequest) -> Response:
        query = request.query_params
        assert isinstance(query, QueryDict)
        form = QualityForm(query)
        understood(form)
        found = reckon.measured(form.span, cluster=form.cluster, ruleset=form.value("ruleset"))
        told = {
            "after": form.span.after,
            "before": form.span.before,
            "verdicts": found.verdicts,
            "decided": found.decided,
            "undecidable": found.undecidable,
            "disputed": found.disputed,
            "agreement": found.agreement,
            "wrong": found.wrong,
            "wrong_weighted_by_strength": found.weighted,
            "wrong_at_least_and_at_most": found.extremes,
            "domains": found.domains,
            "matrix": {said: dict(zip(found.domains, numbers, strict=True)) for said, numbers, _ in found.matrix},
            "by_domain": found.by_domain,
            "coverage_risk": found.points,
            "by_strength": found.strata,
            "waiting": reckon.waiting(form.span, cluster=form.cluster),
            "benchmark": benchmark(),
            "rules": rule_figures(conclude.current_ruleset()),
        }
        return Response(as_plain(told))
