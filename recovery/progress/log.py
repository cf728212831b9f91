"""Progress from logs of attempts that run: a small look at what a configured source has since the last one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from recovery.progress.detect import FatalLine
from recovery.progress.record import Sign
from recovery.progress.text import Line, last_of
from rules import extract, read
from rules.observation import Observation
from rules.words import Role
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.progress_settings import LogFeed
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import SourceSettings
from verdicts.conclude import current_ruleset
from verdicts.evidence import given_attempt
from verdicts.models import Attempt
from verdicts.redaction import current_redactor
from verdicts.storable import moment

#: What a first look goes back to at most.
FIRST = timedelta(hours=1)
#: Fatal lines that one look tells of.
MAX_FATAL = 50


@dataclass
class Look:
    """What one look had. `lines` is what was read, `wrote_at` when the newest of it was written, where that is told."""

    signs: list[Sign] = field(default_factory=list)
    fatal: list[FatalLine] = field(default_factory=list)
    lines: int = 0
    wrote_at: datetime | None = None
    error: SourceError | None = None


def look(attempt: Attempt, feed: LogFeed, source: SourceSettings, since: datetime | None, now: datetime) -> Look:
    """Read what is new of an attempt's log, a little of what was read before included: lines come late."""
    given = given_attempt(attempt)
    overlap = timedelta(seconds=2 * feed.every + 30)
    start = (attempt.started_at or now).astimezone(UTC)
    begin = max(start, now - FIRST) if since is None else max(start, since - overlap)
    ruleset = current_ruleset()
    sink = Sink(source.name, source.source, ruleset, current_redactor())
    ask = Ask(
        cluster=attempt.cluster.name,
        attempt=given,
        begin=min(begin, now),
        end=now,
        nodes=tuple(given.nodes),
        budget=Budget.of(seconds=feed.seconds, megabytes=feed.megabytes),
        ruleset=ruleset,
    )
    found = Look()
    try:
        source.collect(ask, sink)
    except SourceError as error:
        found.error = error
    observations, report = sink.close(found.error)
    found.lines = report.read
    found.wrote_at = min(last, now) if (last := moment(report.last, given.utc_offset)) else None
    found.signs = signs_of(observations, given.utc_offset, now)
    found.fatal = fatal_of(observations, given.utc_offset, now)
    return found


def signs_of(observations: Sequence[Observation], utc_offset: str, now: datetime) -> list[Sign]:
    """The signs of progress in what was kept of a log."""
    dated = [(moment(one.timestamp, utc_offset), one) for one in observations]
    # What was kept is in the order of rules. Lines without a time are in the order of their file.
    dated.sort(key=lambda item: (item[0] or now, _place(item[1].ref)))
    lines = [Line(text=one.body, at=at.timestamp() if at else None, node=one.node, rank=one.rank) for at, one in dated]
    return [
        Sign(
            rank=said.rank,
            step=said.step,
            checkpoint_step=said.checkpoint_step,
            collective=said.collective,
            step_seconds=said.step_seconds,
            phase=said.phase,
            node=said.node,
            gpu=said.gpu,
            at=datetime.fromtimestamp(at, UTC).isoformat() if at is not None else None,
        )
        for said, at in last_of(lines)
    ]


def _place(ref: str) -> tuple[str, int]:
    """A reference's file and line."""
    name, _, line = ref.rpartition(":")
    return (name, int(line)) if line.isascii() and line.isdigit() else (ref, 0)


def fatal_of(observations: Sequence[Observation], utc_offset: str, now: datetime) -> list[FatalLine]:
    """The lines that can be the cause of a failure."""
    ruleset = current_ruleset()
    found: list[FatalLine] = []
    for one in observations:
        for sighting in extract.sightings(ruleset, one):
            if sighting.rule.role not in (Role.CAUSE, Role.EITHER) or len(found) >= MAX_FATAL:
                continue
            at = moment(one.timestamp, utc_offset)
            found.append(
                FatalLine(
                    rule=sighting.rule.id,
                    symptom=sighting.rule.symptom,
                    role=sighting.rule.role,
                    at=min(at, now).timestamp() if at else None,
                    seen_at=now.timestamp(),
                    node=sighting.locus.get("node", "") or one.node,
                    rank=one.rank if one.rank is not None else read.parse(one.body).rank,
                )
            )
    return found
