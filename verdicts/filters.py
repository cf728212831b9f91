"""Filters and orders of the lists: one set each for the API and the page."""

from collections.abc import Iterable
from typing import Any

import django_filters as filters
from django.db.models import Case, Exists, OuterRef, Q, Value, When
from django.http import QueryDict

from rules.words import STRENGTHS, Domain, State, Strength
from verdicts.choices import FindingStatus, Label, Mode
from verdicts.find import VERDICT_ORDER, AttemptQuerySet, VerdictQuerySet
from verdicts.models import Attempt, Finding, Review, Verdict


def _choices(words: Iterable[str]) -> list[tuple[str, str]]:
    return [(str(word), str(word)) for word in words]


class VerdictOrder(filters.OrderingFilter):
    """Orders by name; a leading minus turns one round. Ties take the usual order, so that pages do not overlap."""

    def filter(self, qs: VerdictQuerySet, value: list[str] | None) -> VerdictQuerySet:
        if not value:
            return qs.order_by(*VERDICT_ORDER)
        if any(name.lstrip("-") == "strength" for name in value):
            steps = [When(strength=word.value, then=Value(step)) for step, word in enumerate(STRENGTHS, start=1)]
            qs = qs.annotate(strength_step=Case(*steps, default=Value(0)))
        return qs.order_by(*(self.get_ordering_value(name) for name in value), *VERDICT_ORDER)


class VerdictFilter(filters.FilterSet):
    """What verdicts can be looked for by.

    `symptom` may end in `*`. `after` and `before` bound the time at which the attempt ended (or began, if
    no end is known); what still runs is always among the answers.
    """

    cluster = filters.CharFilter(method="by_cluster", help_text="Name of a cluster; may be repeated.")
    workload = filters.CharFilter(
        field_name="attempt__workload__name",
        lookup_expr="exact",
        help_text="Name of a workload.",
    )
    job = filters.CharFilter(
        field_name="attempt__job_id",
        lookup_expr="exact",
        help_text="The scheduler's job id.",
    )
    attempt = filters.UUIDFilter(field_name="attempt_id", help_text="Id of an attempt.")
    domain = filters.MultipleChoiceFilter(choices=_choices(Domain), help_text="Attributed domain; may be repeated.")
    state = filters.MultipleChoiceFilter(choices=_choices(State), help_text="Terminal state; may be repeated.")
    strength = filters.MultipleChoiceFilter(
        choices=[*_choices(Strength), ("none", "none")],
        method="by_strength",
        help_text="Strength of the verdict, or none; may be repeated.",
    )
    mode = filters.ChoiceFilter(choices=_choices(Mode), help_text="How it was asked for.")
    node = filters.CharFilter(method="by_node", help_text="Name of an affected node.")
    symptom = filters.CharFilter(method="by_symptom", help_text='A symptom, or the start of some: "nccl_*".')
    rule = filters.CharFilter(method="by_rule", help_text="Id of a rule that fired.")
    status = filters.MultipleChoiceFilter(
        choices=_choices(FindingStatus),
        method="by_nothing",
        help_text="What the verdict made of the symptom or rule that is looked for; may be repeated.",
    )
    review = filters.ChoiceFilter(
        choices=[*_choices(Label), ("none", "none"), ("any", "any")],
        method="by_review",
        help_text="The label that a standing review gives it; none: not reviewed.",
    )
    after = filters.IsoDateTimeFilter(method="by_nothing", help_text="Ended at this time or later (RFC 3339).")
    before = filters.IsoDateTimeFilter(method="by_nothing", help_text="Ended before this time.")
    created_after = filters.IsoDateTimeFilter(
        field_name="created_at", lookup_expr="gte", help_text="Written then or later."
    )
    created_before = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt", help_text="Written before.")
    superseded = filters.BooleanFilter(
        method="by_nothing",
        help_text="true: older verdicts too, not only those that stand.",
    )
    text = filters.CharFilter(
        method="by_text",
        help_text="Words of the headline, job id, workload, user or node.",
    )
    order = VerdictOrder(
        fields=[
            ("happened_at", "ended"),
            ("created_at", "created"),
            ("domain", "domain"),
            ("state", "state"),
            ("strength_step", "strength"),
            ("attempt__job_id", "job"),
            ("attempt__workload__name", "workload"),
            ("attempt__cluster__name", "cluster"),
        ],
        help_text="Order; a leading minus turns it round.",
    )

    class Meta:
        model = Verdict
        fields: list[str] = []

    def filter_queryset(self, queryset: VerdictQuerySet) -> VerdictQuerySet:
        """Apply the filters that work together, then the others."""
        cleaned = self.form.cleaned_data
        if not cleaned.get("superseded") and not cleaned.get("attempt"):
            queryset = queryset.current()
        queryset = queryset.happened_within(cleaned.get("after"), cleaned.get("before"))
        return super().filter_queryset(queryset)

    def by_nothing(self, queryset: VerdictQuerySet, name: str, value: Any) -> VerdictQuerySet:
        """For fields that `filter_queryset` or another filter reads."""
        return queryset

    def by_cluster(self, queryset: VerdictQuerySet, name: str, value: str) -> VerdictQuerySet:
        """Verdicts of any of the clusters named."""
        return queryset.filter(attempt__cluster__name__in=_repeated(self.data, "cluster", value))

    def by_strength(self, queryset: VerdictQuerySet, name: str, value: list[str]) -> VerdictQuerySet:
        """Verdicts of any of the strengths."""
        return queryset.filter(strength__in=["" if word == "none" else word for word in value])

    def by_node(self, queryset: VerdictQuerySet, name: str, value: str) -> VerdictQuerySet:
        """Verdicts that name the node as affected."""
        affected = Verdict.nodes.through.objects.filter(verdict_id=OuterRef("pk"), node__name=value)
        return queryset.filter(Exists(affected))

    def by_symptom(self, queryset: VerdictQuerySet, name: str, value: str) -> VerdictQuerySet:
        """Verdicts with a finding of the symptom, whatever was made of it."""
        return self._with_finding(queryset, "symptom", value)

    def by_rule(self, queryset: VerdictQuerySet, name: str, value: str) -> VerdictQuerySet:
        """Verdicts with a finding of the rule."""
        return self._with_finding(queryset, "rule", value)

    def by_review(self, queryset: VerdictQuerySet, name: str, value: str) -> VerdictQuerySet:
        """Verdicts by what people said of them."""
        standing = Review.objects.filter(verdict_id=OuterRef("pk"), replaced_at__isnull=True)
        if value == "none":
            return queryset.filter(~Exists(standing))
        return queryset.filter(Exists(standing if value == "any" else standing.filter(label=value)))

    def by_text(self, queryset: VerdictQuerySet, name: str, value: str) -> VerdictQuerySet:
        """Verdicts in which every word occurs somewhere."""
        for word in value.split()[:8]:
            affected = Verdict.nodes.through.objects.filter(verdict_id=OuterRef("pk"), node__name__icontains=word)
            queryset = queryset.filter(
                Q(headline__icontains=word)
                | Q(attempt__job_id__icontains=word)
                | Q(attempt__workload__name__icontains=word)
                | Q(attempt__user__icontains=word)
                | Exists(affected)
            )
        return queryset

    def _with_finding(self, queryset: VerdictQuerySet, field: str, value: str) -> VerdictQuerySet:
        lookup = {f"{field}__startswith": value[:-1]} if value.endswith("*") else {field: value}
        found = Finding.objects.filter(verdict_id=OuterRef("pk"), **lookup)
        if wanted := self.form.cleaned_data.get("status"):
            found = found.filter(status__in=wanted)
        return queryset.filter(Exists(found))


class AttemptFilter(filters.FilterSet):
    """What attempts can be looked for by. `state` is the scheduler's own word."""

    cluster = filters.CharFilter(method="by_cluster", help_text="Name of a cluster; may be repeated.")
    workload = filters.CharFilter(field_name="workload__name", help_text="Name of a workload.")
    job = filters.CharFilter(field_name="job_id", help_text="The scheduler's job id.")
    scheduler = filters.CharFilter(field_name="scheduler", help_text="slurm, kubernetes or static.")
    state = filters.CharFilter(
        field_name="state",
        lookup_expr="istartswith",
        help_text="The scheduler's word, or its start.",
    )
    user = filters.CharFilter(field_name="user", help_text="Whose job it was.")
    node = filters.CharFilter(method="by_node", help_text="Name of a node it ran on.")
    after = filters.IsoDateTimeFilter(
        field_name="ended_at",
        lookup_expr="gte",
        help_text="Ended at this time or later.",
    )
    before = filters.IsoDateTimeFilter(field_name="ended_at", lookup_expr="lt", help_text="Ended before this time.")
    judged = filters.BooleanFilter(method="by_judged", help_text="Whether it has a verdict.")
    order = filters.OrderingFilter(
        fields=[("ended_at", "ended"), ("created_at", "created"), ("job_id", "job")],
        help_text="Order; a leading minus turns it round.",
    )

    class Meta:
        model = Attempt
        fields: list[str] = []

    def by_cluster(self, queryset: AttemptQuerySet, name: str, value: str) -> AttemptQuerySet:
        """Attempts of any of the clusters named."""
        return queryset.filter(cluster__name__in=_repeated(self.data, "cluster", value))

    def by_node(self, queryset: AttemptQuerySet, name: str, value: str) -> AttemptQuerySet:
        """Attempts that had the node."""
        given = Attempt.nodes.through.objects.filter(attempt_id=OuterRef("pk"), node__name=value)
        return queryset.filter(Exists(given))

    def by_judged(self, queryset: AttemptQuerySet, name: str, value: bool) -> AttemptQuerySet:
        """Attempts with or without a verdict."""
        verdicts = Verdict.objects.filter(attempt_id=OuterRef("pk"), is_current=True)
        return queryset.filter(Exists(verdicts) if value else ~Exists(verdicts))


def _repeated(data: QueryDict | dict[str, Any], name: str, value: str) -> list[str]:
    """All values of a parameter that may be repeated."""
    values = data.getlist(name) if isinstance(data, QueryDict) else [value]
    return [word for word in values if word]


def unknown_parameters(data: Iterable[str], known: type[filters.FilterSet], also: Iterable[str] = ()) -> list[str]:
    """Names in a query that no filter knows: a misspelt filter must not answer with everything."""
    return sorted(set(data) - set(known.base_filters) - set(also))
