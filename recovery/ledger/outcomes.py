"""Reading what came of proposals: by policy, rule, reviewer and month, and whether the diagnosis under them was right.

Two questions that are counted apart. That a restart worked does not make its diagnosis right; that a precaution was not
the cause does not make it a mistake.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django.db.models import CharField, Count, F, FilteredRelation, Func, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, TruncMonth

from recovery.models import Case
from recovery.words import CaseLabel, DecisionKind, Outcome
from verdicts.intervals import Share, share

#: Nobody said anything, and nothing was seen.
UNSAID = "none"
#: Rows of a table; what has fewer proposals than these is found by its filter.
MOST_GROUPS = 100
FINAL = (DecisionKind.APPROVE.value, DecisionKind.REJECT.value)
#: What says that the cause was another. The third of them says so too, and that it was reasonable all the same.
_NOT_RIGHT = (CaseLabel.WRONG.value, CaseLabel.PRECAUTION.value)
_LABEL = Subquery(Case.objects.filter(proposal=OuterRef("pk"), replaced_at__isnull=True).values("label")[:1])
#: The rule that found the cause; by hand, or where only a symptom is known, the cause as it was given.
_RULE = Func(
    Func(F("cause"), Value("^budget:"), Value(""), function="regexp_replace"),
    Value("@"),
    Value(1),
    function="split_part",
    output_field=CharField(),
)


def told(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Proposals with the label of their diagnosis and the rule that found the cause."""
    return rows.annotate(
        label=Coalesce(_LABEL, Value(UNSAID), output_field=CharField()), rule=_RULE, month=TruncMonth("created_at")
    )


@dataclass
class Group:
    """Proposals that have something in common, and what came of them: by outcome and label together."""

    name: str
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """How many they are."""
        return self.counted.total()

    @property
    def outcomes(self) -> Counter[str]:
        """How many had which outcome."""
        found: Counter[str] = Counter()
        for (outcome, _), number in self.counted.items():
            found[outcome] += number
        return found

    @property
    def labels(self) -> Counter[str]:
        """Of how many was found what about the diagnosis."""
        found: Counter[str] = Counter()
        for (_, label), number in self.counted.items():
            found[label] += number
        return found

    @property
    def worked(self) -> Share:
        """Those that worked, of those that did or did not."""
        of = self.outcomes
        return share(of[Outcome.WORKED.value], of[Outcome.WORKED.value] + of[Outcome.DID_NOT.value])

    @property
    def right(self) -> Share:
        """Those whose diagnosis was right, of those of which that was found out. A precaution was not the cause."""
        of = self.labels
        right = of[CaseLabel.RIGHT.value]
        return share(right, right + sum(of[word] for word in _NOT_RIGHT))

    @property
    def mistaken(self) -> Share:
        """Those that rest on a mistaken explanation, of the same: reasonable precautions are not among them."""
        of = self.labels
        return share(of[CaseLabel.WRONG.value], self.right.whole)

    @property
    def worked_for_no_reason(self) -> int:
        """Those that worked although the cause was another: success would be taken for a right diagnosis."""
        return sum(self.counted[Outcome.WORKED.value, word] for word in _NOT_RIGHT)


#: What the table can be by, and the column that says it.
BY = {"policy": "version__policy__name", "rule": "rule", "reviewer": "final__by__username", "month": "month"}
#: Where there is none.
NOBODY = {"policy": "by hand", "reviewer": "decided by nobody"}


def grouped(rows: QuerySet[Any], by: str) -> tuple[list[Group], bool]:
    """What came of proposals of `told`, by what they have in common; whether there are more groups than are told.

    A proposal that two people decided on is counted with both of them.
    """
    column = BY[by]
    if by == "reviewer":
        rows = rows.annotate(final=FilteredRelation("decisions", condition=Q(decisions__kind__in=FINAL)))
    counted = rows.order_by().values_list(column, "outcome", "label").annotate(number=Count("pk", distinct=True))
    found: dict[str, Group] = {}
    for key, outcome, label, number in counted:
        name = f"{key:%Y-%m}" if by == "month" else str(key or NOBODY.get(by, ""))
        found.setdefault(name, Group(name)).counted[outcome or UNSAID, label] += number
    order = (
        sorted(found.values(), key=lambda one: one.name, reverse=True)
        if by == "month"
        else sorted(found.values(), key=lambda one: (-one.total, one.name))
    )
    return order[:MOST_GROUPS], len(order) > MOST_GROUPS


def together(rows: QuerySet[Any]) -> Group:
    """What came of all of them."""
    counted = rows.order_by().values_list("outcome", "label").annotate(number=Count("pk", distinct=True))
    group = Group("all")
    for outcome, label, number in counted:
        group.counted[outcome or UNSAID, label] += number
    return group
