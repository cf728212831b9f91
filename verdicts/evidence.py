"""The evidence of an attempt as the engine takes it, and what the store says of its own coverage."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from django.db.models import Sum, Value
from django.db.models.functions import Length, Replace

from rules.attempt import Attempt as GivenAttempt
from rules.attempt import CollectorReport as GivenReport
from rules.engine import ATTEMPT_REF
from rules.observation import Observation as GivenObservation
from rules.redact import MARK_BEGINS
from rules.words import ReportStatus, Source
from verdicts import models
from verdicts.choices import Scheduler

FULL = "the store's limit for this source was reached; later observations were refused"
UNREPORTED = "observations came without a collector report"
LOST = "fewer observations reached the store than the collector kept"


@dataclass(frozen=True)
class Evidence:
    """What one attribution works on; `generation` says which state of the evidence it is, at the latest."""

    generation: int
    attempt: GivenAttempt
    observations: list[GivenObservation]
    reports: list[GivenReport]


def load_evidence(attempt_id: UUID) -> Evidence:
    """Read an attempt's evidence.

    The generation is read first: whatever arrives while the rest is read raises the attempt's own and
    so makes the attribution run again.
    """
    row = models.Attempt.objects.get(pk=attempt_id)
    columns = row.observations.order_by("digest").values_list(*_COLUMNS)
    observations = [_given(found) for found in columns]
    return Evidence(
        generation=row.generation,
        attempt=given_attempt(row),
        observations=observations,
        reports=effective_reports(row, _counted(observations)),
    )


def given_attempt(row: models.Attempt) -> GivenAttempt:
    """The attempt as it was given."""
    return msgspec.convert(row.body, GivenAttempt)


def given_observation(row: models.Observation) -> GivenObservation:
    """A stored observation as the engine takes it.

    When it was read is left out: of two deliveries of one record the first is kept, and a verdict must
    not depend on which of the two came first.
    """
    return _given([getattr(row, column) for column in _COLUMNS])


#: What of an observation the engine is given.
_COLUMNS = ("source", "body", "ref", "node", "rank", "timestamp", "collector", "attributes", "count")


def _given(values: Sequence[Any]) -> GivenObservation:
    said = dict(zip(_COLUMNS, values, strict=True))
    return GivenObservation(**said | {"source": Source(said["source"])})


def effective_reports(row: models.Attempt, held: "Held | None" = None) -> list[GivenReport]:
    """The collectors' reports, corrected by what the store knows: what was delivered, refused or never reported.

    Counts are of records as they were read: an observation that stands for many folded lines counts as many.
    `held` is what the store has, where the caller knows it. Once the lines expired the reports stand as they were.
    """
    if row.lines_expired_at is not None:
        return _given_reports(row)
    held = _held(row) if held is None else held
    given = _given_reports(row)
    full_for: defaultdict[str, set[str]] = defaultdict(set)
    for key in row.cut:
        refused_source, _, refused_collector = key.partition(" ")
        full_for[refused_source].add(refused_collector)
    per_source = Counter(report.source for report in given)
    corrected = []
    for report in given:
        alone = per_source[report.source] == 1
        stored = _together(
            found
            for (source, collector), found in held.items()
            if source == report.source and (alone or collector == report.collector)
        )
        full = not full_for.get(report.source, set()).isdisjoint(("", report.collector))
        corrected.append(_corrected(report, stored, full=full))
    reported = {report.source for report in given}
    for source in sorted({source for source, _ in held} | set(full_for)):
        if source not in reported:
            stored = _together(found for (owner, _), found in held.items() if owner == source)
            unreported = GivenReport(
                source=Source(source),
                status=ReportStatus.PARTIAL,
                reason=UNREPORTED,
                kept=stored.records,
                delivered=stored.records,
            )
            corrected.append(_corrected(unreported, stored, full=source in full_for))
    if (said := _said_by_attempt(row)) and not any(report.source == said.source for report in corrected):
        corrected.append(said)
    return corrected


def _given_reports(row: models.Attempt) -> list[GivenReport]:
    bodies = row.reports.order_by("source", "collector").values_list("body", flat=True)
    return [msgspec.convert(body, GivenReport) for body in bodies]


@dataclass(frozen=True)
class _Stored:
    """What the store has of one collector: records as they were read, and secrets taken out of their texts."""

    records: int
    redacted: int


#: What the store has of an attempt, by source and collector.
Held = dict[tuple[str, str], _Stored]


def _held(row: models.Attempt) -> Held:
    taken_out = (Length("body") - Length(Replace("body", Value(MARK_BEGINS), Value("")))) / len(MARK_BEGINS)
    rows = row.observations.order_by().values_list("source", "collector")
    return {
        (source, collector): _Stored(records, redacted)
        for source, collector, records, redacted in rows.annotate(records=Sum("count"), redacted=Sum(taken_out))
    }


def _counted(observations: Iterable[GivenObservation]) -> Held:
    """The same where they are read already."""
    records, redacted = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for found in observations:
        key = found.source.value, found.collector
        records[key] += found.count
        redacted[key] += found.body.count(MARK_BEGINS)
    return {key: _Stored(number, redacted[key]) for key, number in records.items()}


def _together(found: Iterable[_Stored]) -> _Stored:
    held = list(found)
    return _Stored(sum(one.records for one in held), sum(one.redacted for one in held))


def _said_by_attempt(row: models.Attempt) -> GivenReport | None:
    """The scheduler's own word in the attempt is evidence from the scheduler, if it is all there is."""
    if not row.state:
        return None
    return GivenReport(
        source=Source.KUBERNETES if row.scheduler == Scheduler.KUBERNETES else Source.SCHEDULER,
        status=ReportStatus.OK,
        read=1,
        kept=1,
        delivered=1,
        files=[ATTEMPT_REF],
    )


def _corrected(report: GivenReport, stored: _Stored, *, full: bool) -> GivenReport:
    """A report with what was really delivered; one that claims more than that is not `ok`."""
    if report.files == [ATTEMPT_REF]:
        return report  # its one record is the attempt itself
    delivered = stored.records
    reasons = [report.reason] if report.reason else []
    status = report.status
    if full:
        reasons.append(FULL)
    elif delivered < report.kept:
        reasons.append(LOST)
    if full or delivered < report.kept:
        status = ReportStatus.PARTIAL if status in (ReportStatus.OK, ReportStatus.EMPTY) else status
    elif status is ReportStatus.EMPTY and delivered:
        status = ReportStatus.PARTIAL
    return msgspec.structs.replace(
        report,
        status=status,
        reason="; ".join(reasons),
        delivered=delivered,
        kept=max(report.kept, delivered),
        redacted=max(report.redacted, stored.redacted),
    )
