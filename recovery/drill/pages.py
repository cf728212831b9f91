"""The pages of drills: the list, one with its report, and the button that asks for one."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from recovery import permissions
from recovery.drill import find, record, report
from recovery.drill.form import VIA, DrillForm
from recovery.drill.tasks import NAME
from recovery.drill.words import FACTS, OUTCOMES, STATES
from recovery.models import Drill
from verdicts.guard import Request, part_wanted, permitted
from verdicts.listing.form import id_of
from verdicts.listing.paging import page_of
from verdicts.models import Attempt
from verdicts.permissions import may_read
from verdicts.record import NotPermitted
from verdicts.waking import wake_task


@require_safe
@permitted(may_read)
def drills(request: Request) -> HttpResponse:
    """The drills, how they stand, and the form that asks for one."""
    return _list(request)


def _list(request: Request, problem: str = "", typed: str = "") -> HttpResponse:
    form = DrillForm(request.GET)
    page = page_of(form.rows(), request.GET.get("page"))
    context: dict[str, Any] = {
        "section": "ledger",
        "tab": "retention",
        "form": form,
        "page": page,
        "rows": [{"drill": one, "look": STATES[one.state], "via": VIA.get(one.via, one.via)} for one in page],
        "problem": problem,
        "typed": typed,
    }
    if not problem and part_wanted(request, "results"):
        return render(request, "recovery/drill/drills.html#results", context)
    context |= {
        "standing": find.standing(),
        "every": _every(),
        "may_run": request.user.has_perm(permissions.RUN_DRILL),
    }
    return render(request, "recovery/drill/drills.html", context, status=400 if problem else 200)


def _every() -> str:
    """How often one runs by itself; empty where none does."""
    every = find.interval()
    if every is None:
        return ""
    hours = every.total_seconds() / 3600
    return f"{hours / 24:g} days" if hours > 48 else f"{hours:g} h"


@require_POST
@permitted(may_read)
def ask(request: Request) -> HttpResponse:
    """Ask for a drill; a worker carries it out."""
    typed = request.POST.get("attempt", "").strip()
    attempt = id_of(typed)
    if typed and attempt is None:
        return _list(request, "Attempt: that is no id of one.", typed)
    try:
        drill = record.ask(via="console", by=request.user, attempt=attempt)
    except Attempt.DoesNotExist:
        return _list(request, "Attempt: there is none with that id.", typed)
    except NotPermitted as error:
        return _list(request, str(error), typed)
    except record.NotNow as error:
        return _list(request, f"{str(error)[:1].upper()}{str(error)[1:]}.", typed)
    if not wake_task(NAME, queue=None):
        messages.warning(request, "No worker could be woken: it begins within ten minutes.")
    return redirect("recovery:drill", drill.pk)


@require_safe
@permitted(may_read)
def drill(request: Request, drill_id: UUID) -> HttpResponse:
    """One drill: each check with what was asked and seen. It prints."""
    one = get_object_or_404(find.drills(), pk=drill_id)
    checks = list(one.checks.all())
    entry = find.ended_entry(one.pk)
    told = entry.body.get("facts", {}).get("report_sha256") if entry else None
    context = {
        "section": "ledger",
        "tab": "retention",
        "drill": one,
        "look": STATES[one.state],
        "via": VIA.get(one.via, one.via),
        "checks": [{"check": check, "look": OUTCOMES[check.outcome]} for check in checks],
        "facts": [(label, one.facts[name]) for name, label in FACTS.items() if one.facts.get(name)],
        "entry": entry,
        "unchanged": told is not None and told == one.report_sha256 == report.digest_of(one, checks),
        "open": one.finished_at is None,
    }
    part = part_wanted(request, "drill")
    return render(request, "recovery/drill/drill.html#report" if part else "recovery/drill/drill.html", context)


@require_safe
@permitted(may_read)
def file(_request: Request, drill_id: UUID, form: str) -> HttpResponse:
    """The report of a drill that ended, as text or as JSON."""
    return reported(get_object_or_404(Drill, pk=drill_id), form)


def reported(one: Drill, form: str) -> HttpResponse:
    """The answer that brings a report as a file."""
    if form not in ("txt", "json") or one.finished_at is None:
        raise Http404
    checks = list(one.checks.all())
    body = report.as_bytes(one, checks) if form == "json" else report.as_text(one, checks).encode()
    kind = "application/json" if form == "json" else "text/plain; charset=utf-8"
    response = HttpResponse(body, content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="inquest-drill-{one.pk}.{form}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
