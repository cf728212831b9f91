"""The pages of replays: parse, call, render. What is begun, cancelled and judged is in the writers."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from recovery import permissions
from recovery.models import Replay
from recovery.replay import begin, find, gate, judge, rulesets
from recovery.replay.export import FORMS, exported
from recovery.replay.form import ItemsForm, ReplaysForm, query_of, wish_of
from recovery.replay.wording import AGAIN, KINDS
from recovery.replay.words import ReplayKind, ReplayState
from recovery.review.guard_pages import may, sentence
from rules.attempt import InputError
from rules.words import Source
from verdicts import conclude, wording
from verdicts.guard import Request, keeps_typed, part_wanted, permitted, typed_before
from verdicts.listing.paging import page_of
from verdicts.permissions import may_read

#: Groups that a page shows; the report and the export have all.
MOST_GROUPS = 100
_TYPED = ("kind", "ruleset", "query", "reason", "without", "delay", "seconds", "line", "source", "node", "at")


@require_safe
@permitted(may_read)
def replay_list(request: Request) -> HttpResponse:
    """The replays, the newest first."""
    form = ReplaysForm(request.GET)
    page = page_of(form.rows(), request.GET.get("page"))
    rows = [(row, KINDS[row.kind], 100 * row.done // row.total if row.total else 0) for row in page.object_list]
    context = {
        "section": "recovery",
        "tab": "replays",
        "form": form,
        "page": page,
        "rows": rows,
        "may_start": request.user.has_perm(permissions.START_REPLAY),
        "going": any(row.state == ReplayState.RUNNING for row, *_ in rows),
    }
    part = part_wanted(request, "results")
    return render(request, "recovery/replay/list.html#results" if part else "recovery/replay/list.html", context)


def _new_page() -> str:
    return reverse("recovery:replay-new")


@require_http_methods(["GET", "HEAD", "POST"])
@keeps_typed(_new_page, *_TYPED, anchor="#form")
@permitted(may_read)
def replay_new(request: Request) -> HttpResponse:
    """Say what is to be tried on which attempts, and begin it."""
    if request.method != "POST":
        try:
            query = query_of(request.GET.get("query", ""))
        except InputError as error:
            return _asked(request, request.GET, sentence(error))
        typed = typed_before(request, _new_page()) or {"query": query, "ruleset": request.GET.get("ruleset", "")}
        return _asked(request, typed)
    try:
        row = begin.begin_as(wish_of(request.POST.dict()), by=request.user)
    except (InputError, PermissionError, begin.NotNow) as error:
        return _asked(request, request.POST, sentence(error))
    messages.success(request, f"The replay of {row.total:,} attempts is begun.")
    return redirect("recovery:replay", row.pk)


def _asked(request: Request, typed: Any, problem: str = "") -> HttpResponse:
    current = conclude.current_ruleset().digest
    context = {
        "section": "recovery",
        "tab": "replays",
        "typed": typed,
        "problem": problem,
        "current": current,
        "used": list(rulesets.choices().exclude(digest=current)[:50]),
        "tried": list(rulesets.tried().exclude(digest=current)[:50]),
        "sources": [(source.value, wording.SOURCES[source]) for source in Source],
        "may_start": request.user.has_perm(permissions.START_REPLAY),
    }
    return render(request, "recovery/replay/new.html", context, status=400 if problem else 200)


@require_safe
@permitted(may_read)
def replay(request: Request, replay_id: UUID) -> HttpResponse:
    """One replay: how far it is, what it found by reason, what it says of policies, and every change."""
    return _shown(request, _row(replay_id))


def _row(replay_id: UUID) -> Replay:
    return get_object_or_404(Replay.objects.select_related("ruleset").defer("ruleset__packed"), pk=replay_id)


def _shown(request: Request, row: Replay, problem: str = "", typed: Any = None) -> HttpResponse:
    form = ItemsForm(request.GET)
    counts = find.counts(row)
    context: dict[str, Any] = {
        "section": "recovery",
        "tab": "replays",
        "replay": row,
        "counts": counts,
        "asked": find.asked(row),
        "chosen": find.chosen(row),
        "rate": find.rate(row, counts),
        "going": row.state == ReplayState.RUNNING,
        "own": row.kind == ReplayKind.OWN,
        "ablation": row.kind == ReplayKind.ABLATION,
        "form": form,
        "problem": problem,
        "typed": typed or {},
        "may_start": request.user.has_perm(permissions.START_REPLAY),
        "may_judge": request.user.has_perm(permissions.JUDGE_REPLAY) and row.kind != ReplayKind.ABLATION,
    }
    if not part_wanted(request, "progress"):
        page = page_of(form.rows(row), request.GET.get("page"))
        context |= {"page": page, "rows": [(item, AGAIN[item.again]) for item in page.object_list]}
    if part_wanted(request, "results"):
        return render(request, "recovery/replay/detail.html#results", context)
    groups = find.groups(row)
    context |= {
        "groups": groups[:MOST_GROUPS],
        "more_groups": max(len(groups) - MOST_GROUPS, 0),
        "reasons": find.reasons(row),
        "gates": gate.gates_of(row),
    }
    if part_wanted(request, "progress"):
        return render(request, "recovery/replay/detail.html#progress", context)
    return render(request, "recovery/replay/detail.html", context, status=400 if problem else 200)


@require_POST
@permitted(may(permissions.START_REPLAY))
def cancel(request: Request, replay_id: UUID) -> HttpResponse:
    """Stop a replay; what is done is kept."""
    return _moved(request, replay_id, begin.cancel, "The replay is stopped. What is done is kept; it can be resumed.")


@require_POST
@permitted(may(permissions.START_REPLAY))
def resume(request: Request, replay_id: UUID) -> HttpResponse:
    """Go on with a replay that was stopped."""
    return _moved(request, replay_id, begin.resume, "The replay goes on.")


def _moved(request: Request, replay_id: UUID, move: Any, said: str) -> HttpResponse:
    try:
        move(replay_id, by=request.user)
    except Replay.DoesNotExist:
        raise Http404 from None
    except begin.NotNow as error:
        messages.error(request, str(error))
    else:
        messages.success(request, said)
    return redirect("recovery:replay", replay_id)


def _page(replay_id: UUID) -> str:
    return reverse("recovery:replay", args=[replay_id])


@require_POST
@keeps_typed(_page, "reason", anchor="#judge")
@permitted(may_read)
def judge_items(request: Request, replay_id: UUID) -> HttpResponse:
    """Accept or reject the changes that were chosen, those of a group, or all that nobody judged yet."""
    said = request.POST
    row = _row(replay_id)
    try:
        numbers = _numbers(row, said)
        word = judge.judgement_of(said.get("judgement", ""))
        number = judge.judge(replay_id, numbers, word, by=request.user, reason=said.get("reason", ""))
    except (ValueError, PermissionError) as error:
        return _shown(request, row, sentence(error), said)
    messages.success(request, f"{number:,} change{'s' if number > 1 else ''} {word.value}.")
    back = said.get("back", "")
    return redirect(_page(replay_id) + (f"?{back}" if back else "") + "#changes")


def _numbers(row: Replay, said: Any) -> list[int] | None:
    """The changes that a form means; None for all that nobody judged. Raises InputError."""
    which = said.get("which", "chosen")
    if which == "all":
        return None
    if which.startswith("group:"):
        # A group is named by the first of its attempts.
        group = next((one for one in find.groups(row) if f"group:{one.first}" == which), None)
        if group is None:
            raise InputError("which: there is no such group any more; look at the page anew")
        return find.of_group(row, group)
    numbers = [int(text) for text in said.getlist("item") if text.isascii() and text.isdigit() and len(text) < 10]
    if not numbers:
        raise InputError("items: choose at least one change")
    return numbers


@require_safe
@permitted(may_read)
def export(request: Request, replay_id: UUID, form: str) -> HttpResponse:
    """The attempts of the address as a file."""
    if form not in FORMS:
        raise Http404
    row, asked = _row(replay_id), ItemsForm(request.GET)
    if asked.errors:
        return redirect(f"{_page(replay_id)}?{request.GET.urlencode()}")
    response: HttpResponse = exported(row, asked.rows(row), form)  # type: ignore[assignment]
    return response
