"""A verdict as a case for policies: its cause, its place, how far its rules are trusted, and what the job asks for."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from recovery.policies.find import blamed_before
from recovery.policy import Case, OptIn, opted
from rules.words import Domain, Maturity, ReportStatus, Source, State, Strength
from verdicts.choices import CollectionReason, Scheduler
from verdicts.models import Attempt, Collection, Observation, Verdict

MATURITIES = (Maturity.DRAFT, Maturity.TRIAL, Maturity.STABLE)
#: The word that a job says is looked for in so many lines.
MOST_LINES = 20
#: The symptoms of rules/catalogue/application/watch-*.toml.
WATCHED = frozenset({"progress_stopped", "rank_slow"})
_ANNOTATION = re.compile(r"^Annotation inquest/recovery=(?P<words>[A-Za-z0-9_=,+-]{1,200})$")
#: The source that has what a job says of itself, by its scheduler, and the reports by which all of it was read.
_SAYS_ITSELF = {Scheduler.SLURM.value: Source.SCHEDULER.value, Scheduler.KUBERNETES.value: Source.KUBERNETES.value}
_READ_WHOLE = (ReportStatus.OK.value, ReportStatus.EMPTY.value)
MOST_GAPS = MOST_EVIDENCE = 12
MOST_TEXT = 240


def case_of(verdict: Verdict, attempt: Attempt) -> Case:
    """What policies look at. Where several causes fit, the verdict is ambiguous and its candidates tell symptoms."""
    body = verdict.body
    causes = blamed(body)
    shared = body.get("shared_element")
    maturities = [Maturity(one["maturity"]) for one in causes]
    return Case(
        cluster=attempt.cluster.name,
        partition=attempt.partition,
        state=State(verdict.state),
        domain=Domain(verdict.domain),
        strength=Strength(verdict.strength) if verdict.strength else None,
        symptom=causes[0]["symptom"] if causes else "",
        symptoms=sorted({one["symptom"] for one in causes} | _watched(verdict)),
        maturity=min(maturities, key=MATURITIES.index, default=None),
        nodes=[node["name"] for node in body.get("affected_nodes", [])],
        shared=f"{shared['kind']} {shared['name']}" if shared else "",
        opt_in=opt_in(attempt),
        opt_read=opt_read(attempt),
        blamed_before=blamed_before(verdict),
    )


def _watched(verdict: Verdict) -> set[str]:
    """What the watch saw of a job that runs: a policy may be about a hang of which no cause is known."""
    if verdict.state not in (State.HUNG, State.DEGRADED):
        return set()
    return {one["symptom"] for one in verdict.body.get("interesting", []) if one["symptom"] in WATCHED}


def blamed(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The findings that a verdict holds for the cause, or that could be."""
    found: list[dict[str, Any]] = body.get("causes") or body.get("candidates") or []
    return found


def cause_and_locus(body: Mapping[str, Any]) -> tuple[str, str]:
    """What a proposal is for, as "rule@place", and the place alone."""
    causes = blamed(body)
    if not causes:
        return "unattributed@", ""
    locus = " ".join(f"{key}={value}" for key, value in sorted(causes[0]["locus"].items()) if key != "rank")
    return f"{causes[0]['rule']}@{locus}"[:512], locus[:512]


def opt_in(attempt: Attempt) -> OptIn | None:
    """What the job says of itself, in its Slurm comment or its annotation; None where it says nothing.

    Slurm's lines are written by the collector of the scheduler's records, with line ends taken out of what people
    wrote, so that no comment can pass for another job's.
    """
    comment = re.compile(rf"^JobId={re.escape(attempt.job_id)} (?:Admin)?Comment=(?P<words>.*)$")
    lines = (
        Observation.objects.filter(
            Q(source=Source.SCHEDULER.value, body__icontains="inquest=")
            | Q(source=Source.KUBERNETES.value, body__startswith="Annotation inquest/recovery="),
            attempt=attempt,
        )
        .order_by("id")
        .values_list("source", "body")[:MOST_LINES]
    )
    said = []
    for source, body in lines:
        if source == Source.SCHEDULER.value and (match := comment.match(body)):
            said.append(match["words"])
        elif source == Source.KUBERNETES.value and (match := _ANNOTATION.match(body)):
            said.append(f"inquest={match['words']}")
    return opted(" ".join(said)) if said else None


def opt_read(attempt: Attempt) -> bool:
    """Whether the source that has a job's own words was read whole; a job of no scheduler has none."""
    source = _SAYS_ITSELF.get(attempt.scheduler)
    return source is None or attempt.reports.filter(source=source, status__in=_READ_WHOLE).exists()


def gaps(verdict: Verdict, round_: Collection | None) -> list[str]:
    """What was not collected when the plan was made: an action that destroys evidence must say what it destroys.

    `round_` is the round of collecting that is not over.
    """
    found = []
    for report in verdict.body.get("coverage", []):
        status = report["status"]
        if status in (ReportStatus.ERROR, ReportStatus.PARTIAL):
            found.append(f"{report['source']}: {status}" + (f": {report['reason']}" if report.get("reason") else ""))
        elif status == ReportStatus.NOT_CONFIGURED:
            found.append(f"{report['source']}: not collected")
    if round_ is not None:
        later = round_.reason == CollectionReason.AGAIN.value and round_.due_at > timezone.now()
        found.append("what could not be had is asked for again later" if later else "evidence is still being collected")
    return [gap[:MOST_TEXT] for gap in found[:MOST_GAPS]]


def collecting(now: datetime) -> QuerySet[Collection]:
    """The rounds of collecting that go on now; one that is due later does not hold anything up."""
    return Collection.objects.filter(Q(deadline=None) | Q(deadline__gt=now), finished_at=None, due_at__lte=now)


def evidence(body: Mapping[str, Any]) -> list[str]:
    """The lines that the causes rest on, with where to find them."""
    lines = [f"{line['ref']}: {line['text']}" for cause in blamed(body) for line in cause.get("evidence", [])]
    return [line[:MOST_TEXT] for line in lines[:MOST_EVIDENCE]]


def overturned_by(body: Mapping[str, Any]) -> list[str]:
    """What would overturn the verdict, in its own words."""
    return [note["text"][:MOST_TEXT] for note in body.get("overturned_by", [])[:MOST_EVIDENCE]]
