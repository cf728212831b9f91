"""How often verdicts are wrong, from what people said of them: counted, with exact intervals, and with its bias named.

A case is a standing verdict on which the standing reviews agree that it is right or wrong. What people cannot tell, and
what they disagree on, is counted apart. Several attempts of one fault are several cases.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from django.db.models import Count
from django.db.models.functions import Extract

from rules.words import STRENGTHS, Domain, Strength
from verdicts.choices import Label
from verdicts.fleet.find import Span
from verdicts.intervals import Share, share
from verdicts.listing.filters import NOT_ANALYSED
from verdicts.models import ListRow, Review, Verdict
from verdicts.own import own

#: More reviews of one time are not looked at; the latest are.
MOST_REVIEWS = 50_000
MOST_WAITS = 5_000
#: Verdicts that name no cause: what they cannot be is confidently wrong.
OPEN = (Domain.AMBIGUOUS.value, Domain.UNATTRIBUTED.value)
#: The strengths by the step that the list has of them.
STEPS_OF = ("", *(word.value for word in STRENGTHS))
STRONGEST_FIRST = (Strength.STRONG.value, Strength.MODERATE.value, Strength.WEAK.value)
ORDER = tuple(word.value for word in Domain)
#: Bounds of the time to a verdict, in seconds, with their names.
STEPS = ((10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (86400, "1 day"))
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Case:
    """A verdict that was decided on: what it said, with what strength, and what it really was."""

    said: str
    strength: str
    right: bool
    actual: str


@dataclass(frozen=True)
class ByDomain:
    """How good the verdicts of one domain are."""

    domain: str
    precision: Share
    recall: Share


@dataclass(frozen=True)
class Point:
    """What follows if only verdicts of a strength or more are believed: how many are left, and how many are wrong."""

    strength: str
    coverage: Share
    risk: Share


@dataclass(frozen=True)
class Stratum:
    """Verdicts of one strength: how many there are, and how many of them were decided on."""

    strength: str
    verdicts: int
    decided: Share
    wrong: Share


@dataclass(frozen=True)
class Waiting:
    """The time from an attempt becoming known to its first verdict; `without` have none yet."""

    count: int
    without: int
    percentiles: dict[int, float | None]
    steps: list[tuple[str, int]]


@dataclass
class Quality:
    """All that the page shows."""

    span: Span
    cases: list[Case] = field(default_factory=list)
    undecidable: int = 0
    disputed: int = 0
    twice: int = 0
    #: Standing verdicts of the time by domain and strength.
    standing: dict[tuple[str, str], int] = field(default_factory=dict)
    cut: bool = False
    #: When somebody last said something of a verdict of the time.
    latest_review: datetime | None = None

    @cached_property
    def wrong(self) -> Share:
        """Wrong among what was decided."""
        return share(sum(1 for case in self.cases if not case.right), len(self.cases))

    @cached_property
    def agreement(self) -> Share:
        """Verdicts that several people looked at, and of which all said the same."""
        return share(self.twice - self.disputed, self.twice)

    @cached_property
    def verdicts(self) -> int:
        """Standing verdicts of the time."""
        return sum(self.standing.values())

    @cached_property
    def decided(self) -> Share:
        """How many of them were decided on."""
        return share(min(len(self.cases), self.verdicts), self.verdicts)

    @cached_property
    def domains(self) -> list[str]:
        """The domains that occur, in their order."""
        seen = {case.said for case in self.cases} | {case.actual for case in self.cases}
        return [domain for domain in ORDER if domain in seen]

    @cached_property
    def matrix(self) -> list[tuple[str, list[int], int]]:
        """For each domain that was said: how often it really was each domain, and how often in all."""
        counted = Counter((case.said, case.actual) for case in self.cases)
        rows = [(said, [counted[said, actual] for actual in self.domains]) for said in self.domains]
        return [(said, numbers, sum(numbers)) for said, numbers in rows]

    @cached_property
    def by_domain(self) -> list[ByDomain]:
        """Precision (of what was said) and recall (of what it really was) of each domain."""
        found = []
        for domain in self.domains:
            said = [case for case in self.cases if case.said == domain]
            really = [case for case in self.cases if case.actual == domain]
            hits = sum(1 for case in said if case.right)
            found.append(ByDomain(domain, share(hits, len(said)), share(hits, len(really))))
        return found

    @cached_property
    def points(self) -> list[Point]:
        """The coverage–risk curve, from believing only the strongest to believing every verdict that names a cause."""
        found = []
        for number in range(1, len(STRONGEST_FIRST) + 1):
            believed = set(STRONGEST_FIRST[:number])
            answered = sum(n for (domain, of), n in self.standing.items() if of in believed and domain not in OPEN)
            cases = [case for case in self.cases if case.strength in believed and case.said not in OPEN]
            wrong = sum(1 for case in cases if not case.right)
            found.append(Point(STRONGEST_FIRST[number - 1], share(answered, self.failures), share(wrong, len(cases))))
        return found

    @cached_property
    def failures(self) -> int:
        """Standing verdicts on attempts that did not go well: those that a cause could be named for."""
        return sum(number for (domain, _), number in self.standing.items() if domain != Domain.NO_FAILURE.value)

    @cached_property
    def strata(self) -> list[Stratum]:
        """By strength: who looks at what. The empty strength is that of verdicts that name no cause."""
        found = []
        for strength in (*STRONGEST_FIRST, ""):
            verdicts = sum(number for (_, of), number in self.standing.items() if of == strength)
            cases = [case for case in self.cases if case.strength == strength]
            wrong = sum(1 for case in cases if not case.right)
            decided = share(min(len(cases), verdicts), verdicts)
            found.append(Stratum(strength, verdicts, decided, share(wrong, len(cases))))
        return found

    @cached_property
    def weighted(self) -> float | None:
        """The share that would be wrong if of each strength the others were wrong as often as what was decided on."""
        known = [stratum for stratum in self.strata if stratum.wrong.value is not None]
        whole = sum(stratum.verdicts for stratum in known)
        if not whole:
            return None
        return sum((stratum.wrong.value or 0.0) * stratum.verdicts for stratum in known) / whole

    @cached_property
    def extremes(self) -> tuple[float, float] | None:
        """The share that is wrong if all that was not decided on were right, and if all of it were wrong."""
        if not self.verdicts or not self.cases:
            return None
        wrong, rest = self.wrong.count, max(self.verdicts - len(self.cases), 0)
        whole = len(self.cases) + rest
        return wrong / whole, (wrong + rest) / whole


def measured(span: Span, *, cluster: str = "", ruleset: str = "") -> Quality:
    """The quality of the verdicts of a time, of all clusters and rulesets or of one."""
    found = Quality(span)
    rows = ListRow.objects.filter(
        own(), is_current=True, happened_at__gte=span.after, happened_at__lt=span.before
    ).exclude(domain=NOT_ANALYSED)
    reviews = Review.objects.filter(
        own("verdict__attempt"),
        replaced_at__isnull=True,
        verdict__is_current=True,
        verdict__happened_at__gte=span.after,
        verdict__happened_at__lt=span.before,
    )
    if cluster:
        rows, reviews = rows.filter(cluster=cluster), reviews.filter(verdict__attempt__cluster__name=cluster)
    if ruleset:
        rows = rows.filter(ruleset__startswith=ruleset)
        reviews = reviews.filter(verdict__ruleset__digest__startswith=ruleset)
    # By the step of the strength, which indexes carry: no row is read for it.
    counted = rows.values_list("domain", "strength_step").annotate(number=Count("id")).order_by()
    found.standing = {(domain, STEPS_OF[step]): number for domain, step, number in counted}
    said = list(
        reviews.order_by("-created_at").values_list(
            "created_at", "verdict_id", "verdict__domain", "verdict__strength", "label", "actual_domain"
        )[: MOST_REVIEWS + 1]
    )
    found.latest_review = said[0][0] if said else None
    found.cut = len(said) > MOST_REVIEWS
    by_verdict: dict[object, list[tuple[str, str, str, str]]] = {}
    for _, verdict, *rest in said[:MOST_REVIEWS]:
        by_verdict.setdefault(verdict, []).append(tuple(rest))  # type: ignore[arg-type]
    for given in by_verdict.values():
        _decide(found, given)
    return found


def _decide(found: Quality, given: Sequence[tuple[str, str, str, str]]) -> None:
    """Count what people said of one verdict."""
    domain, strength, _, _ = given[0]
    answers = {(label, actual) for _, _, label, actual in given if label != Label.UNDECIDABLE.value}
    found.twice += sum(1 for _, _, label, _ in given if label != Label.UNDECIDABLE.value) > 1
    if not answers:
        found.undecidable += 1
    elif len(answers) > 1:
        found.disputed += 1
    else:
        label, actual = answers.pop()
        right = label == Label.RIGHT.value
        found.cases.append(Case(domain, strength, right, domain if right else actual))


def waiting(span: Span, *, cluster: str = "") -> Waiting:
    """How long attempts waited that had their first verdict in a time, the latest of them, or have none yet."""
    first = Verdict.objects.filter(number=1, created_at__gte=span.after, created_at__lt=span.before)
    rows = ListRow.objects.filter(
        own(), is_current=True, verdict__isnull=True, created_at__gte=span.after, created_at__lt=span.before
    )
    if cluster:
        first, rows = first.filter(attempt__cluster__name=cluster), rows.filter(cluster=cluster)
    # The latest first and then their attempts: joined before they are cut, all would be read.
    latest = first.order_by("-created_at").values("pk")[:MOST_WAITS]
    waits = (
        Verdict.objects.filter(own("attempt"), pk__in=latest)
        .annotate(began=Extract("attempt__created_at", "epoch"), ended=Extract("created_at", "epoch"))
        .values_list("began", "ended")
    )
    seconds = sorted(max(float(ended - began), 0.0) for began, ended in waits)
    without = rows.count()
    steps, below = [], 0
    for bound, name in STEPS:
        number = sum(1 for wait in seconds if wait < bound)
        steps.append((f"under {name}", number - below))
        below = number
    steps.append((f"{STEPS[-1][1]} or more", len(seconds) - below))
    # Who still waits is longer than all that is known: left out, the figures would flatter.
    whole = len(seconds) + without
    marks = {percent: _percentile(seconds, percent, whole) for percent in PERCENTILES}
    return Waiting(len(seconds), without, marks, steps)


def _percentile(seconds: Sequence[float], percent: int, whole: int) -> float | None:
    """The time within which so many percent had their verdict; None if fewer had one, or too few are known."""
    if whole * (100 - percent) < 100:
        return None
    place = -(-whole * percent // 100) - 1
    return seconds[place] if 0 <= place < len(seconds) else None
