"""What the watch sees, as evidence of the attempt: the engine reads it like any other, so that its verdict says hung.

The anomaly is the signal; what caused it is for the verdict to say, from logs that are collected now.
"""

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.db import InterfaceError, OperationalError

from recovery.models import Anomaly
from recovery.words import AnomalyKind
from rules.attempt import CollectorReport
from rules.observation import Observation as GivenObservation
from rules.words import ReportStatus, Source
from verdicts import record
from verdicts.choices import Mode
from verdicts.collecting import gather
from verdicts.conclude import request_attribution
from verdicts.expired import EvidenceExpired
from verdicts.models import Attempt, Observation

log = logging.getLogger(__name__)

COLLECTOR = "inquest-watch"
TOLD = (AnomalyKind.HANG.value, AnomalyKind.STRAGGLER.value)
#: An anomaly of which its attempt's evidence says nothing after the one is told of again, up to the other.
FOUND_JUST_NOW, FORGOTTEN_AFTER = timedelta(minutes=1), timedelta(hours=6)


def tell(anomaly: Anomaly) -> None:
    """Add an anomaly to its attempt's evidence, have the rest collected, and ask for a verdict.

    The anomaly stands already: what goes wrong here is logged and costs the verdict some evidence, not the anomaly.
    """
    if anomaly.kind != AnomalyKind.CRASH.value:
        place = ""
        if len(anomaly.nodes) == 1:
            rank = f" rank {anomaly.ranks[0]}" if len(anomaly.ranks) == 1 else ""
            before = "behind on" if anomaly.kind == AnomalyKind.HANG.value else "on"
            place = f"; {before} {anomaly.nodes[0]}{rank}" if rank or anomaly.kind != AnomalyKind.HANG.value else ""
        _add(anomaly, f"inquest watch: {anomaly.kind}{place}; {anomaly.said}", anomaly.event_at or anomaly.observed_at)
    _ask(anomaly.attempt_id)


def tell_untold(now: datetime) -> int:
    """Tell of anomalies whose finder was killed before it could; says how many there were."""
    open_ones = Anomaly.objects.filter(ended_at__isnull=True, kind__in=TOLD)
    rows = list(open_ones.filter(detected_at__range=(now - FORGOTTEN_AFTER, now - FOUND_JUST_NOW)))
    mine = Observation.objects.filter(attempt__in=[row.attempt_id for row in rows], collector=COLLECTOR)
    told = set(mine.values_list("ref", flat=True)) if rows else set()
    untold = [row for row in rows if _ref(row) not in told]
    for row in untold:
        tell(row)
    return len(untold)


def tell_over(anomaly: Anomaly, at: datetime, why: str) -> None:
    """Add to the evidence that it is over, and ask for a verdict in that light."""
    if anomaly.kind == AnomalyKind.CRASH.value:
        return
    _add(anomaly, f"inquest watch: {anomaly.kind} is over; {why}", at)
    _request(anomaly.attempt_id)


def _ref(anomaly: Anomaly) -> str:
    return f"{COLLECTOR}:{anomaly.pk}"


def _add(anomaly: Anomaly, body: str, at: datetime) -> None:
    observation = GivenObservation(
        source=Source.PROGRESS,
        body=body,
        ref=_ref(anomaly),
        timestamp=at.isoformat(),
        collector=COLLECTOR,
        attributes={"anomaly": str(anomaly.pk)},
    )
    try:
        record.add_observations(anomaly.attempt_id, [observation])
        held = Attempt.objects.get(pk=anomaly.attempt_id).observations
        number = held.filter(source=Source.PROGRESS.value, collector=COLLECTOR).count()
        report = CollectorReport(
            source=Source.PROGRESS,
            status=ReportStatus.OK,
            reason="what the watch saw while it ran",
            collector=COLLECTOR,
            read=number,
            kept=number,
            delivered=number,
        )
        record.record_reports(anomaly.attempt_id, [report])
    except (OperationalError, InterfaceError):
        raise
    except Attempt.DoesNotExist:
        log.info("attempt %s is gone with its anomaly", anomaly.attempt_id)
    except ValueError:
        log.exception("anomaly %s could not be added to the evidence of attempt %s", anomaly.pk, anomaly.attempt_id)


def _ask(attempt_id: UUID) -> None:
    """Have the evidence collected while it is fresh; without sources the verdict is made from what is there."""
    try:
        gather.ask(attempt_id)
    except gather.NotConfigured:
        _request(attempt_id)
    except Attempt.DoesNotExist:
        log.info("attempt %s is gone", attempt_id)


def _request(attempt_id: UUID) -> None:
    try:
        request_attribution(attempt_id, Mode.SLOW)
    except Attempt.DoesNotExist:
        log.info("attempt %s is gone", attempt_id)
    except EvidenceExpired:
        log.info("attempt %s spoke again after its evidence had expired", attempt_id)
