"""What Slurm says of one attempt, as lines for the rules: the job, its steps, its nodes, the controller's log."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from rules.stamp import MICRO, parse_stamp
from rules.words import Source
from verdicts.collectors.ask import Ask, Budget, BudgetSpent, SourceError
from verdicts.collectors.server import Server
from verdicts.collectors.sink import Sink
from verdicts.collectors.slurm_commands import Commands
from verdicts.collectors.slurm_log import lines_about
from verdicts.collectors.slurm_records import Job, NodeState, as_lines, joined, merged, node_line, says_of_itself
from verdicts.collectors.slurm_ways import Slurm, check_ways, ways
from verdicts.collectors.source import Probe, SourceSettings

#: How far back the newest end of a job is looked for: further only where it was not found.
LATELY = (timedelta(minutes=30), timedelta(hours=24))


class SlurmRecords(SourceSettings, tag="slurm", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The scheduler's own evidence. Settings as of the discovery.

    Without `accounting` only what the controller still has is read.

    `controller_log` is the path of slurmctld's log where it can be read from here; its lines that speak of the job or
    of its nodes are read too. `timezone` is the zone of its stamps.
    """

    source: Source = Source.SCHEDULER
    server: Server | None = None
    commands: Commands = Commands()
    slurm_cluster: str = ""
    accounting: bool = True
    controller_log: str = ""
    timezone: str = ""

    gives: ClassVar[frozenset[Source]] = frozenset({Source.SCHEDULER})

    def check(self) -> None:
        check_ways(self.server, self.commands, self.timezone)

    def collect(self, ask: Ask, out: Sink) -> None:
        slurm = ways(self.server, self.commands, self.slurm_cluster, ask.budget)
        failure: SourceError | None = None
        try:
            submissions, failure = self._submissions(ask, slurm, out)
            self._job(ask, submissions, out)
            self._nodes(ask, slurm, out)
            if self.controller_log:
                lines_about(self.controller_log, self.timezone, ask, out, _own_time(ask, submissions))
        finally:
            for said in slurm.notes:
                out.note(said)
        if failure is not None and not out.lines:
            raise failure

    def probe(self, nodes: Sequence[str], budget: Budget) -> Probe:
        slurm = ways(self.server, self.commands, self.slurm_cluster, budget)
        version = slurm.version()
        clock = slurm.clock()
        now = datetime.fromtimestamp(clock, UTC) if clock else datetime.now(UTC)
        there = frozenset(node.name for node in slurm.nodes(()))
        newest, jobs = None, None
        for back in LATELY if self.accounting else ():
            try:
                lately = slurm.ended_since(int((now - back).timestamp()), int(now.timestamp()) + 60)
            except SourceError as error:
                slurm.note(f"accounting does not answer: {error}")
                break
            jobs = frozenset(job.id for job in lately)
            if ends := [job.end for job in lately if job.ended]:
                newest = datetime.fromtimestamp(max(ends), UTC)
                break
        return Probe(
            version=version,
            newest=newest,
            server_time=datetime.fromtimestamp(clock, UTC) if clock else None,
            nodes=there,
            jobs=jobs,
            notes=tuple(slurm.notes),
        )

    def _submissions(self, ask: Ask, slurm: Slurm, out: Sink) -> tuple[list[Job], SourceError | None]:
        """All that is known of the job, each time it was submitted; what did not answer is a gap."""
        found: list[Job] = []
        failure: SourceError | None = None
        asked: list[tuple[str, Callable[[], list[Job]]]] = [
            ("accounting", lambda: slurm.history([ask.attempt.job_id], steps=True)[0]),
            ("the controller", lambda: slurm.job(ask.attempt.job_id)),
        ]
        for what, look in asked if self.accounting else asked[1:]:
            try:
                found += look()
            except BudgetSpent:
                raise
            except SourceError as error:
                failure = failure or error
                out.partial(f"{what} did not answer: {error}")
        return joined(merged(job for job in found if job.id == ask.attempt.job_id)), failure

    def _job(self, ask: Ask, submissions: Sequence[Job], out: Sink) -> None:
        """The record of this attempt of the job and of its steps."""
        submit = seconds(ask.attempt.submit_time)
        own = [job for job in submissions if job.submit == submit] if submit else submissions[-1:]
        reader = out.stream("job")
        for job in own:
            for text, moment in as_lines(job):
                if says_of_itself(text):
                    out.keep(text, "job")
                else:
                    reader.feed(text.encode(), _times(moment))

    def _nodes(self, ask: Ask, slurm: Slurm, out: Sink) -> None:
        """What the controller and accounting say of the nodes in the attempt's window."""
        if not ask.nodes:
            return
        begin, end = int(ask.begin.timestamp()), int(ask.end.timestamp())
        told: list[NodeState] = []
        try:
            told += (node for node in slurm.nodes(ask.nodes) if _counts(node, end))
        except BudgetSpent:
            raise
        except SourceError as error:
            out.partial(f"the nodes' states are not known: {error}")
        try:
            # After a job that did well only the present states are looked at: this question is the slowest.
            skipped = ask.attempt.state == "COMPLETED" or not self.accounting
            events = [] if skipped else self.commands.events(ask.nodes, begin, end, ask.budget)
            told += (node for node in events if node.name in set(ask.nodes) and begin <= node.since <= end)
        except BudgetSpent:
            raise
        except SourceError as error:
            # slurmrestd has no call for them: without the commands only the present states are known.
            out.note(f"when nodes were down before is not known: {error}")
        for node in _distinct(told):
            out.stream("node", node=node.name).feed(node_line(node).encode(), _times(node.since))


def seconds(text: str | None) -> int:
    """A time of an attempt in seconds since 1970, 0 where there is none."""
    stamp = parse_stamp(text) if text else None
    return stamp.micros // MICRO if stamp is not None else 0


def _own_time(ask: Ask, submissions: Iterable[Job]) -> tuple[float, float]:
    """From when until when what is said of the job is said of this attempt of it.

    A requeue is logged in the second in which the next submission is stamped, and ends the one before.
    """
    submit = seconds(ask.attempt.submit_time)
    begin = submit + 1.0 if ask.attempt.restart_count else float("-inf")
    end = min((job.submit + 1.0 for job in submissions if submit and job.submit > submit), default=float("inf"))
    return begin, end


def _times(moment: int) -> list[int] | None:
    """When a line was true, as the readers of lines take it."""
    return [moment * 10**9] if 0 < moment < 1 << 33 else None


def _counts(node: NodeState, end: int) -> bool:
    """Whether a node's present state can have to do with an attempt: it has a reason, given before the attempt's end.

    What was done to a node afterwards says nothing of the attempt, and a healthy node nothing at all.
    """
    return bool(node.reason) and 0 < node.since <= end


def _distinct(nodes: Iterable[NodeState]) -> Iterable[NodeState]:
    """The states, those that the controller and accounting both tell once."""
    return {(node.name, node.reason, node.since): node for node in nodes}.values()
