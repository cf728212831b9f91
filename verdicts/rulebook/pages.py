"""The pages about rules: the catalogue, what it covers, what it does not know, and where it drifts."""

from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from rules.attempt import InputError
from verdicts import conclude, permissions
from verdicts.guard import Request, part_wanted, permitted
from verdicts.listing.paging import PAGE_SIZE, page_of
from verdicts.models import Attempt, DriftCheck, Finding, UnrecognisedLine
from verdicts.rulebook import catalogue, drift, find
from verdicts.rulebook.drift_form import DriftForm
from verdicts.rulebook.find import DraftForm, UnrecognisedForm

RULES_A_PAGE = 50
MOST_LATEST = 5
MOST_LISTED = 12


@require_safe
@permitted(permissions.may_read)
def catalogue_list(request: Request) -> HttpResponse:
    """The rules in force, filtered, sorted and paged by what the address says."""
    ruleset = conclude.current_ruleset()
    form = catalogue.RuleForm(request.GET, ruleset)
    since = find.counted_since()
    rows = form.rows({} if form.errors else find.uses(since))
    context = {
        "section": "rules",
        "tab": "catalogue",
        "form": form,
        "since": since,
        "page": Paginator(rows, RULES_A_PAGE).get_page(request.GET.get("page")),
        "ruleset": ruleset,
    }
    return _whole_or_results(request, "rules/list.html", context)


@require_safe
@permitted(permissions.may_read)
def rule_detail(request: Request, rule_id: str) -> HttpResponse:
    """One rule as an operator reads it, and what the store has of it; a former rule says that it is gone."""
    ruleset = conclude.current_ruleset()
    shown = catalogue.view(ruleset, rule_id)
    if shown is None and not Finding.objects.filter(rule=rule_id).exists():
        raise Http404
    since = find.counted_since()
    context: dict[str, Any] = {
        "section": "rules",
        "tab": "catalogue",
        "rule_id": rule_id,
        "since": since,
        "shown": shown,
        "ruleset": ruleset,
        "use": find.uses(since, [rule_id]).get(rule_id, catalogue.Use()),
        "uncounted": shown is not None and shown.rule.role in catalogue.LEAVE_NOTHING,
        "made_of": find.made_of(rule_id, since),
        "latest": find.latest_with(rule_id, MOST_LATEST),
        "fired_on": find.fired_on(rule_id, since, MOST_LISTED),
        "demoted": find.demoted_by(rule_id, since, MOST_LISTED),
    }
    return render(request, "rules/detail.html", context, status=200 if shown else 404)


@require_safe
@permitted(permissions.may_read)
def coverage(request: Request) -> HttpResponse:
    """Published failure classes and Xid numbers, and the rules that know them."""
    ruleset = conclude.current_ruleset()
    form = catalogue.CoverageForm(request.GET)
    table = catalogue.coverage_map(ruleset)
    gaps = form.value("show") == "gaps"
    context = {
        "section": "rules",
        "tab": "coverage",
        "form": form,
        "gaps": gaps,
        "ruleset": ruleset,
        "taxonomies": [] if form.errors else catalogue.taxonomies(table, gaps=gaps),
        "xids": [] if form.errors else [xid for xid in table.xids if not (gaps and xid.rules)],
        "known_xids": sum(1 for xid in table.xids if xid.rules),
        "all_xids": len(table.xids),
        "without": catalogue.without_rule(table),
        "xid_source": table.xid_source,
    }
    return render(request, "rules/coverage.html", context)


@require_safe
@permitted(permissions.may_read)
def unrecognised(request: Request) -> HttpResponse:
    """Templates of error lines that no rule knew, over the attempts of a time."""
    form = UnrecognisedForm(request.GET)
    page = Paginator(form.templates(), PAGE_SIZE).get_page(request.GET.get("page"))
    after, before = form.span
    context = {
        "section": "rules",
        "tab": "unrecognised",
        "form": form,
        "page": page,
        "rows": find.template_rows(page.object_list, conclude.current_ruleset()),
        "after": after,
        "before": before,
        "nothing_stored": not page.paginator.count and not UnrecognisedLine.objects.exists(),
    }
    return _whole_or_results(request, "rules/unrecognised.html", context)


@require_safe
@permitted(permissions.may_read)
def template_detail(request: Request, digest: str) -> HttpResponse:
    """One template: where it was seen, with which versions, and the rule that could be made of it."""
    lines = find.lines_of(digest)
    page = page_of(
        lines.select_related("verdict__attempt__cluster", "verdict__attempt__workload")
        .defer("verdict__body", "verdict__body_json", "verdict__attempt__body")
        .order_by("-verdict__happened_at", "id"),
        request.GET.get("page"),
    )
    newest = page[0] if page.number == 1 and len(page) else lines.order_by("-verdict__happened_at", "id").first()
    if newest is None:
        raise Http404
    query = request.GET.copy()
    form = DraftForm(query)
    context: dict[str, Any] = {
        "section": "rules",
        "tab": "unrecognised",
        "line": newest,
        "page": page,
        "totals": find.totals(digest, lines),
        "rulesets": find.versions_of(lines, find.RULESET),
        "images": find.versions_of(lines, find.IMAGE),
        "known_as": find.known_as(conclude.current_ruleset(), newest),
        "form": form,
    }
    try:
        draft = form.draft(newest)
        context |= {"draft": draft, "command": find.command(newest, draft, form)}
    except InputError as error:
        context["refused"] = str(error)
    return render(request, "rules/template.html", context)


@require_safe
@permitted(permissions.may_read)
def drifted(request: Request) -> HttpResponse:
    """What changed in what the rules see, from one time to the next."""
    form = DriftForm(request.GET)
    context = {
        "section": "rules",
        "tab": "drift",
        "form": form,
        "report": None if form.errors else drift.report(form.days, until=form.until),
        "last_check": DriftCheck.objects.order_by("-checked_at").first(),
        "nothing_stored": not Attempt.objects.exists(),
    }
    return render(request, "rules/drift.html", context)


def _whole_or_results(request: Request, template: str, context: dict[str, Any]) -> HttpResponse:
    part = part_wanted(request, "results")
    return render(request, f"{template}#results" if part else template, context | {"part": part})
