"""Where a collector puts what it reads: lines go through the rules at once, only what matters is kept."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rules.attempt import MAX_TEXT, CollectorReport
from rules.collect import read_file
from rules.incident import EvidenceFile
from rules.keep import LineReader, redactions
from rules.observation import MAX_BODY, Observation
from rules.redact import PLAIN, Redactor
from rules.ruleset import Ruleset
from rules.words import ReportStatus, Source
from verdicts.collectors.ask import Budget, BudgetSpent, SourceError


@dataclass
class Sink:
    """What one collection of one source has obtained so far.

    A collector calls `stream()` for each stream of lines it finds (one node's log, one pod's), `observe()`
    for records that are none, and `partial()` for each gap it knows of and goes on after. It ends by returning, or by
    raising SourceError: what was obtained until then is kept.
    """

    collector: str
    source: Source
    ruleset: Ruleset
    redactor: Redactor = PLAIN
    bytes: int = 0
    began: float = field(default_factory=time.monotonic)
    _streams: dict[tuple[str, str, int | None], LineReader] = field(default_factory=dict)
    _direct: list[Observation] = field(default_factory=list)
    _of_files: list[Observation] = field(default_factory=list)
    _file_reports: list[CollectorReport] = field(default_factory=list)
    _gaps: dict[str, None] = field(default_factory=dict)
    _notes: dict[str, None] = field(default_factory=dict)

    def stream(self, name: str = "", *, node: str = "", rank: int | None = None) -> LineReader:
        """The reader of one stream of lines, made when it is first asked for.

        `name` stands in the references of its lines after the collector's own name.
        """
        key = (name, node, rank)
        reader = self._streams.get(key)
        if reader is None:
            ref = "/".join(part for part in (self.collector, name or node) if part)
            reader = self._streams[key] = LineReader(
                source=self.source,
                name=ref,
                node=node,
                rank=rank,
                collector=self.collector,
                ruleset=self.ruleset,
                redactor=self.redactor,
            )
        return reader

    def file(self, path: Path, budget: Budget, *, name: str, node: str = "", rank: int | None = None) -> None:
        """Read a file: plain, packed, journald JSON, a flight recorder's dump.

        Raises BudgetSpent; what it read until then is kept.
        """
        spent: list[BudgetSpent] = []

        def stop(size: int) -> str:
            try:
                budget.take(size)
            except BudgetSpent as error:
                spent.append(error)
                return str(error)
            return ""

        given = EvidenceFile(path=path, name=name, source=self.source, node=node, rank=rank)
        observations, report = read_file(
            given, self.ruleset, redactor=self.redactor, collector=self.collector, stop=stop
        )
        self._of_files += observations
        self._file_reports.append(report)
        self.bytes += report.bytes
        if spent:
            raise spent[0]

    def observe(self, observations: Sequence[Observation]) -> None:
        """Take records that are no lines of text, already redacted."""
        self._direct.extend(observations)

    def keep(self, text: str, name: str) -> None:
        """A line that is kept whatever the rules make of it, such as what a job says of itself."""
        body = self.redactor.redact(text)[:MAX_BODY]
        ref = f"{self.collector}/{name}"
        self.bytes += len(text)
        self.observe([Observation(source=self.source, body=body, ref=ref, collector=self.collector)])

    def partial(self, reason: str) -> None:
        """A gap that the collector goes on after; the same reason is said once."""
        self._gaps[reason] = None

    def note(self, reason: str) -> None:
        """Something to be said in the report that is no gap, such as which way was taken."""
        self._notes[reason] = None

    @property
    def lines(self) -> int:
        """Lines and records read so far; may be asked from another thread while streams are added."""
        read = sum(reader.lines for reader in list(self._streams.values()))
        read += sum(record.count for record in list(self._direct))
        return read + sum(report.read for report in list(self._file_reports))

    def close(self, error: SourceError | None = None, *, empty: str = "") -> tuple[list[Observation], CollectorReport]:
        """What was obtained, and the report of it. `empty` says what was asked where nothing came."""
        observations = [*self._direct, *self._of_files]
        for reader in self._streams.values():
            reader.end()
            observations += reader.observations()
        dropped = (
            f"{name}: {reader.why_dropped()}" for (name, _, _), reader in self._streams.items() if reader.dropped
        )
        gaps = [*self._gaps, *dropped]
        gaps += [r.reason for r in self._file_reports if r.reason and r.status is not ReportStatus.EMPTY]
        kept = sum(observation.count for observation in observations)
        read = self.lines
        status, reasons = ReportStatus.OK, gaps
        if error is not None:
            reasons = [str(error), *(gap for gap in gaps if str(error) not in gap)]
        if reasons:
            status = ReportStatus.PARTIAL if read else ReportStatus.ERROR
        elif not read:
            status, reasons = ReportStatus.EMPTY, [empty or "it was asked and had nothing"]
        reason = self.redactor.redact("; ".join([*reasons, *self._notes]))
        ranges = [(one.first, one.last) for one in self._streams.values()]
        ranges += [(one.first, one.last) for one in self._file_reports]
        return observations, CollectorReport(
            source=self.source,
            status=status,
            reason=reason if len(reason) <= MAX_TEXT else reason[: MAX_TEXT - 1] + "…",
            collector=self.collector,
            read=read,
            kept=kept,
            delivered=kept,
            bytes=self.bytes + sum(reader.bytes for reader in self._streams.values()),
            redacted=sum(map(redactions, observations)),
            first=min((first for first, _ in ranges if first), default=None),
            last=max((last for _, last in ranges if last), default=None),
            seconds=round(time.monotonic() - self.began, 3),
        )
