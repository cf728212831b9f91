"""Reading the store: querysets that pages and API share."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.postgres.aggregates import ArrayAgg
from django.db import models
from django.db.models import Count, Exists, Max, Min, OuterRef, Prefetch, Q, Subquery, Sum
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from verdicts.own import own

if TYPE_CHECKING:
    from verdicts.models import Attempt, AttributionRequest, Node, UnrecognisedLine, Verdict
else:
    Attempt = AttributionRequest = Node = UnrecognisedLine = Verdict = models.Model

#: A time, or the database's own.
Moment = datetime | Combinable

#: The order of every list of verdicts unless another is asked for: what ended last comes first.
VERDICT_ORDER = ("-happened_at", "-created_at", "id")


class VerdictQuerySet(models.QuerySet["Verdict"]):
    """Verdicts, with what the list and the detail need in a fixed number of queries."""

    def current(self) -> "VerdictQuerySet":
        """The verdicts that stand: one for each attempt that has any."""
        return self.filter(is_current=True)

    def for_list(self) -> "VerdictQuerySet":
        """Rows for a list: without the body, which may be large."""
        return (
            self.select_related("attempt", "attempt__cluster", "attempt__workload", "ruleset")
            .prefetch_related("nodes")
            .defer("body", "body_json", "attempt__body")
        )

    def for_detail(self) -> "VerdictQuerySet":
        """One verdict with everything its page shows."""
        return self.select_related("attempt", "attempt__cluster", "attempt__workload", "ruleset").prefetch_related(
            "nodes", "reviews__author"
        )

    def history_of(self, attempt_id: object) -> "VerdictQuerySet":
        """All verdicts of an attempt, the newest first."""
        return self.filter(attempt_id=attempt_id).order_by("-number")


class AttemptQuerySet(models.QuerySet["Attempt"]):
    """Attempts with their standing verdict."""

    def for_list(self) -> "AttemptQuerySet":
        """Rows for a list, each with `standing`: a list of its current verdict or of none."""
        model = apps.get_model("verdicts", "Verdict")
        standing = VerdictQuerySet(model).current().defer("body", "body_json").prefetch_related("nodes")
        return self.select_related("cluster", "workload").prefetch_related(
            "nodes", Prefetch("verdicts", queryset=standing, to_attr="standing")
        )


class NodeQuerySet(models.QuerySet["Node"]):
    """Machines and how often they were named."""

    def for_list(self) -> "NodeQuerySet":
        """Nodes with `blamed`: in how many standing verdicts they are affected."""
        named: models.QuerySet[Any] = apps.get_model("verdicts", "Verdict").nodes.through.objects.filter(
            node=OuterRef("pk")
        )
        standing = named.filter(own("verdict__attempt"), verdict__is_current=True).order_by().values("node")
        # Of each node by itself: joined, all verdicts would be counted before a page of nodes is cut.
        blamed = Coalesce(Subquery(standing.annotate(number=Count("verdict")).values("number")), 0)
        return self.select_related("cluster").annotate(blamed=blamed).order_by("cluster__name", "name", "id")

    def own(self) -> "NodeQuerySet":
        """Without those that nothing of this site named: machines of another site, and those of a drill."""
        attempt, verdict = apps.get_model("verdicts", "Attempt"), apps.get_model("verdicts", "Verdict")
        ran, blamed = attempt.nodes.through.objects, verdict.nodes.through.objects
        # From the few that are not ours: an index has them, and most sites have none. Each is then looked for among
        # ours by itself: all nodes of all attempts are never gone through.
        others = attempt.objects.filter(~own())
        named = ran.filter(attempt__in=others).values("node")
        foreign = named.union(blamed.filter(verdict__attempt__in=others).values("node"))
        ours = Exists(ran.filter(own("attempt"), node=OuterRef("pk"))) | Exists(
            blamed.filter(own("verdict__attempt"), node=OuterRef("pk"))
        )
        only = apps.get_model("verdicts", "Node").objects.filter(~ours, pk__in=foreign)
        return self.exclude(pk__in=only.order_by().values("pk"))


class UnrecognisedQuerySet(models.QuerySet["UnrecognisedLine"]):
    """Error lines that no rule knew, over many attempts of this site. Only what stands counts: no line counts twice."""

    def within(self, after: datetime | None, before: datetime | None) -> "UnrecognisedQuerySet":
        """Those of standing verdicts whose attempt ended within the time given."""
        found = self.filter(own("verdict__attempt"), verdict__is_current=True)
        if after is not None:
            found = found.filter(verdict__happened_at__gte=after)
        return found.filter(verdict__happened_at__lt=before) if before is not None else found

    def templates(self) -> models.QuerySet[Any, dict[str, Any]]:
        """One row for each template: how often, in how many attempts, where, from when to when."""
        return self.values("digest").annotate(
            text=Min("template"),
            lines=Sum("count"),
            attempts=Count("verdict__attempt_id", distinct=True),
            sources=ArrayAgg("source", distinct=True),
            ends=Count("verdict_id", filter=Q(near_end=True), distinct=True),
            first=Min("verdict__happened_at"),
            last=Max("verdict__happened_at"),
            rulesets=ArrayAgg("verdict__ruleset__digest", distinct=True),
        )
