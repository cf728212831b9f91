"""The writer of anomalies and blindness: looks at every running attempt, and at those that ended.

Cheap by what it leaves out: one pass asks what changed with a few statements over all running attempts, and reads ranks
and samples only of those that stand still or whose ranks differ. Any number of passes may run at once: an open anomaly
of a kind exists once for an attempt, by the database.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Avg, Count, Exists, F, Max, OuterRef, Q, Subquery
from django.utils import timezone

from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Anomaly, Blindness, Intake, ProgressReading, ProgressSample, Proposal, RankProgress
from recovery.progress import blind, detect, watch_evidence
from recovery.progress.blind import Heard, Way
from recovery.progress.detect import FatalLine, Finding, Limits, RankState
from recovery.words import AnomalyKind, EntryKind, ProposalState, Via
from verdicts.clusters import current_clusters
from verdicts.models import Attempt, Collection
from verdicts.own import own

log = logging.getLogger(__name__)

WATCH = Actor.system("watch")
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


@dataclass
class Watched:
    """What is known of one running attempt without reading its ranks."""

    pk: UUID
    cluster: str
    started: datetime
    moved: dict[str, float] = field(default_factory=dict)  # by way
    heard: dict[str, float] = field(default_factory=dict)
    stepped: dict[str, int] = field(default_factory=dict)
    readings: dict[str, ProgressReading] = field(default_factory=dict)  # by feed
    uneven: bool = False


def limits() -> Limits:
    """How patient this site is: the defaults, with what the settings say."""
    return Limits(**getattr(settings, "INQUEST_DETECTION", {}))


def work(now: datetime | None = None) -> int:
    """Look once at all running attempts and at those that ended; says how many anomalies were found."""
    now = now or timezone.now()
    bounds = limits()
    watched = _watched()
    silent = _silent(watched.values(), now, bounds)
    _note_blindness(watched, silent, now, bounds)
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


def _watched() -> dict[UUID, Watched]:
    """All running attempts with what their ranks and feeds say together."""
    rows = Attempt.objects.filter(own(), ended_at__isnull=True, started_at__isnull=False).order_by()
    watched = {
        pk: Watched(pk, cluster, started)
        for pk, cluster, started in rows.values_list("pk", "cluster__name", "started_at")
        if started is not None
    }
    signs = RankProgress.objects.filter(attempt__ended_at__isnull=True).order_by().values("attempt", "via")
    for row in signs.annotate(
        moved=Max("moved_at"),
        heard=Max("observed_at"),
        stepped=Count("moved_at"),
        slowest=Max("step_seconds"),
        usual=Avg("step_seconds"),
    ):
        if (one := watched.get(row["attempt"])) is None:
            continue
        one.heard[row["via"]] = row["heard"].timestamp()
        one.stepped[row["via"]] = row["stepped"]
        if row["moved"] is not None:
            one.moved[row["via"]] = row["moved"].timestamp()
        # A rank that is a seventh slower than its peers lies above the mean of all by a part of that.
        one.uneven |= row["slowest"] is not None and row["slowest"] > 1.05 * row["usual"]
    for reading in ProgressReading.objects.filter(attempt__ended_at__isnull=True).select_related("feed"):
        if (one := watched.get(reading.attempt_id)) is not None:
            one.readings[reading.feed.name] = reading
    return watched


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


def _note_blindness(
    watched: Mapping[UUID, Watched], silent: Mapping[str, float], now: datetime, bounds: Limits
) -> None:
    """Say of each running attempt why its hangs would not be seen, and take back what holds no more."""
    feeds = {cluster.name: cluster.progress for cluster in current_clusters().cluster}
    standing = dict(Blindness.objects.filter(attempt__ended_at__isnull=True).values_list("attempt", "reason"))
    new, gone = [], []
    for one in watched.values():
        if now - one.started < timedelta(seconds=bounds.floor):
            continue  # it has not had time to say anything
        ways = [
            Way(
                name=f"The feed {feed.name}",
                via=Via.LOG.value if feed.kind == "log" else Via.PROMETHEUS.value,
                read_until=_stamp(reading.read_until) if (reading := one.readings.get(feed.name)) else None,
                lines=reading.lines if reading else 0,
                signs=reading.signs if reading else 0,
                said=reading.said if reading else "",
            )
            for feed in feeds.get(one.cluster, [])
        ]
        if Via.POST.value in one.heard:
            stepped = one.stepped.get(Via.POST.value, 0)
            ways.append(Way("What it posts", Via.POST.value, signs=stepped, silent_since=silent.get(one.cluster)))
        reason = blind.blindness(ways, now.timestamp(), bounds)
        before = standing.get(one.pk)
        if reason is None:
            if before is not None:
                gone.append(one.pk)
        elif before is None or _figureless(before) != _figureless(reason):
            new.append(Blindness(attempt_id=one.pk, reason=reason, since=now))
    if gone:
        Blindness.objects.filter(attempt__in=gone).delete()
    Blindness.objects.bulk_create(
        new, batch_size=1_000, update_conflicts=True, unique_fields=["attempt"], update_fields=["reason"]
    )


def _stamp(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None


def _figureless(text: str) -> str:
    """A sentence without its figures: it says the same while only they grow."""
    return "".join(letter for letter in text if not letter.isdigit() and letter != ".")


def safely() -> int:
    """`work` for the beat: what went wrong is logged, and the next pass looks again."""
    try:
        return work()
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("the watch could not look at what runs")
        return 0
