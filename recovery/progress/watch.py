"""The writer of anomalies and blindness: looks at every running attempt, and at those that ended.

Cheap by what it leaves out: one pass asks what changed with a few statements over all running attempts, and reads ranks
and samples only of those that stand still or whose ranks differ. Any number of passes may run at once: an open anomaly
of a kind exists once for an attempt, by the database.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Exists, F, Max, OuterRef, Q, Subquery
from django.utils import timezone

from recovery.ledger import entries as ledger
from recovery.models import Anomaly, Intake, ProgressSample, Proposal, RankProgress
from recovery.progress import blind, blindness, detect, watch_evidence
from recovery.progress.blind import Heard
from recovery.progress.blindness import WATCH
from recovery.progress.detect import FatalLine, Finding, Limits, RankState
from recovery.progress.watched import Watched, running
from recovery.words import AnomalyKind, EntryKind, ProposalState, Via
from verdicts.models import Attempt, Collection
from verdicts.own import own

log = logging.getLogger(__name__)

#: Samples that a pace is taken from: what was long ago is another pace.
PACE_WINDOW = timedelta(hours=6)
#: Of one pass; what is over these is looked at in the next.
MAX_CANDIDATES = 500
#: Ranks kept in an anomaly's row.
MAX_RANKS = 1_000
#: Words of schedulers that begin like this are ends that may be a crash; `detect.crash` has the last word.
BAD_ENDS = ("FAILED", "NODE_FAIL", "OUT_OF_MEM", "BOOT_FAIL", "OOMKILLED", "ERROR", "HUNG")
#: How old an end may be that is told of as a crash.
MAX_AGE = timedelta(days=2)
READ_ENDS = "watch.ends"


def limits() -> Limits:
    """How patient this site is: the defaults, with what the settings say."""
    return Limits(**getattr(settings, "INQUEST_DETECTION", {}))


def work(now: datetime | None = None) -> int:
    """Look once at all running attempts and at those that ended; says how many anomalies were found."""
    now = now or timezone.now()
    bounds = limits()
    watched = running()
    silent = _silent(watched.values(), now, bounds)
    blindness.note(watched, silent, now, bounds)
    _end_what_is_over(watched, now)
    found = _hangs(watched, silent, now, bounds) + _stragglers(watched, now, bounds) + ended(now)
    watch_evidence.tell_untold(now)
    _note_proposals(now)
    return found


def fatal(lines: Mapping[UUID, Sequence[FatalLine]], now: datetime | None = None) -> int:
    """Open the crashes that logs of running attempts tell of before their processes are gone."""
    now = now or timezone.now()
    found = 0
    for attempt in Attempt.objects.filter(pk__in=list(lines), ended_at__isnull=True):
        moved = RankProgress.objects.filter(attempt=attempt).aggregate(last=Max("moved_at"))["last"]
        finding = detect.crash(
            attempt.state,
            None,
            now.timestamp(),
            lines[attempt.pk],
            moved_at=moved.timestamp() if moved else None,
            limits=limits(),
        )
        found += finding is not None and open_anomaly(attempt.pk, AnomalyKind.CRASH, finding, now)
    return found


def ended(now: datetime | None = None) -> int:
    """Open and close the crashes of attempts that ended since the last look, once each.

    What ended before the first look ever is history: an upgrade finds no crashes in it.
    """
    now = now or timezone.now()
    mark, _ = Intake.objects.get_or_create(name=READ_ENDS, defaults={"read_until": now})
    bad = Q()
    for word in BAD_ENDS:
        bad |= Q(state__istartswith=word)
    crashed = Anomaly.objects.filter(kind=AnomalyKind.CRASH.value).values("attempt")
    since = max(mark.read_until, now - MAX_AGE)
    found = 0
    rows = Attempt.objects.filter(own(), bad, ended_at__gte=since).exclude(pk__in=crashed)
    for attempt in rows.only("id", "state", "ended_at")[:MAX_CANDIDATES]:
        assert attempt.ended_at is not None
        told = Collection.objects.filter(attempt=attempt).order_by("created_at").values_list("created_at", flat=True)
        after = [at for at in told if at >= attempt.ended_at]
        seen = min(after[0], now) if after else now
        finding = detect.crash(attempt.state, attempt.ended_at.timestamp(), seen.timestamp())
        found += finding is not None and open_anomaly(attempt.pk, AnomalyKind.CRASH, finding, now, over=True)
    return found


def open_anomaly(attempt_id: UUID, kind: AnomalyKind, finding: Finding, now: datetime, *, over: bool = False) -> bool:
    """Write an anomaly down, once while it is open; asks for a verdict of what still runs."""
    anomaly = Anomaly(
        attempt_id=attempt_id,
        kind=kind.value,
        event_at=_at(finding.event_at),
        observed_at=min(_at(finding.observed_at) or now, now),
        detected_at=now,
        ended_at=now if over else None,
        nodes=list(finding.nodes),
        ranks=list(finding.ranks[:MAX_RANKS]),
        evidence=dict(finding.figures),
        said=finding.said,
    )
    with transaction.atomic():
        Anomaly.objects.bulk_create([anomaly], ignore_conflicts=True)
        if not Anomaly.objects.filter(pk=anomaly.pk).exists():
            return False
        ledger.record(
            EntryKind.ANOMALY_DETECTED,
            actor=WATCH,
            subject=anomaly,
            attempt=attempt_id,
            body={
                "kind": kind.value,
                "event_at": anomaly.event_at,
                "observed_at": anomaly.observed_at,
                "detected_at": now,
                "nodes": anomaly.nodes,
                "ranks": anomaly.ranks[:64],
                "said": anomaly.said,
            },
        )
    log.info("%s of attempt %s: %s", kind, attempt_id, finding.said)
    if not over:
        watch_evidence.tell(anomaly)
    return True


def _at(seconds: float | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None else None


def _silent(watched: Iterable[Watched], now: datetime, bounds: Limits) -> dict[str, float]:
    """The clusters whose jobs all stopped posting at once, and since when."""
    heard: defaultdict[str, list[Heard]] = defaultdict(list)
    for one in watched:
        if Via.POST.value in one.heard:
            heard[one.cluster].append(Heard(str(one.pk), one.heard[Via.POST.value], bounds.floor))
    found = {cluster: blind.transport_ended(told, now.timestamp(), bounds) for cluster, told in heard.items()}
    return {cluster: since for cluster, since in found.items() if since is not None}


def _known_until(one: Watched, silent: Mapping[str, float], now: datetime) -> float | None:
    """How far the evidence of an attempt reaches: the furthest of the ways that ever told of a movement."""
    reach: list[float] = []
    if Via.POST.value in one.moved:
        reach.append(silent.get(one.cluster, now.timestamp()))
    for reading in one.readings.values():
        # A log without steps speaks for an attempt only where nothing else ever did.
        speaks = reading.feed.via in one.moved or (not one.moved and reading.wrote_at is not None)
        if reading.read_until is not None and speaks:
            reach.append(reading.read_until.timestamp())
    return max(reach, default=None)


def _hangs(watched: Mapping[UUID, Watched], silent: Mapping[str, float], now: datetime, bounds: Limits) -> int:
    """Open the hangs. Ranks are read only of attempts that stand still for longer than their pace allows."""
    still: dict[UUID, float] = {}
    for one in watched.values():
        until = _known_until(one, silent, now)
        moved = max(one.moved.values(), default=None)
        wrote = _wrote(one)
        last = moved if moved is not None else wrote
        if until is not None and last is not None and until - last > bounds.floor:
            still[one.pk] = until
    known = set(_open(AnomalyKind.HANG, still).values_list("attempt", flat=True))
    still = dict(sorted((pair for pair in still.items() if pair[0] not in known), key=lambda p: p[1])[:MAX_CANDIDATES])
    samples = _samples(still, now)
    late = {}
    for pk, until in still.items():
        one = watched[pk]
        last = max(one.moved.values(), default=None)
        allowed, _ = detect.patience(detect.pace(samples[pk]), "", bounds)
        if until - (last if last is not None else _wrote(one) or until) > allowed:
            late[pk] = until
    ranks = _ranks(late)
    found = 0
    for pk, until in late.items():
        finding = detect.hang(ranks[pk], samples[pk], until, bounds, wrote_at=_wrote(watched[pk]))
        found += finding is not None and open_anomaly(pk, AnomalyKind.HANG, finding, now)
    return found


def _wrote(one: Watched) -> float | None:
    """When the log of an attempt last had a line."""
    return max((r.wrote_at.timestamp() for r in one.readings.values() if r.wrote_at is not None), default=None)


def _stragglers(watched: Mapping[UUID, Watched], now: datetime, bounds: Limits) -> int:
    """Open the stragglers, and end those that are none any more."""
    open_ones = {row.attempt_id: row for row in _open(AnomalyKind.STRAGGLER, watched)}
    uneven = [pk for pk, one in watched.items() if one.uneven or pk in open_ones][:MAX_CANDIDATES]
    ranks = _ranks(uneven)
    found = 0
    for pk in uneven:
        finding = detect.straggler(ranks[pk], now.timestamp(), bounds)
        if finding is not None and pk not in open_ones:
            found += open_anomaly(pk, AnomalyKind.STRAGGLER, finding, now)
        elif finding is None and pk in open_ones and _fresh(ranks[pk], now, bounds):
            end_anomaly(open_ones[pk], now, "no rank is slower than its peers any more")
    return found


def _fresh(ranks: Sequence[RankState], now: datetime, bounds: Limits) -> bool:
    """Whether enough is known of the last while to say that nothing is slow: no news is not that."""
    since = now.timestamp() - bounds.window
    return sum(any(at >= since for at, _ in one.paces) for one in ranks) > bounds.least_peers


def _open(kind: AnomalyKind, attempts: Iterable[UUID]) -> Any:
    return Anomaly.objects.filter(kind=kind.value, ended_at__isnull=True, attempt__in=list(attempts))


def _end_what_is_over(watched: Mapping[UUID, Watched], now: datetime) -> None:
    """End the anomalies of attempts that ended, and the hangs of those that moved again."""
    for anomaly in Anomaly.objects.filter(ended_at__isnull=True).select_related("attempt"):
        one = watched.get(anomaly.attempt_id)
        if one is None:
            end_anomaly(anomaly, anomaly.attempt.ended_at or now, "", tell=False)
        elif anomaly.kind == AnomalyKind.HANG.value:
            moved = max(one.moved.values(), default=None)
            if moved is None:
                moved = _wrote(one)
            if moved is not None and moved > anomaly.evidence.get("moved_at", moved) + 1:
                end_anomaly(
                    anomaly, now, f"it moved again after {detect.seconds(moved - anomaly.evidence['moved_at'])}"
                )
        elif anomaly.kind == AnomalyKind.CRASH.value and anomaly.evidence.get("running"):
            moved = max(one.moved.values(), default=None)
            if moved is not None and moved > anomaly.observed_at.timestamp():
                end_anomaly(anomaly, now, "it moved on after the line", tell=False)


def end_anomaly(anomaly: Anomaly, at: datetime, why: str, *, tell: bool = True) -> None:
    """Write down that an anomaly was seen to be over, once."""
    at = max(at, anomaly.detected_at)
    if Anomaly.objects.filter(pk=anomaly.pk, ended_at__isnull=True).update(ended_at=at) and tell:
        watch_evidence.tell_over(anomaly, at, why)


def _note_proposals(now: datetime) -> None:
    """Write down when something was first proposed after an anomaly: the fourth of its times."""
    made = Proposal.objects.filter(attempt=OuterRef("attempt"), created_at__gte=OuterRef("event_at"))
    first = made.exclude(state=ProposalState.OBSERVED.value).order_by("created_at").values("created_at")[:1]
    fresh = Anomaly.objects.filter(proposed_at__isnull=True, detected_at__gte=now - MAX_AGE)
    fresh.filter(Exists(made.exclude(state=ProposalState.OBSERVED.value))).update(proposed_at=Subquery(first))


def _samples(attempts: Iterable[UUID], now: datetime) -> dict[UUID, list[tuple[float, int]]]:
    found: defaultdict[UUID, list[tuple[float, int]]] = defaultdict(list)
    rows = ProgressSample.objects.filter(attempt__in=list(attempts), at__gte=now - PACE_WINDOW).order_by("at")
    for pk, at, least in rows.values_list("attempt", "at", "least_step"):
        found[pk].append((at.timestamp(), least))
    return found


def _ranks(attempts: Iterable[UUID]) -> dict[UUID, list[RankState]]:
    """The newest of every rank, of all ways together; a rank's place from the attempt where its signs have none."""
    wanted = list(attempts)
    places = dict(Attempt.objects.filter(pk__in=wanted).values_list("pk", "body"))
    newest: dict[tuple[UUID, int | None], RankState] = {}
    rows = RankProgress.objects.filter(attempt__in=wanted).order_by(F("moved_at").asc(nulls_first=True), "pk")
    for row in rows.iterator(chunk_size=5_000):
        place = places[row.attempt_id].get("ranks", {}).get(str(row.rank), {})
        newest[row.attempt_id, row.rank] = RankState(
            rank=row.rank,
            node=row.node or place.get("node", ""),
            gpu=row.gpu or place.get("gpu", ""),
            via=row.via,
            step=row.step,
            collective=row.collective,
            phase=row.phase,
            moved_at=row.moved_at.timestamp() if row.moved_at else None,
            heard_at=row.observed_at.timestamp(),
            at=_stamp(row.at),
            paces=tuple((at, took) for at, took in row.paces),
        )
    found: defaultdict[UUID, list[RankState]] = defaultdict(list)
    for (pk, _), state in newest.items():
        found[pk].append(state)
    return found


def _stamp(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None


def safely() -> int:
    """`work` for the beat: what went wrong is logged, and the next pass looks again."""
    try:
        return work()
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("the watch could not look at what runs")
        return 0
