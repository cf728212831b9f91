"""A verdict's page and that of an attempt without one: parse, call, render.

What they show comes from the find modules and is arranged by pure ones; what they change goes to the writers.
"""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from rules.attempt import InputError
from rules.words import Domain
from verdicts import permissions
from verdicts.choices import Label, Mode, RequestState
from verdicts.conclude import request_attribution
from verdicts.expired import EvidenceExpired, tombstones_of
from verdicts.forms import CommentForm, ReviewForm
from verdicts.guard import Request, keeps_typed, part_wanted, permitted, typed_before
from verdicts.models import Attempt, AttributionRequest, Node, Verdict
from verdicts.people import talk
from verdicts.record import record_review
from verdicts.verdict_page import compare, presentation, related, timeline_chart
from verdicts.verdict_page.short import in_short
from verdicts.verdict_page.tell import MOST_VERSIONS, told
from verdicts.verdict_page.timeline import Timeline

#: Findings of one section, and rows of the timeline's table, that are shown before being asked for all of them.
MOST_FINDINGS = 40


@require_safe
@permitted(permissions.may_read)
def verdict_detail(request: Request, verdict_id: UUID) -> HttpResponse:
    """One verdict with its doubt, its evidence and its history."""
    return _detail(request, verdict_id)


def _detail(
    request: Request,
    verdict_id: UUID,
    *,
    review_form: ReviewForm | None = None,
    comment_form: CommentForm | None = None,
) -> HttpResponse:
    joined = ("attempt__cluster", "attempt__workload", "attempt__imported", "ruleset")
    rows = Verdict.objects.select_related(*joined).defer("body_json")
    verdict = get_object_or_404(rows, pk=verdict_id)
    attempt, body = verdict.attempt, verdict.body
    node, rank = request.GET.get("line_node", ""), _whole(request.GET.get("line_rank"))
    lines = presentation.evidence_lines(body, node=node, rank=rank)
    context: dict[str, Any] = {
        "verdict": verdict,
        "attempt": attempt,
        "lines": lines,
        "line_node": node,
        "line_rank": rank,
    }
    if part_wanted(request, "evidence"):
        return render(request, "verdicts/detail.html#evidence", context)
    around = told(verdict)
    own = next((one for one in around.reviews if one.author == request.user and not one.replaced_at), None)
    typed = typed_before(request, _page(verdict_id))
    context |= _standing(attempt, seen=verdict.number) | {
        "section": "verdicts",
        "body": body,
        "tombstones": tombstones_of(attempt),
        "short": in_short(body),
        "several_parts": _several_parts(body),
        "coverage": presentation.coverage(body.get("coverage")),
        "blind_spots": presentation.blind_spots(body),
        "near": around.near,
        "history": compare.versions(around.history)[:MOST_VERSIONS],
        "most": MOST_FINDINGS,
        "shown": ":" if request.GET.get("all") else f":{MOST_FINDINGS}",
        "jumps": presentation.jumps(body),
        "current": next((version for version in around.history if version.is_current), None),
        "siblings": related.siblings(attempt),
        "same_cause": related.same_cause(attempt, body),
        "reviews": around.reviews,
        "own_review": own,
        "comments": around.comments,
        "typed": bool(typed),
        "review_form": review_form or ReviewForm(initial=_initial(own) | typed),
        "comment_form": comment_form or CommentForm(initial=typed),
        "may_review": permissions.may_review(request.user),
        "may_comment": permissions.may_comment(request.user),
        "may_attribute": permissions.may_attribute(request.user),
    }
    context |= _timeline_context(around.line, whole=bool(request.GET.get("all")))
    return render(request, "verdicts/detail.html", context)


def _several_parts(body: presentation.Body) -> bool:
    """Whether the affected nodes have more to say than the first answer has room for."""
    nodes = body.get("affected_nodes") or ()
    return len(nodes) > 4 or any(node.get("ranks") for node in nodes)


def _timeline_context(line: Timeline, *, whole: bool) -> dict[str, Any]:
    """The timeline as a figure with the buttons of its views, and as a table."""
    figure = timeline_chart.figure(line)
    return {
        "timeline": line,
        "marks": line.marks if whole else line.marks[:MOST_FINDINGS],
        "figure": figure,
        "views": timeline_chart.view_steps(line) if figure and len(line.views) > 1 else [],
    }


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


def _page(verdict_id: UUID) -> str:
    return reverse("verdicts:detail", args=[verdict_id])


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
        "tombstones": tombstones_of(found),
        "siblings": related.siblings(found),
        "may_attribute": permissions.may_attribute(request.user),
    }
    return render(request, "verdicts/attempt.html", context)


@require_safe
@permitted(permissions.may_read)
def node(request: Request, attempt_id: UUID) -> HttpResponse:
    """The page of a node that a verdict of the attempt names; the list of its verdicts for one that has no page."""
    name = request.GET.get("name", "").replace("\0", "")
    cluster = get_object_or_404(Attempt.objects.only("cluster"), pk=attempt_id).cluster_id
    if (known := Node.objects.filter(cluster=cluster, name=name).only("pk").first()) is not None:
        return redirect("verdicts:node", known.pk)
    return redirect(f"{reverse('verdicts:list')}?{urlencode({'node': name})}")


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
    except EvidenceExpired as error:
        messages.error(request, f"Nothing was asked for: {error}.")
    return redirect("verdicts:attempt", attempt_id)


@require_POST
@keeps_typed(_page, "label", "actual_domain", "actual_nodes", "note", anchor="#reviews")
@permitted(permissions.may_review)
def review(request: Request, verdict_id: UUID) -> HttpResponse:
    """Store a review; what cannot be stored comes back in the form as it was typed."""
    form = ReviewForm(request.POST)
    if not form.is_valid():
        return _detail(request, verdict_id, review_form=form)
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
        return _detail(request, verdict_id, review_form=form)
    messages.success(request, "The review is saved.")
    return redirect(_page(verdict_id) + "#reviews")


@require_POST
@keeps_typed(_page, "text", anchor="#talk")
@permitted(permissions.may_comment)
def comment(request: Request, verdict_id: UUID) -> HttpResponse:
    """Store a comment; what cannot be stored comes back as it was typed."""
    form = CommentForm(request.POST)
    if not form.is_valid():
        return _detail(request, verdict_id, comment_form=form)
    try:
        made = talk.add_comment(verdict_id, by=request.user, text=form.cleaned_data["text"])
    except Verdict.DoesNotExist:
        raise Http404 from None
    except InputError as error:
        form.add_error("text", str(error))
        return _detail(request, verdict_id, comment_form=form)
    return redirect(f"{_page(verdict_id)}#comment-{made.pk}")
