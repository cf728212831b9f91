"""What attempts can be looked for by, for the API."""

import django_filters as filters
from django.db.models import Exists, OuterRef

from verdicts.find import AttemptQuerySet
from verdicts.listing.moment_filter import MomentFilter
from verdicts.listing.parameters import LISTED, choices_of, repeated
from verdicts.models import Attempt, Verdict


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
    after = MomentFilter(
        field_name="ended_at",
        lookup_expr="gte",
        help_text="Ended at this time or later.",
    )
    before = MomentFilter(field_name="ended_at", lookup_expr="lt", help_text="Ended before this time.")
    origin = filters.ChoiceFilter(
        choices=choices_of(LISTED), help_text="own: of this site; imported: from a record of another site."
    )
    judged = filters.ChoiceFilter(
        choices=[("true", "true"), ("false", "false")], method="by_judged", help_text="Whether it has a verdict."
    )
    order = filters.OrderingFilter(
        fields=[("ended_at", "ended"), ("created_at", "created"), ("job_id", "job")],
        help_text="Order; a leading minus turns it round.",
    )

    class Meta:
        model = Attempt
        fields: list[str] = []

    def by_cluster(self, queryset: AttemptQuerySet, name: str, value: str) -> AttemptQuerySet:
        """Attempts of any of the clusters named."""
        return queryset.filter(cluster__name__in=repeated(self.data, "cluster", value))

    def by_node(self, queryset: AttemptQuerySet, name: str, value: str) -> AttemptQuerySet:
        """Attempts that had the node."""
        given = Attempt.nodes.through.objects.filter(attempt_id=OuterRef("pk"), node__name=value)
        return queryset.filter(Exists(given))

    def by_judged(self, queryset: AttemptQuerySet, name: str, value: str) -> AttemptQuerySet:
        """Attempts with or without a verdict."""
        verdicts = Verdict.objects.filter(attempt_id=OuterRef("pk"), is_current=True)
        return queryset.filter(Exists(verdicts) if value == "true" else ~Exists(verdicts))
