"""What an address asks of the outcomes, for page, API and export alike."""

from functools import cached_property
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import QueryDict

from recovery import wording
from recovery.ledger import outcomes
from recovery.models import Decision, Proposal
from recovery.words import OPEN_PROPOSALS, ActionKind, CaseLabel, Outcome, ProposalState
from verdicts.listing.form import ListForm
from verdicts.models import Cluster

_NONE = (outcomes.UNSAID, "Nobody said")
_OVER = [state for state in ProposalState if state not in OPEN_PROPOSALS]


class OutcomesForm(ListForm):
    """Proposals that are over, those that were proposed last first."""

    labels = {
        "by": "By",
        "outcome": "What came of it",
        "label": "The diagnosis",
        "state": "How it ended",
        "action": "Action",
        "planted": "Planted faults",
        "policy": "Policy",
        "rule": "Rule",
        "reviewer": "Reviewer",
        "cluster": "Cluster",
        "after": "Proposed from",
        "before": "Proposed before",
    }
    choices = {
        "by": [("policy", "policy"), ("rule", "rule"), ("reviewer", "who decided"), ("month", "month")],
        "planted": [("no", "left out"), ("only", "only these"), ("all", "counted too")],
    }
    sets = {
        "outcome": [*((word.value, wording.OUTCOMES[word].text) for word in Outcome), _NONE],
        "label": [*((word.value, wording.LABELS[word].text) for word in CaseLabel), _NONE],
        "state": [(word.value, wording.PROPOSALS[word].text) for word in _OVER],
        "action": [(word.value, wording.ACTIONS[word]) for word in ActionKind],
    }
    texts = ("policy", "rule", "reviewer")
    times = ("after", "before")

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query)
        names = Cluster.objects.order_by("name").values_list("name", flat=True)
        self.choices = {**self.choices, "cluster": [("", "all"), *((name, name) for name in names if name)]}

    @property
    def by(self) -> str:
        """What the table is by; by policy where the address says nothing that is understood."""
        by = self.value("by")
        return by if by in dict(self.choices["by"]) else "policy"

    @cached_property
    def rows(self) -> QuerySet[Any]:
        """The proposals asked for, with label and rule; none where the address cannot be understood."""
        rows: QuerySet[Any] = Proposal.objects.filter(state__in=[state.value for state in _OVER])
        rows = outcomes.told(rows).order_by("-created_at", "id")
        if self.errors:
            return rows.none()
        planted = self.value("planted") or "no"
        if planted != "all":
            rows = rows.filter(injected=planted == "only")
        for name, column in (("state", "state"), ("action", "action"), ("label", "label")):
            if values := self.values(name):
                rows = rows.filter(**{f"{column}__in": values})
        if values := self.values("outcome"):
            rows = rows.filter(outcome__in=["" if value == outcomes.UNSAID else value for value in values])
        if policy := self.value("policy"):
            rows = rows.filter(Q(version=None) if policy == "none" else Q(version__policy__name=policy))
        if rule := self.value("rule"):
            rows = rows.filter(rule__startswith=rule[:-1]) if rule.endswith("*") else rows.filter(rule=rule)
        if reviewer := self.value("reviewer"):
            final = Decision.objects.filter(proposal=OuterRef("pk"), kind__in=outcomes.FINAL)
            rows = rows.filter(~Exists(final) if reviewer == "none" else Exists(final.filter(by__username=reviewer)))
        if cluster := self.value("cluster"):
            rows = rows.filter(attempt__cluster__name=cluster)
        if (after := self.moment("after")) is not None:
            rows = rows.filter(created_at__gte=after)
        if (before := self.moment("before")) is not None:
            rows = rows.filter(created_at__lt=before)
        return rows

    @cached_property
    def shown(self) -> QuerySet[Proposal]:
        """The same with what a list shows of them."""
        return (
            self.rows.select_related(
                "attempt__cluster", "attempt__workload", "verdict", "version__policy", "outcome_by", "made_by"
            )
            .defer("verdict__body", "verdict__body_json", "attempt__body", "plan", "plan_json")
            .prefetch_related("decisions__by")
        )

    def within(self, name: str) -> str:
        """The address of what one row of the table is about; empty where no filter says that."""
        if self.by == "month":
            return ""
        data = self.data.copy()
        data.pop("page", None)
        data[self.by] = "none" if name == outcomes.NOBODY.get(self.by) else name
        return "?" + data.urlencode()
