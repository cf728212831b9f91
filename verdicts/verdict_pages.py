"""The verdict pages: parse, call, render. What they show comes from `find.py`, what they change goes to `record.py`."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Prefetch
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from rules.attempt import InputError
from rules.words import Domain
from verdicts import permissions, presentation
from verdicts.choices import Label, Mode, RequestState
from verdicts.conclude import request_attribution
from verdicts.forms import ReviewForm
from verdicts.guard import Request, part_wanted, permitted
from verdicts.models import Attempt, AttributionRequest, Verdict
from verdicts.record import record_review

#: Versions of a verdict that are compared with each other on its page; a longer history is listed in the API.
MOST_VERSIONS = 12
MOST_SIBLINGS = 8
#: Findings of one section that are shown before being asked for all of them.
MOST_FINDINGS = 40


@require_safe
@permitted(permissions.may_read)
def verdict_detail(request: Request, verdict_id: UUID) -> HttpResponse:
    """One verdict with its doubt, its evidence and its history."""
    return _detail(request, verdict_id)


def _detail(request: Request, verdict_id: UUID, review_form: ReviewForm | None = None) -> HttpResponse:
    verdict = get_object_or_404(Verdict.objects.for_detail().defer("body_json"), pk=verdict_id)
    attempt, body = verdict.attempt, verdict.body
    node, rank = request.GET.get("line_node", ""), _whole(request.GET.get("line_rank"))
    lines = presentation.evidence_lines(body, node=node, rank=rank)
    context: dict[str, Any] = {
        "verdict": verdict,
        "lines": lines,
        "line_node": node,
        "line_rank": rank,
    }
    if part_wanted(request, "evidence"):
        return render(request, "verdicts/detail.html#evidence", context)
    history = list(Verdict.objects.history_of(attempt.pk).defer("body_json")[: MOST_VERSIONS + 1])
    own = next(
        (review for review in verdict.reviews.all() if review.author == request.user and not review.replaced_at),
        None,
    )
    context |= _standing(attempt, seen=verdict.number) | {
        "section": "verdicts",
        "attempt": attempt,
        "body": body,
        "coverage": presentation.coverage(body.get("coverage")),
        "blind_spots": presentation.blind_spots(body),
        "history": presentation.versions(history)[:MOST_VERSIONS],
        "most": MOST_FINDINGS,
        "shown": ":" if request.GET.get("all") else f":{MOST_FINDINGS}",
        "jumps": presentation.jumps(body),
        "current": next((version for version in history if version.is_current), None),
        "siblings": _siblings(attempt),
        "reviews": list(verdict.reviews.all()),
        "own_review": own,
        "review_form": review_form or ReviewForm(initial=_initial(own)),
        "may_review": permissions.may_review(request.user),
        "may_attribute": permissions.may_attribute(request.user),
    }
    return render(request, "verdicts/detail.html", context)


def _whole(text: str | None) -> int | None:
    """A rank out of the address; anything else is no filter."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _initial(review: Any) -> dict[str, Any]:
    """A person's own review as the form's start, so that changing a word does not mean typing it again."""
    if review is None:
        return {}
    return {
        "label": review.label,
        "actual_domain": review.actual_domain,
        "actual_nodes": ", ".join(review.actual_nodes),
        "note": review.note,
    }


def _siblings(attempt: Attempt) -> list[Attempt]:
    """Other attempts of the same workload, the latest first."""
    if attempt.workload_id is None:
        return []
    standing = Verdict.objects.current().only("attempt_id", "domain", "strength")
    others = Attempt.objects.filter(workload_id=attempt.workload_id).exclude(pk=attempt.pk).defer("body")
    return list(others.prefetch_related(Prefetch("verdicts", standing, to_attr="standing"))[:MOST_SIBLINGS])


def _standing(attempt: Attempt, *, seen: int) -> dict[str, Any]:
    """Whether a verdict is being worked on, and how the last try ended. `seen` is the number shown, 0 for none."""
    last = AttributionRequest.objects.filter(attempt=attempt).order_by("-created_at").first()
    is_open = last is not None and last.state in (
        RequestState.PENDING,
        RequestState.RUNNING,
    )
    return {
        "seen": seen,
        "open_request": last if is_open else None,
        "failed_request": last if last is not None and last.state == RequestState.FAILED else None,
    }


@require_safe
@permitted(permissions.may_read)
def attempt(request: Request, attempt_id: UUID) -> HttpResponse:
    """An attempt's standing verdict; while there is none, what is known of it and whether one is coming."""
    found = get_object_or_404(Attempt.objects.select_related("cluster", "workload"), pk=attempt_id)
    if (standing := found.verdicts.current().only("id").first()) is not None:
        return redirect("verdicts:detail", standing.pk)
    context = _standing(found, seen=0) | {
        "section": "verdicts",
        "attempt": found,
        "reports": presentation.coverage([report.body for report in found.reports.all()]),
        "observations": found.observations.count(),
        "siblings": _siblings(found),
        "may_attribute": permissions.may_attribute(request.user),
    }
    return render(request, "verdicts/attempt.html", context)


@require_GET
@permitted(permissions.may_read)
def progress(request: Request, attempt_id: UUID) -> HttpResponse:
    """What a page that waits for a verdict polls; it stops by itself when nothing is open any more."""
    found = get_object_or_404(Attempt.objects.only("id"), pk=attempt_id)
    seen = _whole(request.GET.get("seen")) or 0
    current = Verdict.objects.current().filter(attempt=found).only("id", "number").first()
    if current is not None and not seen:
        return HttpResponseClientRedirect(reverse("verdicts:detail", args=[current.pk]))
    context = _standing(found, seen=seen) | {
        "attempt": found,
        "newer": current if current is not None and current.number > seen else None,
    }
    context["unchanged"] = not (context["open_request"] or context["newer"] or context["failed_request"])
    return render(request, "verdicts/progress.html", context)


@require_POST
@permitted(permissions.may_attribute)
def attribute(request: Request, attempt_id: UUID) -> HttpResponse:
    """Ask for the best answer and go back to the attempt, whose page says how it stands."""
    try:
        request_attribution(attempt_id, Mode.SLOW, by=request.user)
    except Attempt.DoesNotExist:
        raise Http404 from None
    return redirect("verdicts:attempt", attempt_id)


@require_POST
@permitted(permissions.may_review)
def review(request: Request, verdict_id: UUID) -> HttpResponse:
    """Store a review; what cannot be stored comes back in the form as it was typed."""
    form = ReviewForm(request.POST)
    if not form.is_valid():
        return _detail(request, verdict_id, form)
    said = form.cleaned_data
    try:
        record_review(
            verdict_id,
            by=request.user,
            label=Label(said["label"]),
            actual_domain=Domain(said["actual_domain"]) if said["actual_domain"] else None,
            actual_nodes=said["actual_nodes"],
            note=said["note"],
        )
    except Verdict.DoesNotExist:
        raise Http404 from None
    except InputError as error:
        form.add_error(None, str(error))
        return _detail(request, verdict_id, form)
    messages.success(request, "The review is saved.")
    return redirect(reverse("verdicts:detail", args=[verdict_id]) + "#reviews")
