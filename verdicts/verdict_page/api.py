"""What a verdict's page arranges out of its body, over the API: the four answers, the timeline, related verdicts."""

from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from verdicts.models import Verdict
from verdicts.permissions import ReadOnly
from verdicts.verdict_page import related
from verdicts.verdict_page.short import in_short
from verdicts.verdict_page.tell import told
from verdicts.verdict_page.timeline import Mark


def _verdict(pk: UUID) -> Verdict:
    return get_object_or_404(
        Verdict.objects.select_related("attempt__cluster", "attempt__workload").defer("body_json"), pk=pk
    )


class VerdictInShort(APIView):
    """What failed, what is not the cause, what was not seen, what to do now and later, and whose it is."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def get(self, request: Request, pk: UUID) -> Response:
        verdict = _verdict(pk)
        return Response({"headline": verdict.headline, **asdict(in_short(verdict.body))})


class VerdictTimeline(APIView):
    """The marks of the timeline in their order: the table of the page, with where each time can lie."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def get(self, request: Request, pk: UUID) -> Response:
        line = told(_verdict(pk)).line
        return Response({"clock": line.clock, "lanes": line.lanes, "marks": [_mark(mark) for mark in line.marks]})


class VerdictRelated(APIView):
    """Other attempts of the workload, and standing verdicts that blame the same on the same node, switch or image."""

    permission_classes = [ReadOnly]

    @extend_schema(responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def get(self, request: Request, pk: UUID) -> Response:
        verdict = _verdict(pk)
        others = related.siblings(verdict.attempt)
        same = related.same_cause(verdict.attempt, verdict.body)
        return Response(
            {
                "attempts": [{"attempt": row.attempt_id, "job_id": row.job_id, "domain": row.domain} for row in others],
                "same_cause": [
                    {"verdict": one.row.verdict_id, "job_id": one.row.job_id, "shares": one.shares} for one in same
                ],
            }
        )


def _mark(mark: Mark) -> dict[str, Any]:
    span = (mark.earliest.earliest, mark.latest.latest) if mark.earliest and mark.latest else (None, None)
    return {
        "lane": mark.lane,
        "status": mark.status,
        "title": mark.title,
        "detail": mark.detail,
        "first": mark.first,
        "last": mark.last or mark.first,
        "observed": mark.observed,
        "clock": mark.earliest.clock if mark.earliest else None,
        "earliest_micros": span[0],
        "latest_micros": span[1],
        "against_first_cause": mark.versus,
        "why": mark.why,
        "finding": mark.link.removeprefix("#") if mark.status not in ("attempt", "person") else None,
        "ref": mark.ref,
    }
