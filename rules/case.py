"""One case before its conclusion: the attempt, what was seen, and what was not."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rules.attempt import MAX_TEXT, Attempt, CollectorReport
from rules.events import Event, Seen
from rules.observation import Observation
from rules.place import Places
from rules.rule import Rule
from rules.ruleset import Ruleset
from rules.words import ALWAYS, ReportStatus, Source


@dataclass(frozen=True)
class Case:
    """Everything that the conclusion is drawn from."""

    attempt: Attempt
    ruleset: Ruleset
    reports: Sequence[CollectorReport]
    events: list[Event]
    unrecognised: list[Observation]
    progress: list[Seen]
    places: Places
    near: int | None
    zone: str
    mode: str

    @property
    def topology(self) -> dict[str, dict[str, list[str]]]:
        """What is shared by whom: the site's word, and the attempt's over it."""
        merged = {kind: dict(elements) for kind, elements in self.ruleset.site.topology.items()}
        for kind, elements in self.attempt.topology.items():
            merged.setdefault(kind, {}).update(elements)
        return merged

    def report(self, source: Source) -> CollectorReport:
        """The report of one source; several of one source are joined, none means not configured."""
        return self._joined[source]

    @cached_property
    def _joined(self) -> dict[Source, CollectorReport]:
        given: dict[Source, list[CollectorReport]] = {source: [] for source in Source}
        for report in self.reports:
            given[report.source].append(report)
        return {source: join_reports(source, of) for source, of in given.items()}

    def applies(self, source: Source) -> bool:
        """Whether a source can exist for this attempt: a Slurm job has no pods, a pod no slurmctld.

        Of an attempt that does not say its scheduler: where one of the two records was given, the other cannot be.
        What the site says that it does not have exists where it gave something all the same.
        """
        if source in self.ruleset.site.absent:
            return self.report(source).status is not ReportStatus.NOT_CONFIGURED
        records = {"slurm": Source.SCHEDULER, "kubernetes": Source.KUBERNETES}
        if source not in records.values():
            return True
        own = records.get(self.attempt.scheduler)
        given = {source for source in records.values() if self.report(source).status is not ReportStatus.NOT_CONFIGURED}
        return source == own if own else source in given or not given

    def missing(self, rule: Rule) -> Source | None:
        """What a rule could not fire without: the first of its sources that can exist, if none of them was seen."""
        there = [source for source in rule.match.sources if self.applies(source)]
        return None if any(map(self.seen, there)) else next(iter(there), None)

    def seen(self, source: Source) -> bool:
        """Whether its rules had their chance: it was read to its end, or it answered and had nothing to tell.

        Of the records that every attempt leaves nothing is no answer: a job without one line of a log is not seen.
        """
        status = self.report(source).status
        return status is ReportStatus.OK or (status is ReportStatus.EMPTY and source not in ALWAYS)

    def covered(self, source: Source) -> bool:
        """Whether a source was read to its end and had something."""
        return self.report(source).status is ReportStatus.OK


def _bounded(reason: str) -> str:
    """Thousands of unreadable files have thousands of reasons: the first say enough."""
    return reason if len(reason) <= MAX_TEXT else reason[: MAX_TEXT - 1] + "…"


#: Worst first: what is said of a source whose reports differ.
_WORST = (ReportStatus.ERROR, ReportStatus.PARTIAL, ReportStatus.OK, ReportStatus.EMPTY, ReportStatus.NOT_CONFIGURED)


def join_reports(source: Source, reports: Sequence[CollectorReport]) -> CollectorReport:
    """One report for a source, without the time taken, which differs from run to run.

    An error beside something obtained is `partial`: what was obtained counts, and so does the gap.
    """
    if not reports:
        return CollectorReport(
            source=source, status=ReportStatus.NOT_CONFIGURED, reason="nothing was given for this source"
        )
    statuses = {r.status for r in reports}
    status = next(s for s in _WORST if s in statuses)
    if status is ReportStatus.ERROR and statuses & {ReportStatus.OK, ReportStatus.PARTIAL}:
        status = ReportStatus.PARTIAL
    return CollectorReport(
        source=source,
        status=status,
        reason=_bounded("; ".join(sorted({r.reason for r in reports if r.reason}))),
        collector=", ".join(sorted({r.collector for r in reports if r.collector})),
        read=sum(r.read for r in reports),
        kept=sum(r.kept for r in reports),
        delivered=sum(r.delivered for r in reports),
        bytes=sum(r.bytes for r in reports),
        redacted=sum(r.redacted for r in reports),
        first=min((r.first for r in reports if r.first), default=None),
        last=max((r.last for r in reports if r.last), default=None),
        files=sorted({name for r in reports for name in r.files}),
    )
