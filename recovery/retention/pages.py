"""The pages of retention: what expires when, what is stored, and the holds."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from recovery import permissions
from recovery.models import Hold
from recovery.retention import find, forms, holds
from recovery.retention.due import holds_over
from recovery.review.guard_pages import cluster_names, may, sentence
from verdicts.guard import Request, part_wanted, permitted
from verdicts.keeping import Kept
from verdicts.listing.paging import page_of
from verdicts.models import Attempt
from verdicts.permissions import may_read

MOST_EXPIRED = 10


@require_safe
@permitted(may_read)
def retention(request: Request) -> HttpResponse:
    """What is kept for how long, what expires when, and what it takes up."""
    form = forms.ExpiryForm(request.GET)
    context: dict[str, Any] = {
        "section": "ledger",
        "tab": "retention",
        "form": form,
        "now": timezone.now(),
        "page": forms.page_of(form.rows(), request.GET.get("page")),
    }
    if part_wanted(request, "results"):
        return render(request, "recovery/retention/page.html#results", context)
    context |= {
        "classes": find.classes(),
        "words": Kept.WORDS.value,
        "expired": list(find.tombstones()[:MOST_EXPIRED]),
        "standing": Hold.objects.filter(released_at=None).count(),
        "overdue": find.overdue().count(),
    }
    return render(request, "recovery/retention/page.html", context)


@require_safe
@permitted(may_read)
def of_attempt(request: Request, attempt_id: UUID) -> HttpResponse:
    """Until when what of an attempt is kept, and which holds stand over it, as a part of its pages."""
    attempt = get_object_or_404(Attempt.objects.defer("body"), pk=attempt_id)
    context = {
        "attempt": attempt,
        "rows": find.until(attempt),
        "holds": list(holds_over(attempt)),
        "now": timezone.now(),
        "today": timezone.now().date(),
        "may_hold": request.user.has_perm(permissions.HOLD),
    }
    return render(request, "recovery/retention/_of_attempt.html", context)


@require_safe
@permitted(may_read)
def hold_list(request: Request) -> HttpResponse:
    """The holds, and the form of a new one."""
    return _holds(request)


def _holds(request: Request, problem: str = "", typed: Any = None) -> HttpResponse:
    form = forms.HoldsForm(request.GET)
    context = {
        "section": "ledger",
        "tab": "retention",
        "form": form,
        "page": page_of(form.rows(), request.GET.get("page")),
        "today": timezone.now().date(),
        "clusters": cluster_names(),
        "problem": problem,
        "typed": typed or {"attempt": request.GET.get("attempt", ""), "owner": request.user.get_username()},
        "review_on": forms.default_review().isoformat(),
        "may_hold": request.user.has_perm(permissions.HOLD),
    }
    if not problem and part_wanted(request, "results"):
        return render(request, "recovery/retention/holds.html#results", context)
    return render(request, "recovery/retention/holds.html", context, status=400 if problem else 200)


@require_safe
@permitted(may_read)
def hold_detail(request: Request, hold_id: UUID) -> HttpResponse:
    """One hold: what it is over, why, for whom, and what can be done about it."""
    return _hold(request, hold_id)


def _hold(request: Request, hold_id: UUID, problem: str = "") -> HttpResponse:
    hold = get_object_or_404(find.holds(), pk=hold_id)
    attempts, gone = find.reach(hold)
    context = {
        "section": "ledger",
        "tab": "retention",
        "hold": hold,
        "what": holds.what(hold),
        "attempts": attempts,
        "gone": gone,
        "most": find.MOST_COUNTED,
        "problem": problem,
        "typed": request.POST,
        "today": timezone.now().date(),
        "review_on": forms.default_review().isoformat(),
        "may_hold": request.user.has_perm(permissions.HOLD),
    }
    return render(request, "recovery/retention/hold.html", context, status=400 if problem else 200)


@require_POST
@permitted(may(permissions.HOLD))
def hold_place(request: Request) -> HttpResponse:
    """Place a hold."""
    said = {name: request.POST.get(name, "") for name in request.POST}
    try:
        hold = holds.place(
            forms.scope_of(said),
            reason=said.get("reason", ""),
            owner=forms.owner_of(said.get("owner", "")),
            review_on=forms.day_of(said.get("review_on", "")),
            by=request.user,
        )
    except ValueError as error:
        return _holds(request, sentence(error), typed=said)
    messages.success(request, "The hold is placed: nothing expires of what it is over.")
    return redirect("recovery:hold", hold.pk)


@require_POST
@permitted(may(permissions.HOLD))
def hold_review(request: Request, hold_id: UUID) -> HttpResponse:
    """Say that a hold is still needed, and when to look again."""
    said = request.POST
    try:
        owner = forms.owner_of(said["owner"]) if said.get("owner", "").strip() else None
        review_on = forms.day_of(said.get("review_on", ""))
        holds.review(hold_id, review_on=review_on, by=request.user, reason=said.get("reason", ""), owner=owner)
    except Hold.DoesNotExist:
        raise Http404 from None
    except ValueError as error:
        return _hold(request, hold_id, sentence(error))
    messages.success(request, "The hold stands on; its next review is noted.")
    return redirect("recovery:hold", hold_id)


@require_POST
@permitted(may(permissions.HOLD))
def hold_release(request: Request, hold_id: UUID) -> HttpResponse:
    """Release a hold."""
    try:
        holds.release(hold_id, by=request.user, reason=request.POST.get("reason", ""))
    except Hold.DoesNotExist:
        raise Http404 from None
    except ValueError as error:
        return _hold(request, hold_id, sentence(error))
    messages.success(request, "The hold is released: what it was over expires by its time again.")
    return redirect("recovery:hold", hold_id)
