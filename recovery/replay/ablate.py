"""Evidence with something left out, later, or put in. Pure: attempt, observations and reports in, the same out."""

import math
import re
from dataclasses import dataclass
from typing import Annotated

import msgspec

from rules import read
from rules.attempt import Attempt, CollectorReport, InputError
from rules.observation import MAX_LINE, Observation
from rules.stamp import MICRO, Stamp, epoch, parse_stamp
from rules.words import ReportStatus, Source

#: As far as a stream can be shifted.
MOST_SECONDS = 30 * 86_400
#: Reference of the line that is put in.
INJECTED = "injected:1"
#: What the attempt's own record says in the scheduler's words: gone with the scheduler.
_SCHEDULERS_WORD = {"state": "", "reason": "", "exit_code": None, "signal": None}
_AT = re.compile(r"([+-])(\d{1,8})(?:\.\d+)?s?$")


class Unanswerable(ValueError):
    """This cannot be asked of this attempt; the message says why."""


@dataclass(frozen=True)
class Given:
    """What the engine is given of one attempt."""

    attempt: Attempt
    observations: list[Observation]
    reports: list[CollectorReport]


class Ablation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is changed about the evidence, one thing or several.

    `at` is a time (RFC 3339), "+60s" after the start or "-60s" before the end. Without `node` the line that is put in
    stands on a node of the attempt that its verdict does not hold at fault.
    """

    without: Source | None = None
    delay: Source | None = None
    seconds: float = 0
    line: Annotated[str, msgspec.Meta(max_length=MAX_LINE)] = ""
    source: Source = Source.SYSLOG
    node: Annotated[str, msgspec.Meta(max_length=255)] = ""
    at: Annotated[str, msgspec.Meta(max_length=64)] = "-60s"

    def __str__(self) -> str:
        said = []
        if self.without is not None:
            said.append(f"without {self.without}")
        if self.delay is not None:
            said.append(
                f"{self.delay} {self.seconds:g} s later"
                if self.seconds >= 0
                else f"{self.delay} {-self.seconds:g} s earlier"
            )
        if self.line:
            said.append(
                f"with a line in {self.source} of {self.node or 'a node not at fault'} at {self.at}: {self.line}"
            )
        return ", ".join(said)


def checked(ablation: Ablation) -> Ablation:
    """An ablation that asks something. Raises InputError that names the field."""
    if ablation.without is None and ablation.delay is None and not ablation.line.strip():
        raise InputError("ablation: leave a source out, delay one, or put a line in")
    if not math.isfinite(ablation.seconds) or abs(ablation.seconds) > MOST_SECONDS:
        raise InputError(f"seconds: at most {MOST_SECONDS} either way, not {ablation.seconds:g}")
    if ablation.delay is not None and not ablation.seconds:
        raise InputError("seconds: by how many seconds the source comes later; not 0")
    if ablation.line and not _AT.match(ablation.at) and parse_stamp(ablation.at) is None:
        raise InputError(f"at: {ablation.at!r} is neither a time nor +60s after the start or -60s before the end")
    return ablation


def ablated(given: Given, ablation: Ablation, at_fault: frozenset[str] = frozenset()) -> Given:
    """The evidence changed. `at_fault` are the nodes that the verdict holds at fault. Raises Unanswerable."""
    if ablation.without is not None:
        given = _without(given, ablation.without)
    if ablation.delay is not None:
        given = _delayed(given, ablation.delay, int(ablation.seconds * MICRO))
    return _with_line(given, ablation, at_fault) if ablation.line else given


def _without(given: Given, source: Source) -> Given:
    """As if nobody had collected the source."""
    attempt = given.attempt
    if source in (Source.SCHEDULER, Source.KUBERNETES) and (attempt.scheduler == "kubernetes") == (
        source is Source.KUBERNETES
    ):
        attempt = msgspec.structs.replace(attempt, **_SCHEDULERS_WORD)
    return Given(
        attempt,
        [one for one in given.observations if one.source is not source],
        [one for one in given.reports if one.source is not source],
    )


def _delayed(given: Given, source: Source, micros: int) -> Given:
    """Every record of the source with its time shifted, those that print it in their text alone too."""
    return Given(
        given.attempt,
        [_shifted(one, micros) if one.source is source else one for one in given.observations],
        given.reports,
    )


def _shifted(observation: Observation, micros: int) -> Observation:
    stamp = parse_stamp(observation.timestamp) if observation.timestamp else None
    if stamp is None:
        stamp = read.parse(observation.body.partition("\n")[0]).stamp
    if stamp is None:
        return observation
    try:
        return msgspec.structs.replace(
            observation, timestamp=str(Stamp(stamp.clock, stamp.micros + micros, stamp.step))
        )
    except OverflowError as error:
        raise Unanswerable("a time of it, shifted so far, cannot be written") from error


def _with_line(given: Given, ablation: Ablation, at_fault: frozenset[str]) -> Given:
    observation = Observation(
        source=ablation.source,
        body=ablation.line,
        ref=INJECTED,
        node=ablation.node or _elsewhere(given.attempt, at_fault),
        timestamp=_moment(given.attempt, ablation.at),
        collector="injected",
    )
    reports, found = [], False
    for report in given.reports:
        if report.source is ablation.source and not found:
            found = True
            status = ReportStatus.OK if report.status is ReportStatus.EMPTY else report.status
            grown = {name: getattr(report, name) + 1 for name in ("read", "kept", "delivered")}
            report = msgspec.structs.replace(report, status=status, **grown)  # noqa: PLW2901
        reports.append(report)
    if not found:
        said = "only the line that was put in"
        partial = CollectorReport(source=ablation.source, status=ReportStatus.PARTIAL, reason=said)
        reports.append(msgspec.structs.replace(partial, read=1, kept=1, delivered=1))
    return Given(given.attempt, [*given.observations, observation], reports)


def _elsewhere(attempt: Attempt, at_fault: frozenset[str]) -> str:
    """A node that is not at fault, where there is one; the same for the same attempt."""
    nodes = sorted(attempt.nodes)
    return next((node for node in nodes if node not in at_fault), nodes[0] if nodes else "")


def _moment(attempt: Attempt, at: str) -> str:
    """The time as an observation carries it. Raises Unanswerable."""
    match = _AT.match(at)
    if match is None:
        return at
    field = "start" if match[1] == "+" else "end"
    text = getattr(attempt, field)
    stamp = parse_stamp(text) if text else None
    if stamp is None or stamp.clock not in ("utc", "local"):
        raise Unanswerable(f"the attempt has no {field} from which the line's time could be counted")
    micros = stamp.micros + int(match[1] + match[2]) * MICRO
    moved = epoch(micros)
    if moved is None:
        raise Unanswerable("the line's time is beyond the years that can be written")
    return str(Stamp(stamp.clock, micros, MICRO))
