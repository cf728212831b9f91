"""Reading the store by rule and by unrecognised line: what the pages about rules and their API share."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db import connection
from django.db.models import Count, F, Max, Min, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform
from django.http import QueryDict
from django.utils import timezone

from rules import extract, scaffold
from rules.attempt import InputError
from rules.observation import Observation
from rules.ruleset import Ruleset
from rules.words import Domain, Role, Source
from verdicts import wording
from verdicts.choices import FindingStatus, Origin
from verdicts.latest import since_latest
from verdicts.listing.form import ListForm
from verdicts.listing.text_search import found_words
from verdicts.models import Finding, ListRow, UnrecognisedLine, Verdict
from verdicts.rulebook.catalogue import Use

#: How far back the counts of the catalogue go.
COUNTED = timedelta(days=30)
#: Where a drafted rule would go, said of its file.
SITE_RULES = Path("site-rules")
#: Lines of a template that are read of each: its images and example are of those stored last, when it was first seen
#: is told by those stored first.
FEW, FIRST_FEW = 20, 4
#: And lines that the page of one template counts.
MOST_LINES = 2_000
IMAGE = KeyTextTransform("image", "verdict__attempt__body")
RULESET = F("verdict__ruleset__digest")


def counted_since() -> datetime:
    """Since when rules are counted: `COUNTED` days, less where so many attempts ended in them that fewer are."""
    since = timezone.now() - COUNTED
    return since_latest(since) or since


def uses(since: datetime, rules: Iterable[str] | None = None) -> dict[str, Use]:
    """How often each rule was found in standing verdicts since then, and when last, however long ago."""
    found = Finding.objects.filter(verdict__is_current=True).order_by()
    known = set(found_words("rule", "") if rules is None else rules)
    if rules is not None:
        found = found.filter(rule__in=known)
    recent = found.filter(verdict__happened_at__gte=since).values_list("rule")
    counted = recent.annotate(Count("id"), Count("verdict_id", distinct=True), Max("verdict__happened_at"))
    told = {rule: Use(findings=findings, attempts=attempts, last=last) for rule, findings, attempts, last in counted}
    # What matched lately did so last then; the others are few, and only when is wanted.
    older = found.filter(rule__in=known - set(told)).values_list("rule").annotate(Max("verdict__happened_at"))
    return told | {rule: Use(findings=0, attempts=0, last=last) for rule, last in older}


def made_of(rule: str, since: datetime) -> dict[FindingStatus, int]:
    """In how many standing verdicts since then a rule's findings were the cause, a candidate, explained, kept."""
    found = Finding.objects.filter(rule=rule, verdict__is_current=True, verdict__happened_at__gte=since)
    counted = dict(found.order_by().values_list("status").annotate(Count("verdict_id", distinct=True)))
    return {status: counted[status.value] for status in FindingStatus if status.value in counted}


def demoted_by(rule: str, since: datetime, most: int) -> list[dict[str, Any]]:
    """The symptoms that a rule's findings explained away in standing verdicts since then, the most frequent first."""
    found = Finding.objects.filter(explained_by=rule, verdict__is_current=True, verdict__happened_at__gte=since)
    counted = found.values("symptom", "rule").annotate(attempts=Count("verdict_id", distinct=True))
    return [dict(row) for row in counted.order_by("-attempts", "symptom", "rule")[:most]]


def fired_on(rule: str, since: datetime, most: int) -> list[dict[str, Any]]:
    """The nodes that a rule's findings were on, of whatever became of them, the most frequent first."""
    found = Finding.objects.filter(rule=rule, verdict__is_current=True, verdict__happened_at__gte=since)
    counted = found.exclude(node="").values("node", cluster=F("verdict__attempt__cluster__name"))
    ordered = counted.annotate(attempts=Count("verdict_id", distinct=True)).order_by("-attempts", "cluster", "node")
    return [dict(row) for row in ordered[:most]]


def latest_with(rule: str, most: int) -> list[Verdict]:
    """The standing verdicts that have a finding of a rule, the latest first."""
    rows = ListRow.objects.filter(is_current=True, verdict__isnull=False, tags__overlap=[f"r:{rule}"])
    latest = list(rows.order_by("-happened_at", "-id").values_list("verdict_id", flat=True)[:most])
    found = Verdict.objects.for_list().in_bulk(latest)
    return [found[pk] for pk in latest if pk in found]


class UnrecognisedForm(ListForm):
    """What unrecognised lines can be looked through by. `after` and `before` take the place of `days`."""

    labels = {
        "text": "Text",
        "source": "Source",
        "days": "Ended within",
        "after": "Ended from",
        "before": "Ended before",
        "near_end": "Near the end",
        "seen": "First seen",
    }
    texts = ("text",)
    sets = {"source": [(word.value, wording.SOURCES[word]) for word in Source]}
    choices = {
        "days": [("30", "30 days"), ("1", "1 day"), ("7", "7 days"), ("90", "90 days"), ("all", "any time")],
        "near_end": [("any", "anywhere"), ("yes", "near the end of a log")],
        "seen": [("any", "at any time"), ("new", "in this time only")],
    }
    times = ("after", "before")
    orders = {"attempts": "-", "lines": "-", "last": "-", "first": "-"}
    usual = "-attempts"

    def __init__(self, query: QueryDict, *, now: datetime | None = None) -> None:
        super().__init__(query)
        self.now = now or timezone.now()

    @cached_property
    def span(self) -> tuple[datetime | None, datetime | None]:
        """From when to when attempts ended; a number of days that is none of those to choose from says nothing."""
        after, before = self._asked
        return (after, before) if self.errors else (since_latest(after, before), before)

    @property
    def counted_since(self) -> datetime | None:
        """Since when the attempts are that are counted, where the time asked for has more of them than are."""
        return None if self.errors or self.span[0] == self._asked[0] else self.span[0]

    @cached_property
    def _asked(self) -> tuple[datetime | None, datetime | None]:
        after, before = self.moment("after"), self.moment("before")
        days = self.value("days") or ("all" if after or before else "30")
        if after is None and days != "all" and "days" not in self.errors:
            after = (before or self.now) - timedelta(days=int(days))
        return after, before

    def templates(self) -> QuerySet[Any, dict[str, Any]]:
        """The templates that match, in the order asked for."""
        if self.errors:
            return UnrecognisedLine.objects.none().templates().order_by("digest")
        after, before = self.span
        found = UnrecognisedLine.objects.within(after, before)
        if sources := self.values("source"):
            found = found.filter(source__in=sources)
        for word in self.value("text").split()[:8]:
            found = found.filter(template__icontains=word)
        if self.value("near_end") == "yes":
            found = found.filter(near_end=True)
        if self.value("seen") == "new" and after is not None:
            first = first_seen(found.order_by().values_list("digest", flat=True).distinct())
            found = found.filter(digest__in=[digest for digest, at in first.items() if at >= after])
        return found.templates().order_by(self.order, "-lines", "digest")


@dataclass(frozen=True, kw_only=True)
class TemplateRow:
    """A template of unrecognised lines over many attempts. `known_as` are rules of today that match its example."""

    digest: str
    text: str
    lines: int
    attempts: int
    near_end: int
    sources: list[str]
    first: datetime
    last: datetime
    rulesets: list[str]
    images: list[str]
    example: UnrecognisedLine
    ever: datetime
    known_as: list[str]


def template_rows(grouped: Iterable[dict[str, Any]], ruleset: Ruleset) -> list[TemplateRow]:
    """Rows with what a page shows of them: an example each, when first seen ever, what rules of today say."""
    grouped = list(grouped)
    digests = [row["digest"] for row in grouped]
    ever, latest = first_seen(digests), _latest_of(digests)
    examples: dict[str, UnrecognisedLine] = {}
    images: dict[str, set[str]] = {}
    lines = UnrecognisedLine.objects.filter(pk__in=latest).annotate(image=IMAGE)
    for line in sorted(lines, key=lambda line: -latest[line.pk].timestamp()):
        examples.setdefault(line.digest, line)
        images.setdefault(line.digest, set()).update([line.image] if line.image else [])
    return [
        TemplateRow(
            digest=row["digest"],
            text=row["text"],
            lines=row["lines"],
            attempts=row["attempts"],
            near_end=row["ends"],
            sources=sorted(row["sources"]),
            first=row["first"],
            last=row["last"],
            rulesets=sorted(row["rulesets"]),
            images=sorted(images[row["digest"]]),
            example=examples[row["digest"]],
            ever=min(ever.get(row["digest"], row["first"]), row["first"]),
            known_as=known_as(ruleset, examples[row["digest"]]),
        )
        for row in grouped
        if row["digest"] in examples  # superseded between two of our queries
    ]


_STANDING_LINE = f"""
    FROM verdicts_unrecognisedline AS line
    JOIN verdicts_verdict AS verdict ON verdict.id = line.verdict_id AND verdict.is_current
    JOIN verdicts_attempt AS attempt ON attempt.id = verdict.attempt_id AND attempt.origin = '{Origin.OWN.value}'
    WHERE line.digest = wanted.digest
"""


def first_seen(digests: Iterable[str]) -> dict[str, datetime]:
    """When the first attempt with each template ended, by the few standing lines of it that were stored first."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT wanted.digest, min(first.at) FROM unnest(%s::text[]) AS wanted (digest),
            LATERAL (SELECT verdict.happened_at AS at {_STANDING_LINE} ORDER BY line.id LIMIT {FIRST_FEW}) AS first
            GROUP BY wanted.digest
            """,  # noqa: S608 -- made of constants
            [list(digests)],
        )
        return dict(cursor.fetchall())


def _latest_of(digests: Iterable[str]) -> dict[int, datetime]:
    """The few lines of each template that were stored last and stand, with when their attempts ended."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT latest.id, latest.at FROM unnest(%s::text[]) AS wanted (digest),
            LATERAL (SELECT line.id, verdict.happened_at AS at {_STANDING_LINE} ORDER BY line.id DESC LIMIT {FEW})
            AS latest
            """,  # noqa: S608 -- made of constants
            [list(digests)],
        )
        return dict(cursor.fetchall())


def known_as(ruleset: Ruleset, line: UnrecognisedLine) -> list[str]:
    """The rules in force that match a line which no rule knew when its verdict was made."""
    given = Observation(source=Source(line.source), body=line.example, ref=line.ref or "store")
    return list(dict.fromkeys(found.rule.id for found in extract.sightings(ruleset, given)))


@dataclass(frozen=True, kw_only=True)
class Version:
    """Under which rules or in which image a template was seen, in how many attempts, from when to when."""

    name: str
    attempts: int
    first: datetime
    last: datetime


def versions_of(lines: QuerySet[UnrecognisedLine], field: Any) -> list[Version]:
    """A template's attempts by ruleset or by image, the latest first."""
    counted = (
        lines.order_by()
        .annotate(version=field)
        .values("version")
        .annotate(
            attempts=Count("verdict__attempt_id", distinct=True),
            first=Min("verdict__happened_at"),
            last=Max("verdict__happened_at"),
        )
    )
    return [
        Version(name=row["version"], attempts=row["attempts"], first=row["first"], last=row["last"])
        for row in counted.order_by("-last")[:20]
        if row["version"]
    ]


def lines_of(digest: str) -> QuerySet[UnrecognisedLine]:
    """The lines of a template that stand, of those that were stored last: its page counts and turns through these."""
    latest = UnrecognisedLine.objects.filter(digest=digest).order_by("-pk").values("pk")[:MOST_LINES]
    return UnrecognisedLine.objects.within(None, None).filter(pk__in=latest)


def totals(digest: str, lines: QuerySet[UnrecognisedLine]) -> dict[str, Any]:
    """A template's lines and attempts, of `lines_of`; `more` says that there may be more of them than are counted."""
    found = lines.aggregate(
        rows=Count("pk"),
        count=Sum("count"),
        attempts=Count("verdict__attempt_id", distinct=True),
        first=Min("verdict__happened_at"),
        last=Max("verdict__happened_at"),
        sources=ArrayAgg("source", distinct=True),
    )
    first = first_seen([digest]).get(digest, found["first"])
    return found | {"first": min(first, found["first"]), "more": found["rows"] == MOST_LINES}


def command(line: UnrecognisedLine, draft: scaffold.Draft, form: "DraftForm") -> str:
    """The command that writes the draft to a file where the rules are kept; the line is quoted for a shell."""
    words = ["inquest", "rules", "new", "--source", str(draft.source), "--id", draft.rule_id]
    for name in ("title", "role", "domain"):
        if (value := form.value(name)) and value != "none":
            words += [f"--{name}", value]
    # A line may begin with a dash.
    return shlex.join([*words, "--", line.example])


class DraftForm(ListForm):
    """What a draft may be given: the rest is guessed from the line."""

    labels = {"id": "Id", "title": "Title", "role": "Role", "domain": "Domain"}
    texts = ("id", "title")
    choices = {
        "role": [(Role.SYMPTOM.value, wording.ROLES[Role.SYMPTOM])]
        + [(word.value, wording.ROLES[word]) for word in Role if word is not Role.SYMPTOM],
        "domain": [("none", "none")]
        + [
            (word.value, wording.DOMAINS[word].text)
            for word in Domain
            if word not in (Domain.AMBIGUOUS, Domain.UNATTRIBUTED, Domain.NO_FAILURE)
        ],
    }

    def draft(self, line: UnrecognisedLine) -> scaffold.Draft:
        """The rule that `inquest rules new` would write for a line. Raises InputError where it would refuse."""
        if self.errors:
            raise InputError(" ".join(self.errors.values()))
        domain = self.value("domain")
        return scaffold.draft(
            line.example,
            SITE_RULES,
            rule_id=self.value("id"),
            title=self.value("title"),
            source=Source(line.source),
            role=Role(self.value("role") or Role.SYMPTOM),
            domain=Domain(domain) if domain and domain != "none" else None,
        )
