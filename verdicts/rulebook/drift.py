"""Parser drift over the stored attempts: two windows out of the store, compared by `rules.drift`."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import (
    Count,
    DurationField,
    ExpressionWrapper,
    F,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    TextField,
    Value,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Extract, Greatest
from django.utils import timezone

from rules import drift
from rules.rule import Rule
from rules.ruleset import Ruleset
from verdicts import conclude
from verdicts.latest import since_latest
from verdicts.models import Attempt, DriftCheck, Finding, UnrecognisedLine, Verdict
from verdicts.own import own
from verdicts.rulebook.catalogue import LEAVE_NOTHING
from verdicts.rulebook.find import IMAGE, first_seen

log = structlog.get_logger("inquest.rules")

DAYS = 7
MOST_DAYS = 180
#: A rule that should have been found in fewer attempts than this may be silent by chance: none of five expected
#: happens once in a hundred and fifty times.
LEAST_EXPECTED = 5.0
#: Rules and templates that a log line names; the page and the API have all.
MOST_LOGGED = 20


@dataclass(frozen=True, kw_only=True)
class Sign:
    """A sign of drift, with what its rule was seen with, or with which version its template came."""

    kind: str
    rule: str
    before: int
    after: int
    text: str
    example: str = ""
    template: str = ""  # digest of the template, where one is meant
    since: list[str] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What changed from one window of attempts to the next."""

    days: int
    start: datetime
    middle: datetime
    until: datetime
    attempts_before: int
    attempts_after: int
    ruleset: str
    changes: list[str]
    signs: list[Sign]
    new_templates: int  # new ones that no version change goes with, which are no sign

    @property
    def by_kind(self) -> dict[str, list[Sign]]:
        """The signs by kind, in their order."""
        kinds: dict[str, list[Sign]] = {}
        for sign in self.signs:
            kinds.setdefault(sign.kind, []).append(sign)
        return kinds


@dataclass
class _Stored:
    """A window out of the store: what `rules.drift` compares, and which versions were there."""

    window: drift.Window
    rulesets: set[str]
    images: set[str]
    attempts_with: Counter[str] = field(default_factory=Counter)


def report(days: int = DAYS, *, until: datetime | None = None, ruleset: Ruleset | None = None) -> Report:
    """Compare the last `days` before `until` with as many before them."""
    ruleset = ruleset or conclude.current_ruleset()
    until = until or timezone.now()
    # Both times as long as each other, and neither with more attempts than are looked at.
    length = _fitting(timedelta(days=days), until)
    length = _fitting(length, until - length)
    middle, start = until - length, until - 2 * length
    before, after = _window(start, middle), _window(middle, until)
    templates = _templates(start, middle, until, before.window, after.window, ruleset)
    signs: list[Sign] = []
    unremarkable = 0
    for found in drift.compare(ruleset, before.window, after.window):
        rule = ruleset.by_id.get(found.rule)
        if found.kind == "silent" and _expected(found.rule, before, after) < LEAST_EXPECTED:
            continue
        if found.kind == "healthy_missing" and rule is not None and rule.role in LEAVE_NOTHING:
            continue
        template, since = "", []
        if found.template:
            row = templates[found.template]
            template, since = row["digest"], _since(row, before, after)
        if found.kind == "unknown" and not since:
            unremarkable += 1
            continue
        signs.append(_sign(found, rule, template, since))
    return Report(
        days=days,
        start=start,
        middle=middle,
        until=until,
        attempts_before=before.window.attempts,
        attempts_after=after.window.attempts,
        ruleset=ruleset.digest,
        changes=_changes(before, after),
        signs=signs,
        new_templates=unremarkable,
    )


def _fitting(length: timedelta, until: datetime) -> timedelta:
    return until - (since_latest(until - length, until) or until)


def check(days: int = DAYS) -> DriftCheck:
    """Look for drift, keep what was found, and log a warning where there is some: this is what beat runs daily."""
    found = report(days)
    kept = DriftCheck.objects.create(
        until=found.until,
        days=found.days,
        attempts_before=found.attempts_before,
        attempts_after=found.attempts_after,
        ruleset=found.ruleset,
        signs=[as_json(sign) for sign in found.signs],
    )
    if found.signs:
        kinds = found.by_kind
        log.warning(
            "rules.drift",
            days=found.days,
            attempts=found.attempts_after,
            counts={kind: len(signs) for kind, signs in kinds.items()},
            ruleset=found.ruleset,
            changes=found.changes,
            **{
                kind: list(dict.fromkeys(sign.rule or sign.text for sign in signs))[:MOST_LOGGED]
                for kind, signs in kinds.items()
            },
        )
    else:
        log.info("rules.drift none", days=found.days, attempts=found.attempts_after, ruleset=found.ruleset)
    return kept


def as_json(sign: Sign) -> dict[str, Any]:
    """A sign as plain data."""
    return {
        "kind": sign.kind,
        "rule": sign.rule or None,
        "before": sign.before,
        "after": sign.after,
        "text": sign.text,
        "example": sign.example,
        "template": sign.template or None,
        "since": sign.since,
        "seen": sign.seen,
    }


def report_json(found: Report) -> dict[str, Any]:
    """A report as plain data."""
    return {
        "days": found.days,
        "before": {"from": found.start, "to": found.middle, "attempts": found.attempts_before},
        "after": {"from": found.middle, "to": found.until, "attempts": found.attempts_after},
        "ruleset": found.ruleset,
        "changes": found.changes,
        "signs": [as_json(sign) for sign in found.signs],
        "new_templates": found.new_templates,
    }


def _window(after: datetime, before: datetime) -> _Stored:
    """Attempts, node days, versions and matches by rule of the standing verdicts of a time."""
    standing = (
        Verdict.objects.current().filter(own("attempt"), happened_at__gte=after, happened_at__lt=before).order_by()
    )
    given: QuerySet[Any, Any] = Attempt.nodes.through.objects.filter(attempt_id=OuterRef("attempt_id")).order_by()
    nodes = given.values("attempt_id").annotate(number=Count("*")).values("number")
    lasted = ExpressionWrapper(F("attempt__ended_at") - F("attempt__started_at"), output_field=DurationField())
    told = standing.annotate(
        seconds=Greatest(Coalesce(Extract(lasted, "epoch"), 0), 0),
        nodes_given=Greatest(Coalesce(Subquery(nodes), 1), 1),
        image=KeyTextTransform("image", "attempt__body"),
    ).aggregate(
        attempts=Count("pk"),
        node_seconds=Sum(F("seconds") * F("nodes_given")),
        rulesets=ArrayAgg("ruleset__digest", distinct=True),
        images=ArrayAgg("image", distinct=True, filter=Q(image__isnull=False)),
    )
    window = drift.Window(attempts=told["attempts"], node_days=float(told["node_seconds"] or 0) / 86_400)
    stored = _Stored(window, set(told["rulesets"] or ()), {image for image in told["images"] or () if image})
    found = Finding.objects.filter(verdict__in=standing.values("pk")).order_by()
    for rule, lines, attempts in found.values_list("rule").annotate(Sum("count"), Count("verdict_id", distinct=True)):
        window.matches[rule] = lines
        stored.attempts_with[rule] = attempts
    return stored


def _templates(
    start: datetime,
    middle: datetime,
    until: datetime,
    before: drift.Window,
    after: drift.Window,
    ruleset: Ruleset,
) -> dict[str, dict[str, Any]]:
    """Count the unrecognised templates of the later window in both, with what rules they nearly are."""
    now = _grouped(UnrecognisedLine.objects.within(middle, until)).annotate(
        text=Max("template"),
        line=Max("example"),
        rulesets=ArrayAgg("verdict__ruleset__digest", distinct=True),
        images=ArrayAgg(Coalesce(IMAGE, Value(""), output_field=TextField()), distinct=True),
    )
    rows = {row["text"]: row for row in now.order_by("-lines", "digest")[: drift.MAX_KEPT]}
    digests = [row["digest"] for row in rows.values()]
    earlier = _grouped(UnrecognisedLine.objects.within(start, middle)).filter(digest__in=digests)
    was, first = dict(earlier.values_list("digest", "lines")), first_seen(digests)
    texts = drift.fixed_texts(ruleset)
    for text, row in rows.items():
        recent = was.get(row["digest"], 0)
        ever = recent or int(first.get(row["digest"], middle) < middle)
        after.unknown[text], after.examples[text] = row["lines"], row["line"]
        if ever:
            before.unknown[text] = ever
        for rule in drift.nearly(texts, row["line"]):
            after.near[(rule, text)] = row["lines"]
            if recent:
                before.near[(rule, text)] = recent
    return rows


def _grouped(lines: QuerySet[Any]) -> QuerySet[Any, dict[str, Any]]:
    return lines.order_by().values("digest").annotate(lines=Sum("count"))


def _expected(rule: str, before: _Stored, after: _Stored) -> float:
    """In how many attempts of the later window a rule would be found if nothing had changed."""
    return before.attempts_with[rule] * after.window.attempts / max(before.window.attempts, 1)


def _since(row: dict[str, Any], before: _Stored, after: _Stored) -> list[str]:
    """The versions new in the later window that all attempts with a template have in common."""
    if not before.window.attempts:
        return []
    said = []
    images, rulesets = set(row["images"]), set(row["rulesets"])
    if "" not in images and images <= after.images - before.images:
        said += [f"image {image}" for image in sorted(images)[:3]]
    if rulesets <= after.rulesets - before.rulesets:
        said += [f"rules {digest[:12]}" for digest in sorted(rulesets)[:3]]
    return said


def _changes(before: _Stored, after: _Stored) -> list[str]:
    """Which versions came with the later window, in sentences."""
    if not before.window.attempts or not after.window.attempts:
        return []
    said = []
    for name, was, now in (("Rules", before.rulesets, after.rulesets), ("Image", before.images, after.images)):
        for version in sorted(now - was)[:10]:
            said.append(f"{name} {version[:12] if name == 'Rules' else version}: new in the later time.")
    return said


def _sign(found: drift.Drifted, rule: Rule | None, template: str, since: list[str]) -> Sign:
    return Sign(
        kind=found.kind,
        rule=found.rule,
        before=found.before,
        after=found.after,
        text=found.text,
        example=found.example,
        template=template,
        since=since,
        seen=dict(rule.seen) if rule is not None else {},
    )
