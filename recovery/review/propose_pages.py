"""The page on which a person proposes an action for an attempt."""

import re
from datetime import timedelta
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from recovery import permissions, propose, wording
from recovery.caps import Caps
from recovery.review.guard_pages import may, sentence
from recovery.words import RELIEF, ActionKind
from verdicts.guard import Request, permitted
from verdicts.models import Attempt
from verdicts.record import NotPermitted


@require_http_methods(["GET", "HEAD", "POST"])
@permitted(may(permissions.PROPOSE))
def propose_by_hand(request: Request, attempt_id: UUID) -> HttpResponse:
    """A person proposes an action for an attempt; somebody else decides."""
    attempt = get_object_or_404(Attempt.objects.select_related("cluster", "workload"), pk=attempt_id)
    problem = ""
    if request.method == "POST":
        try:
            made = propose.propose_by_hand(
                attempt,
                action_kind(request.POST.get("action", "")),
                node_names(request.POST.get("nodes", "")),
                by=request.user,
                reason=request.POST.get("reason", "").strip(),
            )
        except (ValueError, NotPermitted) as error:
            problem = sentence(error)
        else:
            messages.success(request, "Proposed. Somebody else has to approve it.")
            return redirect("recovery:proposal", made.pk)
    verdict = attempt.verdicts.current().only("pk", "headline", "body").first()
    minutes = Caps().max_age_minutes
    ended = attempt.ended_at
    context = {
        "section": "recovery",
        "attempt": attempt,
        "verdict": verdict,
        "blamed": [one["name"] for one in verdict.body.get("affected_nodes") or ()] if verdict else [],
        # Said before somebody types: the guard refuses it afterwards.
        "late": minutes if ended and timezone.now() - ended > timedelta(minutes=minutes) else None,
        # What gives back is done where it was taken.
        "actions": [(kind.value, wording.ACTIONS[kind]) for kind in ActionKind if kind not in RELIEF],
        "typed": request.POST,
        "problem": problem,
    }
    return render(request, "recovery/propose.html", context, status=400 if problem else 200)


def node_names(text: str) -> list[str]:
    """Names that are apart by spaces or commas."""
    return [name for name in re.split(r"[\s,]+", text) if name]


def action_kind(text: str) -> ActionKind:
    """An action by its word. Raises ValueError."""
    try:
        return ActionKind(text)
    except ValueError:
        raise ValueError(f"action: one of {', '.join(ActionKind)}") from None
