"""The verdict list: parse, read, render. What can be looked for is in `filters.py`, what is done in its writers."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from rules.attempt import InputError
from rules.words import Domain
from verdicts import permissions, wording
from verdicts.guard import Request, part_wanted, permitted
from verdicts.listing import bulk
from verdicts.listing.export import FORMS, exported
from verdicts.listing.facets import Known
from verdicts.listing.filter_form import FilterForm, given
from verdicts.listing.keep_views import delete_view, may_share, save_view, set_shortcuts, shortcuts_of, views_of
from verdicts.listing.keyset import Slice
from verdicts.listing.read import Answer, answer, asked, lines, problems
from verdicts.listing.text_search import NEWEST, has_trigrams
from verdicts.models import Attempt, ListRow, SavedView
from verdicts.record import NotPermitted

_DONE = {bulk.Action.ATTRIBUTE: "asked for a new attribution", bulk.Action.COMMENT: "commented on"}
#: Rows that a page asks for anew at once: no more than it shows.
MOST_POLLED = 100


@require_safe
@permitted(permissions.may_read)
def verdict_list(request: Request) -> HttpResponse:
    """The attempts and their standing verdicts, filtered, sorted and paged by what the address says."""
    filters = asked(given(request.GET))
    form = FilterForm(filters)
    # A filter that cannot be understood finds nothing and says so: everything would look like an answer.
    found = Answer(Slice([], 0, None, None), 0, more=False) if form.problems else answer(filters)
    ids = [row.pk for row in found.page.rows] if found.is_whole else found.ids
    form.known = Known(ids=ids, everywhere=found.everywhere)
    part = part_wanted(request, "results")
    context: dict[str, Any] = {
        "section": "verdicts",
        "form": form,
        "answer": found,
        "next": form.at(found.page.next) if found.page.next else "",
        "previous": form.at(found.page.previous) if found.page.previous else "",
        "part": part,
        "in_newest": NEWEST if form.text and not has_trigrams() else 0,
        **_rights(request.user),
    }
    if part:
        return render(request, "verdicts/list.html#results", context)
    views = list(views_of(request.user))
    context |= {
        "own_views": [view for view in views if view.owner_id == request.user.pk],
        "shared_views": [view for view in views if view.owner_id != request.user.pk],
        "may_share": may_share(request.user),
        "shortcuts": shortcuts_of(request.user),
        "nothing_stored": not found.lines and not form.chips and not form.problems and not Attempt.objects.exists(),
    }
    return render(request, "verdicts/list.html", context)


def _rights(user: User) -> dict[str, Any]:
    """What may be done to the rows that are chosen."""
    may_review, may_attribute = permissions.may_review(user), permissions.may_attribute(user)
    return {
        "may_review": may_review,
        "may_attribute": may_attribute,
        "may_choose": may_review or may_attribute,
        "domains": [(domain.value, wording.DOMAINS[domain].text) for domain in Domain],
    }


@require_safe
@permitted(permissions.may_read)
def rows(request: Request) -> HttpResponse:
    """The rows of some attempts as they are now: what a list asks for of those that can still change."""
    named = _ids(request.GET.getlist("attempt"))[:MOST_POLLED]
    found = ListRow.objects.filter(attempt_id__in=named, is_current=True).only("pk")
    return render(request, "verdicts/_list_rows.html", {"lines": lines(found), **_rights(request.user)})


@require_safe
@permitted(permissions.may_read)
def export(request: Request, form: str) -> HttpResponse:
    """All rows of the address as a file."""
    if form not in FORMS:
        raise Http404
    filters = asked(given(request.GET))
    if problems(filters):  # the list says what is wrong with it
        return redirect(f"{reverse('verdicts:list')}?{request.GET.urlencode()}")
    response: HttpResponse = exported(filters, form)  # type: ignore[assignment]
    return response


@require_POST
@permitted(permissions.may_read)
def apply_bulk(request: Request) -> HttpResponse:
    """Do one thing to the rows chosen, and say of each what became of it."""
    said = request.POST
    context: dict[str, Any] = {"section": "verdicts", "back": _back(request, said.get("back", ""))}
    try:
        action = bulk.Action(said.get("action", ""))
        domain = said.get("actual_domain", "")
        outcomes = bulk.apply(
            _ids(said.getlist("row")),
            action,
            by=request.user,
            note=said.get("note", "").strip()[:10_000],
            actual_domain=Domain(domain) if domain else None,
        )
    except ValueError as error:
        context["problem"] = _sentence(error) if isinstance(error, InputError) else "Choose what to do."
    except NotPermitted as error:
        context["problem"] = _sentence(error)
    else:
        context |= {
            "outcomes": outcomes,
            "done": sum(outcome.done for outcome in outcomes),
            "refused": [outcome for outcome in outcomes if not outcome.done],
            "word": _DONE.get(action, "labelled"),
        }
    return render(request, f"verdicts/bulk.html{'#outcome' if part_wanted(request, 'bulk-outcome') else ''}", context)


def _sentence(error: Exception) -> str:
    """An error as a sentence for people: without the field that tools need."""
    said = str(error)
    field, colon, rest = said.partition(": ")
    text = rest if colon and field.replace("_", "").isalpha() else said
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _ids(given_ids: list[str]) -> list[UUID]:
    """The ids among what was sent; anything else names no row."""
    found = []
    for text in given_ids:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


def _back(request: HttpRequest, address: str) -> str:
    """The list that somebody came from, if it is one of ours."""
    start = reverse("verdicts:list")
    safe = address.startswith(f"{start}?") and url_has_allowed_host_and_scheme(address, {request.get_host()})
    return address if safe else start


@require_POST
@permitted(permissions.may_read)
def keep_view(request: Request) -> HttpResponse:
    """Save the list as it is under a name."""
    query = request.POST.get("query", "")
    try:
        view = save_view(
            request.POST.get("name", ""), query, by=request.user, shared=request.POST.get("shared") == "on"
        )
    except (InputError, NotPermitted) as error:
        messages.error(request, _sentence(error))
        return redirect(_back(request, f"{reverse('verdicts:list')}?{query}"))
    messages.success(request, f"The view “{view.name}” is saved.")
    return redirect(f"{reverse('verdicts:list')}?{view.query}")


@require_POST
@permitted(permissions.may_read)
def drop_view(request: Request, view_id: UUID) -> HttpResponse:
    """Forget a view of one's own."""
    try:
        delete_view(view_id, by=request.user)
    except SavedView.DoesNotExist:
        raise Http404 from None
    messages.success(request, "The view is deleted.")
    return redirect(_back(request, request.POST.get("back", "")))


@require_POST
@permitted(permissions.may_read)
def shortcuts(request: Request) -> HttpResponse:
    """Switch the single keys on or off."""
    on = request.POST.get("on") == "true"
    set_shortcuts(on, by=request.user)
    if request.htmx or request.headers.get("Accept") == "application/json":
        return JsonResponse({"shortcuts": on})
    return redirect(_back(request, request.POST.get("back", "")))
