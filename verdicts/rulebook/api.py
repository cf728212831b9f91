"""The REST API about rules: the same readings as the pages, as JSON."""

from typing import Any

import msgspec
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from rules import coverage, show
from rules.attempt import InputError
from verdicts import conclude
from verdicts.listing.api_paging import Pages
from verdicts.listing.form import ListForm
from verdicts.models import UnrecognisedLine
from verdicts.permissions import ReadOnly
from verdicts.rulebook import catalogue, drift, find
from verdicts.rulebook.drift_form import DriftForm
from verdicts.rulebook.find import DraftForm, UnrecognisedForm
from verdicts.serializers import page_of

#: Attempts that the answer about one template names; the page turns through all.
MOST_ATTEMPTS = 100


def parameters(form: type[ListForm], **also: str) -> list[OpenApiParameter]:
    """A list's filters for the API's description; `also` has those that a form makes only when it is used."""
    found = [
        OpenApiParameter(name, str, many=True, enum=[word for word, _ in words], description=form.labels[name])
        for name, words in form.sets.items()
    ]
    found += [
        OpenApiParameter(name, str, enum=[word for word, _ in words], description=form.labels[name])
        for name, words in form.choices.items()
    ]
    found += [OpenApiParameter(name, str, description=form.labels[name]) for name in form.texts]
    found += [OpenApiParameter(name, OpenApiTypes.DATETIME, description=form.labels[name]) for name in form.times]
    found += [OpenApiParameter(name, str, many=True, description=text) for name, text in also.items()]
    if form.orders:
        orders = ", ".join(form.orders)
        found.append(OpenApiParameter("order", str, description=f"{orders}; a leading minus turns it round."))
    return found


class _Read(APIView):
    """Readers read."""

    permission_classes = [ReadOnly]


class RuleRowSerializer(serializers.Serializer[Any]):
    """A rule in the list; `findings`, `attempts` are of standing verdicts of the last 30 days, `last` of all.

    Where more than 20,000 attempts ended in the 30 days, the latest 20,000 are counted.
    """

    id = serializers.CharField()
    title = serializers.CharField()
    symptom = serializers.CharField()
    role = serializers.CharField()
    domain = serializers.CharField(allow_null=True)
    maturity = serializers.CharField()
    sources = serializers.ListField(child=serializers.CharField())
    groups = serializers.ListField(child=serializers.CharField())
    findings = serializers.IntegerField(allow_null=True, help_text="null: its matches leave no finding.")
    attempts = serializers.IntegerField(allow_null=True)
    last = serializers.DateTimeField(allow_null=True)


class TemplateRowSerializer(serializers.Serializer[Any]):
    """A template of error lines that no rule knew."""

    digest = serializers.CharField()
    template = serializers.CharField(source="text")
    lines = serializers.IntegerField()
    attempts = serializers.IntegerField()
    near_end = serializers.IntegerField(help_text="In how many attempts it came near the end of a log.")
    sources = serializers.ListField(child=serializers.CharField())
    first = serializers.DateTimeField()
    last = serializers.DateTimeField()
    first_ever = serializers.DateTimeField(source="ever")
    rulesets = serializers.ListField(child=serializers.CharField())
    images = serializers.ListField(child=serializers.CharField())
    example = serializers.CharField(source="example.example")
    known_as = serializers.ListField(child=serializers.CharField(), help_text="Rules in force that match it now.")


class Rules(GenericAPIView[Any]):
    """The rules in force."""

    permission_classes = [ReadOnly]
    pagination_class = Pages
    serializer_class = RuleRowSerializer
    filter_backends: list[Any] = []

    @extend_schema(
        operation_id="rules_list",
        parameters=parameters(
            catalogue.RuleForm,
            subject="Folder of the rule.",
            domain="Domain that it blames.",
            role="What it can be in a failure.",
            maturity="draft, trial or stable.",
            source="Where such lines normally are.",
        ),
        responses={200: RuleRowSerializer(many=True)},
    )
    def get(self, request: Request) -> Response:
        form = catalogue.RuleForm(request.query_params, conclude.current_ruleset())
        _refuse(form)
        rows = self.paginate_queryset(form.rows(find.uses(find.counted_since())))
        return self.get_paginated_response(RuleRowSerializer([_row(row) for row in rows or []], many=True).data)


class RuleDetail(_Read):
    """One rule, as `inquest rules show --json` prints it, with its examples and its use in the last 30 days."""

    @extend_schema(operation_id="rules_retrieve", responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def get(self, request: Request, rule_id: str) -> Response:
        ruleset = conclude.current_ruleset()
        plain = catalogue.as_json(ruleset, rule_id)
        if plain is None:
            raise NotFound("There is no such rule in the ruleset in force.")
        since = find.counted_since()
        use = find.uses(since, [rule_id]).get(rule_id, catalogue.Use())
        made_of = {status.value: number for status, number in find.made_of(rule_id, since).items()}
        used = {
            "since": since,
            "findings": use.findings,
            "attempts": use.attempts,
            "last": use.last,
            "made_of": made_of,
            "fired_on": find.fired_on(rule_id, since, MOST_ATTEMPTS),
            "demoted": find.demoted_by(rule_id, since, MOST_ATTEMPTS),
        }
        return Response({**plain, "use": used, "ruleset": ruleset.digest})


class RuleCoverage(_Read):
    """Published failure classes and Xid numbers × rules."""

    @extend_schema(
        parameters=parameters(catalogue.CoverageForm), responses={(200, "application/json"): OpenApiTypes.OBJECT}
    )
    def get(self, request: Request) -> Response:
        form = catalogue.CoverageForm(request.query_params)
        _refuse(form)
        ruleset = conclude.current_ruleset()
        table = catalogue.coverage_map(ruleset)
        if form.value("show") == "gaps":
            table = msgspec.structs.replace(
                table,
                taxonomies=catalogue.taxonomies(table, gaps=True),
                xids=[xid for xid in table.xids if not xid.rules],
            )
        return Response({**coverage.as_json(table), "ruleset": ruleset.digest})


class UnrecognisedTemplates(GenericAPIView[Any]):
    """Templates of error lines that no rule knew, over the attempts that ended in a time."""

    permission_classes = [ReadOnly]
    pagination_class = Pages
    serializer_class = TemplateRowSerializer
    filter_backends: list[Any] = []

    @extend_schema(
        operation_id="unrecognised_list",
        parameters=parameters(UnrecognisedForm),
        responses={200: TemplateRowSerializer(many=True)},
    )
    def get(self, request: Request) -> Response:
        form = UnrecognisedForm(request.query_params)
        _refuse(form)
        grouped = self.paginate_queryset(form.templates())
        rows = find.template_rows(grouped or [], conclude.current_ruleset())
        return self.get_paginated_response(TemplateRowSerializer(rows, many=True).data)


class Template(_Read):
    """One template: the attempts that have it, and the rule that `inquest rules new` would draft."""

    @extend_schema(
        operation_id="unrecognised_retrieve",
        parameters=parameters(DraftForm),
        responses={(200, "application/json"): OpenApiTypes.OBJECT},
    )
    def get(self, request: Request, digest: str) -> Response:
        form = DraftForm(request.query_params)
        _refuse(form)
        lines = find.lines_of(digest)
        found = list(
            lines.select_related("verdict__attempt")
            .defer("verdict__body", "verdict__body_json", "verdict__attempt__body")
            .order_by("-verdict__happened_at", "id")[:MOST_ATTEMPTS]
        )
        if not found:
            raise NotFound("No standing verdict has such a line.")
        totals = find.totals(digest, lines)
        try:
            draft = form.draft(found[0])
            drafted: dict[str, Any] = {
                "rule": draft.rule_id,
                "file": str(draft.path),
                "pattern": draft.pattern,
                "toml": draft.text,
                "command": find.command(found[0], draft, form),
            }
        except InputError as error:
            drafted = {"error": str(error)}
        return Response(
            {
                "digest": digest,
                "template": found[0].template,
                "lines": totals["count"],
                "attempts": totals["attempts"],
                "sources": sorted(totals["sources"]),
                "first": totals["first"],
                "last": totals["last"],
                "known_as": find.known_as(conclude.current_ruleset(), found[0]),
                "rulesets": [_version(one) for one in find.versions_of(lines, find.RULESET)],
                "images": [_version(one) for one in find.versions_of(lines, find.IMAGE)],
                "seen": [_seen(line) for line in found],
                "draft": drafted,
            }
        )


class Drift(_Read):
    """Signs that a rule no longer sees what it saw: two windows of stored attempts compared."""

    @extend_schema(parameters=parameters(DriftForm), responses={(200, "application/json"): OpenApiTypes.OBJECT})
    def get(self, request: Request) -> Response:
        form = DriftForm(request.query_params)
        _refuse(form)
        return Response(drift.report_json(drift.report(form.days, until=form.until)))


def _refuse(form: ListForm) -> None:
    if form.errors:
        raise ValidationError({name: [text] for name, text in form.errors.items()})


def _row(row: catalogue.RuleRow) -> dict[str, Any]:
    use = row.use
    counted = {} if row.uncounted else {"findings": use.findings, "attempts": use.attempts}
    return {"findings": None, "attempts": None, **show.summary(row.rule), **counted, "last": use.last}


def _version(version: find.Version) -> dict[str, Any]:
    return {"name": version.name, "attempts": version.attempts, "first": version.first, "last": version.last}


def _seen(line: UnrecognisedLine) -> dict[str, Any]:
    verdict = line.verdict
    return {
        "attempt": verdict.attempt_id,
        "job_id": verdict.attempt.job_id,
        "verdict": verdict.pk,
        "page": page_of(verdict),
        "ended_at": verdict.ended_at,
        "domain": verdict.domain,
        "source": line.source,
        "count": line.count,
        "near_end": line.near_end,
        "node": line.node,
        "ref": line.ref,
        "example": line.example,
    }
