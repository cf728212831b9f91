"""From the evidence files of an incident to observations: one pass over every file."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from rules import files, flight_recorder, formats
from rules.attempt import CollectorReport
from rules.incident import EvidenceFile, Incident
from rules.keep import LineReader, redactions
from rules.observation import Observation
from rules.redact import PLAIN, Redactor
from rules.ruleset import Ruleset
from rules.words import ReportStatus, Source


@dataclass
class Collected:
    """What was obtained: observations for the engine, and a report per source."""

    observations: list[Observation] = field(default_factory=list)
    reports: list[CollectorReport] = field(default_factory=list)


def collect(incident: Incident, ruleset: Ruleset, *, redactor: Redactor = PLAIN) -> Collected:
    """Read every file of an incident. A file that cannot be read becomes a report, never an exception."""
    out = Collected()
    for file in incident.files:
        began = time.monotonic()
        observations, report = read_file(file, ruleset, redactor=redactor)
        out.observations += observations
        out.reports.append(msgspec.structs.replace(report, seconds=round(time.monotonic() - began, 3)))
    out.reports += incident.attempt.collectors
    if incident.attempt.state:
        scheduler = Source.KUBERNETES if incident.attempt.scheduler == "kubernetes" else Source.SCHEDULER
        if not any(r.source == scheduler for r in out.reports):
            out.reports.append(
                CollectorReport(
                    source=scheduler, status=ReportStatus.OK, read=1, kept=1, delivered=1, files=["attempt.json"]
                )
            )
    return out


def read_file(
    file: EvidenceFile,
    ruleset: Ruleset,
    *,
    redactor: Redactor = PLAIN,
    collector: str = "files",
    stop: Callable[[int], str] = lambda _: "",
) -> tuple[list[Observation], CollectorReport]:
    """The observations of one file and its report.

    `stop` is told of every block read, in bytes; the reason that it gives, if any, ends the reading.
    """
    reader = LineReader(
        source=file.source,
        name=file.name,
        node=file.node,
        rank=file.rank,
        collector=collector,
        ruleset=ruleset,
        redactor=redactor,
    )
    dumps: list[Observation] = []
    status, reason = ReportStatus.OK, ""
    try:
        if flight_recorder.looks_like(file.path):
            dump = flight_recorder.observation(file.path, file.name, file.node, file.rank)
            dumps.append(reader.clean(msgspec.structs.replace(dump, collector=collector)))
            reader.lines, reader.bytes = 1, file.path.stat().st_size
        elif stopped := _scan(file, reader, stop):
            status, reason = ReportStatus.PARTIAL, f"{file.name}: {stopped}"
    except files.Unreadable as error:
        status, reason = (ReportStatus.PARTIAL if reader.lines else ReportStatus.ERROR), f"{file.name}: {error}"
    except OSError as error:
        status, reason = ReportStatus.ERROR, f"{file.name}: {error.strerror or error}"
    if status is ReportStatus.OK and not reader.lines:
        status, reason = ReportStatus.EMPTY, f"{file.name}: no lines"
    if reader.dropped:
        status = ReportStatus.PARTIAL
        reason = f"{file.name}: {reader.why_dropped()}"
    observations = dumps + reader.observations()
    kept = sum(o.count for o in observations)
    return observations, CollectorReport(
        source=file.source,
        status=status,
        reason=reason,
        collector=collector,
        read=reader.lines,
        kept=kept,
        delivered=kept,
        bytes=reader.bytes,
        redacted=sum(map(redactions, observations)),
        first=reader.first,
        last=reader.last,
        files=[file.name],
    )


def _scan(file: EvidenceFile, reader: LineReader, stop: Callable[[int], str]) -> str:
    """Go through a file once, or until told to stop; says why. Raises files.Unreadable or OSError."""
    reader.use(formats.rewriter(files.sample(file.path, 65_536)))
    for block in files.blocks(file.path):
        reader.block(block.data, block.line)
        reader.lines = block.line - 1 + block.newlines + (not block.data.endswith(b"\n"))
        if reason := stop(len(block.data)):
            return reason
    reader.end()
    return ""
