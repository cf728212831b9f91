"""The verdict list: parse, read, render. What can be looked for is in `filters.py`."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from verdicts import permissions, presentation
from verdicts.filter_form import FilterForm, given
from verdicts.filters import VerdictFilter
from verdicts.guard import Request, part_wanted, permitted
from verdicts.models import Attempt, Verdict
from verdicts.paging import page_of

MOST_WAITING = 5


@require_safe
@permitted(permissions.may_read)
def verdict_list(request: Request) -> HttpResponse:
    """The standing verdicts, filtered, sorted and paged by what the address says."""
    filters = VerdictFilter(given(request.GET), queryset=Verdict.objects.for_list())
    form = FilterForm(filters)
    # A filter that cannot be understood finds nothing and says so: everything would look like an answer.
    found = Verdict.objects.none() if form.errors else filters.qs
    page = page_of(found, request.GET.get("page"))
    context = {
        "section": "verdicts",
        "form": form,
        "page": page,
        "rows": [(verdict, presentation.coverage(verdict.coverage)) for verdict in page],
        "part": part_wanted(request, "results"),
    }
    if context["part"]:
        return render(request, "verdicts/list.html#results", context)
    waiting = list(Attempt.objects.filter(verdicts=None).select_related("workload").defer("body")[: MOST_WAITING + 1])
    context |= {
        "waiting": waiting[:MOST_WAITING],
        "waiting_more": len(waiting) > MOST_WAITING,
        "nothing_stored": not page.paginator.count and not waiting and not Attempt.objects.exists(),
    }
    return render(request, "verdicts/list.html", context)
