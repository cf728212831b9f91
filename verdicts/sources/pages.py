"""The pages about sources: whether they see, and what is being collected."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from verdicts import permissions, waking
from verdicts.collecting import gather
from verdicts.guard import Request, permitted
from verdicts.models import Attempt
from verdicts.sources import find


@require_safe
@permitted(permissions.may_read)
def source_list(request: Request) -> HttpResponse:
    """Every configured source with its last check, and the looks for attempts."""
    context = {
        "section": "sources",
        "clusters": find.clusters_shown(),
        "gathering": find.gathering(),
        "may_check": permissions.may_attribute(request.user),
    }
    return render(request, "verdicts/sources.html", context)


@require_POST
@permitted(permissions.may_attribute)
def check(request: Request) -> HttpResponse:
    """Have a worker look at all sources."""
    if waking.wake_task("verdicts.check_sources", queue=waking.COLLECT_QUEUE):
        messages.success(request, "The sources are being checked; reload the page in a few seconds.")
    else:
        messages.error(request, "The broker is not reached: run `inquest sources check` instead.")
    return redirect("verdicts:sources")


@require_safe
@permitted(permissions.may_read)
def collection(request: Request, attempt_id: UUID) -> HttpResponse:
    """What was asked of each source for an attempt, round by round; polls itself while a round is open."""
    attempt = get_object_or_404(Attempt.objects.select_related("cluster", "workload"), pk=attempt_id)
    rounds = list(find.collections_of(attempt_id)[:20])
    context = {
        "section": "verdicts",
        "attempt": attempt,
        "rounds": rounds,
        "open_round": next((one for one in rounds if one.finished_at is None), None),
        "may_collect": permissions.may_attribute(request.user),
        "standing": attempt.verdicts.current().only("pk", "number").first(),
    }
    part = request.htmx and not request.htmx.history_restore_request
    return render(request, "verdicts/collection.html#rounds" if part else "verdicts/collection.html", context)


@require_POST
@permitted(permissions.may_attribute)
def collect(request: Request, attempt_id: UUID) -> HttpResponse:
    """Ask for an attempt's evidence to be collected."""
    get_object_or_404(Attempt.objects.only("pk"), pk=attempt_id)
    try:
        gather.ask(attempt_id, by=request.user)
    except gather.NotConfigured as error:
        messages.error(request, f"Nothing can be collected: {error}.")
    return redirect("verdicts:collection", attempt_id)
