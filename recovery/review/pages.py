"""The review queue and the page of one proposal: parse, call, render. What is decided is in `decide.py`."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from recovery import brakes, decide, find, machine, permissions, wording
from recovery.drill import find as drills
from recovery.models import Proposal, Veto
from recovery.retention.find import overdue as overdue_holds
from recovery.review import find as queue_find
from recovery.review import guard_forms
from recovery.review.form import WAITING, QueueForm
from recovery.words import DecisionKind, ProposalState, RejectReason, VetoKind
from verdicts.guard import Request, keeps_typed, part_wanted, permitted, typed_before
from verdicts.listing.paging import page_of
from verdicts.models import Attempt, Node
from verdicts.permissions import may_read

MOST_SHARED = 200
MOST_OVERDUE = 10
MOST_OF_NODE = 20


@require_safe
@permitted(may_read)
def queue(request: Request) -> HttpResponse:
    """The proposals, by default those that wait for a decision; what they share is said on top."""
    form = QueueForm(request.GET)
    page = page_of(form.rows(), request.GET.get("page"))
    rows = list(page.object_list)
    waiting = list(find.waiting()[:MOST_SHARED]) if form.shows == WAITING else []
    context: dict[str, Any] = {
        "section": "recovery",
        "tab": "queue",
        "form": form,
        "page": page,
        "rows": rows,
        "shared": find.shared(waiting, queue_find.elements_of(waiting)),
        "killed": brakes.killed(),
        "overdue": list(find.overdue()[:MOST_OVERDUE]),
        "brakes": list(guard_forms.brakes_pulled()),
        "nothing_stored": not rows and not Proposal.objects.exists(),
    }
    part = part_wanted(request, "results")
    return render(request, "recovery/queue.html#results" if part else "recovery/queue.html", context)


@require_safe
@permitted(may_read)
def proposal(request: Request, proposal_id: UUID) -> HttpResponse:
    """One proposal: its frozen plan, what speaks against it now, what was said of it, and what came of it."""
    row = get_object_or_404(find.proposals(), pk=proposal_id)
    typed = typed_before(request, request.path)
    return render(request, "recovery/proposal.html", _shown(request, row, typed))


def _shown(request: Request, row: Proposal, typed: dict[str, str], problem: str = "") -> dict[str, Any]:
    against = queue_find.against(row)
    return {
        "section": "recovery",
        "tab": "queue",
        "row": row,
        "plan": row.plan,
        "typed": typed,
        "problem": problem,
        "against": against,
        "hinders": queue_find.hinders(row, request.user, against),
        "decisions": list(row.decisions.select_related("by")),
        "wanting": decide.wanting(row) if row.state == ProposalState.OPEN.value else "",
        "may_withdraw": row.state in decide.UNDECIDED_STATES
        and (request.user.has_perm(permissions.DECIDE) or row.made_by_id == request.user.pk),
        "action": find.actions().filter(proposal=row).first(),
        "exclusions": list(find.exclusions().filter(proposal=row)),
        "may_lift": request.user.has_perm(permissions.LIFT),
        "labels": list(row.labels.select_related("by")),
        "current": row.attempt.verdicts.current().only("pk", "number", "headline", "body_sha256").first(),
        "reasons": [(word.value, wording.REASONS[word]) for word in RejectReason],
        "entries": list(find.ledger_of(row)[:100]),
        "now": timezone.now(),
    }


def _page(proposal_id: UUID) -> str:
    return reverse("recovery:proposal", args=[proposal_id])


@require_POST
@keeps_typed(_page, "text", "reason", anchor="#decide")
@permitted(may_read)
def decision(request: Request, proposal_id: UUID) -> HttpResponse:
    """Approve, reject, ask for more or withdraw, as the person saw the plan. What was typed is never lost."""
    said = request.POST
    text, reason, seen = said.get("text", "").strip(), said.get("reason", ""), said.get("seen", "")
    by = request.user
    try:
        kind = DecisionKind(said.get("decision", ""))
    except ValueError:
        raise Http404 from None
    try:
        if kind is DecisionKind.APPROVE:
            row = decide.approve(proposal_id, by=by, seen=seen, text=text)
        elif kind is DecisionKind.REJECT:
            row = decide.reject(proposal_id, by=by, seen=seen, reason=reason, text=text)
        elif kind is DecisionKind.ASK:
            row = decide.ask(proposal_id, by=by, seen=seen, text=text)
        else:
            row = decide.withdraw(proposal_id, by=by, text=text)
    except Proposal.DoesNotExist:
        raise Http404 from None
    except (decide.PlanChanged, decide.AlreadyDecided, decide.Guarded, machine.WrongMove) as error:
        return _refused(request, proposal_id, str(error), 409)
    except decide.NotPermitted as error:
        if not by.has_perm(permissions.DECIDE):
            raise PermissionDenied(str(error)) from error
        return _refused(request, proposal_id, str(error), 403)
    except ValueError as error:
        return _refused(request, proposal_id, str(error), 400)
    done = {
        DecisionKind.APPROVE: "Approved." if row.state != ProposalState.OPEN.value else "Your approval is noted.",
        DecisionKind.REJECT: "Rejected.",
        DecisionKind.ASK: "Your question is noted; the proposal stays open.",
        DecisionKind.WITHDRAW: "Withdrawn.",
    }
    messages.success(request, done[kind])
    return redirect("recovery:proposal", proposal_id)


def _refused(request: Request, proposal_id: UUID, problem: str, status: int) -> HttpResponse:
    row = get_object_or_404(find.proposals(), pk=proposal_id)
    typed = {name: request.POST.get(name, "") for name in ("text", "reason")}
    return render(request, "recovery/proposal.html", _shown(request, row, typed, problem), status=status)


@require_safe
@permitted(may_read)
def of_attempt(request: Request, attempt_id: UUID) -> HttpResponse:
    """What was proposed for an attempt, as a part of its verdict's page."""
    attempt = get_object_or_404(Attempt.objects.only("pk"), pk=attempt_id)
    rows = list(find.of_attempt(attempt.pk)[:20])
    context = {
        "rows": rows,
        "first": next((row for row in rows if row.state == ProposalState.OPEN.value), rows[0] if rows else None),
        "answers": request.GET.get("answers") == "1",  # the page has a place for the one that matters most
        "considered": queue_find.considered(attempt.pk),
        "attempt_id": attempt.pk,
    }
    return render(request, "recovery/_of_attempt.html", context)


@require_safe
@permitted(may_read)
def of_node(request: Request, node_id: UUID) -> HttpResponse:
    """When a node was kept away, protected, or proposed something for, as a part of its own page."""
    node = get_object_or_404(Node, pk=node_id)
    here = {"cluster": node.cluster_id}
    vetoes = Veto.objects.filter(kind=VetoKind.NODE.value, value=node.name, ended_at=None, **here)
    proposals = find.proposals().filter(attempt__cluster=node.cluster_id, nodes__contains=[node.name])
    context = {
        "node": node,
        "exclusions": list(find.exclusions().filter(node=node.name, **here).order_by("-made_at", "id")[:MOST_OF_NODE]),
        "vetoes": list(vetoes.exclude(until__lte=timezone.now()).select_related("by")),
        "proposals": list(proposals.order_by("-created_at", "id")[:MOST_OF_NODE]),
        "may_lift": request.user.has_perm(permissions.LIFT),
    }
    return render(request, "recovery/_of_node.html", context)


@require_safe
@permitted(may_read)
def waiting(request: Request) -> HttpResponse:
    """What waits for a person, as a part of the overview."""
    context = {
        "counts": find.needs_a_person(),
        "killed": brakes.killed(),
        "drill": drills.standing(),
        "holds": overdue_holds().count(),
    }
    return render(request, "recovery/_waiting.html", context)
