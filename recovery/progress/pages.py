"""The pages of what was detected and of how far attempts are: parse, call, render."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from recovery.models import Anomaly, Blindness
from recovery.progress import find
from recovery.progress.anomaly_form import KINDS, AnomaliesForm
from verdicts.guard import Request, part_wanted, permitted
from verdicts.listing.paging import page_of
from verdicts.models import Attempt
from verdicts.permissions import may_read

#: Jobs that nothing tells of, as the page names them.
MOST_BLIND = 20


@require_safe
@permitted(may_read)
def anomalies(request: Request) -> HttpResponse:
    """Crashes, hangs and stragglers, with the jobs whose hangs would not be seen on top."""
    form = AnomaliesForm(request.GET)
    page = page_of(form.rows(), request.GET.get("page"))
    blind = Blindness.objects.filter(attempt__ended_at__isnull=True)
    context: dict[str, Any] = {
        "section": "recovery",
        "tab": "anomalies",
        "form": form,
        "page": page,
        "rows": [(row, KINDS[row.kind]) for row in page.object_list],
        "blind": list(blind.select_related("attempt__cluster", "attempt__workload").order_by("-since")[:MOST_BLIND]),
        "blind_number": blind.count(),
        "nothing_stored": not page.object_list and not Anomaly.objects.exists(),
    }
    part = part_wanted(request, "results")
    return render(request, "recovery/anomalies.html#results" if part else "recovery/anomalies.html", context)


@require_safe
@permitted(may_read)
def anomaly(request: Request, anomaly_id: UUID) -> HttpResponse:
    """One anomaly: its four times, and the figures that it rests on."""
    row = get_object_or_404(find.anomalies(), pk=anomaly_id)
    context = {
        "section": "recovery",
        "tab": "anomalies",
        "row": row,
        "kind": KINDS[row.kind],
        "figures": find.figures(row.evidence),
        "verdict": row.attempt.verdicts.current().only("pk", "headline").first(),
    }
    return render(request, "recovery/anomaly.html", context)


@require_safe
@permitted(may_read)
def of_attempt(request: Request, attempt_id: UUID) -> HttpResponse:
    """How far an attempt is, whether its hangs would be seen, and what was detected: a part of its verdict's page."""
    attempt = get_object_or_404(Attempt.objects.only("pk", "ended_at"), pk=attempt_id)
    context = {
        **find.told(attempt.pk),
        "running": attempt.ended_at is None,
        "anomalies": [(row, KINDS[row.kind]) for row in attempt.anomalies.order_by("-detected_at")[:20]],
        "now": timezone.now(),
    }
    return render(request, "recovery/progress_of_attempt.html", context)
