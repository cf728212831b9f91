"""The pages of what was found afterwards: cases that must get a label, and what is said of one."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from recovery import find, permissions
from recovery.models import Proposal
from recovery.policies import labels
from recovery.policies.forms import BASIS_WORDS, LABEL_WORDS, OUTCOME_WORDS, LabelsForm, basis, case_label, outcome
from recovery.review.guard_pages import sentence
from recovery.words import OPEN_PROPOSALS
from verdicts.guard import Request, keeps_typed, part_wanted, permitted, typed_before
from verdicts.listing.paging import page_of
from verdicts.permissions import may_read


def _page_of_one(proposal_id: UUID) -> str:
    return reverse("recovery:label", args=[proposal_id])


@require_safe
@permitted(may_read)
def label_list(request: Request) -> HttpResponse:
    """Cases that wait for a label, the most urgent first."""
    form = LabelsForm(request.GET)
    page = page_of(form.rows(), request.GET.get("page"))
    context = {
        "section": "recovery",
        "tab": "labels",
        "form": form,
        "page": page,
        "rows": [(row, labels.due_at(row), labels.due_at(row) <= timezone.now()) for row in page.object_list],
        "sampled": form.value("show") == "sampled",
    }
    part = part_wanted(request, "results")
    return render(request, "recovery/labels.html#results" if part else "recovery/labels.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@keeps_typed(_page_of_one, "text", "label", "basis", anchor="#label")
@permitted(may_read)
def label(request: Request, proposal_id: UUID) -> HttpResponse:
    """Show what is known of a case, and say what was found about its diagnosis."""
    said = request.POST
    if request.method != "POST":
        return _one(request, proposal_id)
    try:
        word, rests_on = case_label(said.get("label", "")), basis(said.get("basis", ""))
        labels.give(proposal_id, word, rests_on, by=request.user, text=said.get("text", ""))
    except Proposal.DoesNotExist:
        raise Http404 from None
    except (ValueError, PermissionError) as error:
        return _one(request, proposal_id, sentence(error), said)
    messages.success(request, "The label is kept.")
    return redirect("recovery:labels")


@require_POST
@keeps_typed(_page_of_one, "outcome", "outcome_text", anchor="#outcome")
@permitted(may_read)
def tell_outcome(request: Request, proposal_id: UUID) -> HttpResponse:
    """Say what came of a proposal that is over."""
    said = request.POST
    try:
        word = outcome(said.get("outcome", ""))
        labels.give_outcome(proposal_id, word, by=request.user, text=said.get("outcome_text", ""))
    except Proposal.DoesNotExist:
        raise Http404 from None
    except (ValueError, PermissionError) as error:
        return _one(request, proposal_id, sentence(error), said)
    messages.success(request, "What came of it is kept.")
    return redirect("recovery:proposal", proposal_id)


def _one(request: Request, proposal_id: UUID, problem: str = "", typed: Any = None) -> HttpResponse:
    row = find.proposals().filter(pk=proposal_id).first()
    if row is None:
        raise Http404
    due = labels.due_at(row)
    context = {
        "section": "recovery",
        "tab": "labels",
        "row": row,
        "due": due,
        "late": due <= timezone.now(),
        "given": list(row.labels.select_related("by")),
        "over": row.state not in [state.value for state in OPEN_PROPOSALS],
        "labels": LABEL_WORDS,
        "bases": [(word, text) for word, text in BASIS_WORDS if (word == "injected") == row.injected],
        "outcomes": OUTCOME_WORDS,
        "may_label": request.user.has_perm(permissions.LABEL),
        "may_tell": request.user.has_perm(permissions.LABEL) or request.user.has_perm(permissions.DECIDE),
        "problem": problem,
        "typed": typed or typed_before(request, _page_of_one(proposal_id)),
    }
    return render(request, "recovery/label.html", context, status=400 if problem else 200)
