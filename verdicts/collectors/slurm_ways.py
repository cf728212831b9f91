"""The two ways to Slurm: slurmrestd where one is configured, else and where it fails, the commands."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from verdicts.collectors.ask import Budget, BudgetSpent, SourceError, Unreachable
from verdicts.collectors.http import Refused
from verdicts.collectors.server import Server
from verdicts.collectors.slurm_commands import SEARCHED, Commands
from verdicts.collectors.slurm_json import Away
from verdicts.collectors.slurm_records import Job, NodeState
from verdicts.collectors.slurm_rest import ONE_BY_ONE, Rest

T = TypeVar("T")

#: Of the time that is left slurmrestd may use so much, so that the commands have theirs.
SHARE = 0.5


@dataclass
class Slurm:
    """One cluster's Slurm for the length of one look. `notes` say which way was taken and what was missing."""

    rest: Rest | None
    commands: Commands
    cluster: str
    budget: Budget
    notes: dict[str, None] = field(default_factory=dict)
    _given_up: SourceError | None = None
    _switches: dict[str, frozenset[str]] | None = None

    def note(self, said: str) -> None:
        """Say something once."""
        self.notes[said] = None

    def jobs(self) -> list[Job]:
        """All jobs that the controller has. Raises SourceError."""
        found = self._ask("the controller's jobs", lambda rest, left: rest.jobs(left), self.commands.jobs)
        return self._own(found)

    def job(self, name: str) -> list[Job]:
        """What the controller has of one job. Raises SourceError."""
        found = self._ask(
            "the controller's record",
            lambda rest, left: rest.job(name, left),
            lambda left: self.commands.job(name, left),
        )
        return self._own([job for job in found if job.id == name])

    def ended_since(self, begin: int, end: int) -> list[Job]:
        """The jobs that ran in a window, by accounting. Raises SourceError."""
        found = self._ask(
            "accounting",
            lambda rest, left: rest.ended_since(begin, end, left, cluster=self.cluster),
            lambda left: self.commands.ended_since(begin, end, left, cluster=self.cluster),
        )
        return self._own(found)

    def history(self, ids: Sequence[str], *, steps: bool = False) -> tuple[list[Job], frozenset[str]]:
        """All submissions of jobs, by accounting, and for which of the ids that was asked. Raises SourceError."""
        asked: list[Sequence[str]] = []

        def by_rest(rest: Rest, left: Budget) -> list[Job]:
            found = rest.history(ids, left, cluster=self.cluster, steps=steps)
            asked.append(ids[:ONE_BY_ONE])
            return found

        def by_commands(left: Budget) -> list[Job]:
            found = self.commands.history(ids, left, cluster=self.cluster, steps=steps)
            asked.append(ids)
            return found

        found = self._own(self._ask("accounting", by_rest, by_commands))
        return found, frozenset(asked[-1])

    def nodes(self, names: Sequence[str]) -> list[NodeState]:
        """The controller's records of nodes. Raises SourceError."""
        return self._ask(
            "the nodes",
            lambda rest, left: rest.nodes(names, left),
            lambda left: self.commands.nodes(names, left),
        )

    def partitions(self) -> dict[str, frozenset[str]]:
        """The nodes of each partition. Raises SourceError."""
        return self._ask("the partitions", lambda rest, left: rest.partitions(left), self.commands.partitions)

    def switches(self) -> dict[str, frozenset[str]]:
        """The nodes below each leaf switch; none where that cannot be known. Only the commands say it."""
        if self._switches is None:
            self._switches = {}
            if self.rest is None or self._installed():
                try:
                    self._switches = self.commands.switches(self.budget)
                except BudgetSpent:
                    raise
                except SourceError as error:
                    self.note(f"which nodes share a switch is not known ({error})")
        return self._switches

    def _installed(self) -> bool:
        return shutil.which("squeue", path=self.commands.folder or SEARCHED) is not None

    def version(self) -> str:
        """Slurm's version. Raises SourceError."""
        return self._ask("the version", lambda rest, left: rest.version(left), self.commands.version)

    def clock(self) -> int:
        """The controller's clock. Raises SourceError."""
        return self._ask("the clock", lambda rest, left: rest.clock(left), self.commands.clock)

    def _own(self, jobs: list[Job]) -> list[Job]:
        """The jobs of this cluster: slurmrestd's accounting answers for all that share its database.

        Raises SourceError where there are several and nobody said which is ours.
        """
        named = {job.cluster for job in jobs if job.cluster}
        if self.cluster:
            return [job for job in jobs if job.cluster in {"", self.cluster}]
        if len(named) > 1:
            raise SourceError(
                f"accounting has jobs of {', '.join(sorted(named))[:200]}: set slurm_cluster to one of them"
            )
        return jobs

    def _ask(self, what: str, by_rest: Callable[[Rest, Budget], T], by_commands: Callable[[Budget], T]) -> T:
        """The answer by slurmrestd where there is one and it answers, else by commands."""
        refused = self._given_up
        if self.rest is not None and refused is None:
            try:
                with part_of(self.budget, SHARE) as left:
                    return by_rest(self.rest, left)
            except SourceError as error:
                if self.budget.bytes_left < 0:
                    raise
                self.budget.left()
                refused = error
                # Where it answers at all, and only a daemon behind it does not, the next question may fare better.
                if isinstance(error, (Unreachable, BudgetSpent)) and not isinstance(error, (Refused, Away)):
                    self._given_up = error
        if refused is not None:
            if not self._installed():
                raise refused
            told = "answer" if self._given_up is not None else f"give {what}"
            self.note(f"slurmrestd did not {told} ({refused}); asked Slurm's commands instead")
            try:
                return by_commands(self.budget)
            except BudgetSpent:
                raise
            except SourceError as error:
                # The way that is configured comes first: what it said is what has to be mended.
                away = isinstance(refused, Unreachable) and isinstance(error, Unreachable)
                raise (Unreachable if away else SourceError)(
                    f"slurmrestd: {refused}; Slurm's commands: {error}"
                ) from error
        return by_commands(self.budget)


@contextmanager
def part_of(budget: Budget, share: float) -> Iterator[Budget]:
    """A share of the time that is left, with all of the bytes."""
    seconds = budget.left() * share
    part = Budget(min(budget.deadline, time.monotonic() + seconds), budget.bytes_left, seconds)
    try:
        yield part
    finally:
        budget.taken += part.taken
        budget.bytes_left -= part.taken


def ways(server: Server | None, commands: Commands, cluster: str, budget: Budget) -> Slurm:
    """The ways to a Slurm."""
    return Slurm(Rest(server) if server is not None else None, commands, cluster, budget)


def check_ways(server: Server | None, commands: Commands, timezone: str) -> None:
    """What the types of the settings cannot. Raises ValueError naming the key."""
    if server is not None:
        server.check()
    commands.check()
    if timezone:
        try:
            ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"timezone: {timezone!r} is none that is known here, such as Europe/Berlin") from error
