"""Calls to Slurm that look and calls that change something, each sent once, with what is known of its fate."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from recovery.actuators import slurm_job
from recovery.actuators.base import MaybeApplied, NotApplied, Refused, Unseen
from recovery.actuators.slurm_job import SlurmJob
from verdicts.collectors import http
from verdicts.collectors.ask import Budget, SourceError, Unreachable
from verdicts.collectors.server import Server
from verdicts.collectors.slurm_commands import Commands
from verdicts.collectors.slurm_records import NodeState
from verdicts.collectors.slurm_rest import Rest, identified
from verdicts.collectors.slurm_ways import ways

log = logging.getLogger(__name__)

#: Of one look, and of one call: above Slurm's own MessageTimeout, so that its words come before our patience ends.
LOOK_SECONDS, CALL_SECONDS = 30.0, 20.0
MEGABYTES = 256
#: The controller's own no: it had the call, and nothing was done.
_NO = re.compile(
    r"Invalid job id|Access/permission denied|Access denied|presently disabled|already finished|no longer pending"
    r"|is pending execution|Invalid node name|Invalid user id|Invalid partition|Node count specification invalid"
    r"|Requested node configuration|Invalid job credential|Invalid node state|not allowed|Job is in use|Duplicate job",
    re.IGNORECASE,
)
#: It never left, or the controller wants it again a moment later.
_NOT_YET = re.compile(
    r"connect failure|Connection refused|already completing|in standby mode|Munge|Protocol authentication error"
    r"|is not in .*install Slurm's client",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Ways:
    """slurmrestd, where there is one, and the commands."""

    server: Server | None
    commands: Commands

    # Looks

    def job(self, job_id: str) -> SlurmJob | None:
        """The controller's record of a job; None where it has none. Raises Unseen."""
        budget = Budget.of(seconds=LOOK_SECONDS, megabytes=MEGABYTES)
        if self.server is not None:
            try:
                return slurm_job.read(self._by_rest(self.server, job_id, budget), job_id)
            except (SourceError, Unseen) as error:
                log.info("slurmrestd does not tell of job %s, the commands are asked: %s", job_id, error)
        try:
            raw = self.commands.run("squeue", "--all", "--states=all", "--json", f"--jobs={job_id}", budget=budget)
        except SourceError as error:
            if "Invalid job id" in str(error):
                return None
            raise Unseen(str(error)) from error
        return slurm_job.read(raw, job_id)

    def nodes(self, names: Sequence[str]) -> list[NodeState]:
        """The controller's records of nodes. Raises Unseen."""
        budget = Budget.of(seconds=LOOK_SECONDS, megabytes=MEGABYTES)
        try:
            return ways(self.server, self.commands, "", budget).nodes(names)
        except SourceError as error:
            raise Unseen(str(error)) from error

    def partitions(self) -> dict[str, frozenset[str]]:
        """The nodes of each partition. Raises Unseen."""
        budget = Budget.of(seconds=LOOK_SECONDS, megabytes=MEGABYTES)
        try:
            return ways(self.server, self.commands, "", budget).partitions()
        except SourceError as error:
            raise Unseen(str(error)) from error

    def version(self) -> str:
        """Slurm's version. Raises Unseen."""
        try:
            return ways(self.server, self.commands, "", Budget.of(seconds=LOOK_SECONDS, megabytes=16)).version()
        except SourceError as error:
            raise Unseen(str(error)) from error

    def _by_rest(self, server: Server, job_id: str, budget: Budget) -> bytes:
        path = Rest(server).api(budget).job.format(job_id.partition("_")[0])
        try:
            with http.stream(
                identified(server), path, budget, headers={"Connection": "close"}, seconds=LOOK_SECONDS / 2, tries=1
            ) as pieces:
                return b"".join(pieces)
        except http.Refused as error:
            if "Invalid job id" in error.said:
                return b"{}"
            raise

    # Calls

    def scontrol(self, *arguments: str) -> None:
        """Have `scontrol` do something. Raises NotApplied, MaybeApplied, Refused."""
        self._command("scontrol", *arguments)

    def cancel(self, job_id: str) -> None:
        """End a job: by slurmrestd where there is one. Raises NotApplied, MaybeApplied, Refused."""
        if self.server is None or "_" in job_id:
            self._command("scancel", job_id)
            return
        budget = Budget.of(seconds=CALL_SECONDS, megabytes=16)
        try:
            path = Rest(self.server).api(budget).job.format(job_id)
        except SourceError:
            # Nothing was sent yet: the commands may do it.
            self._command("scancel", job_id)
            return
        try:
            with http.stream(
                identified(self.server), path, budget, method="DELETE", headers={"Connection": "close"}, tries=1
            ) as pieces:
                b"".join(pieces)
        except SourceError as error:
            raise fate(error) from error

    def _command(self, program: str, *arguments: str) -> None:
        try:
            self.commands.run(program, *arguments, budget=Budget.of(seconds=CALL_SECONDS, megabytes=16))
        except SourceError as error:
            raise fate(error) from error


def fate(error: SourceError) -> NotApplied | MaybeApplied | Refused:
    """What a failed call means. What is not known to be a no, or never to have left, may have been done."""
    said = str(error)
    if _NOT_YET.search(said):
        return NotApplied(said)
    if _NO.search(said) and not isinstance(error, Unreachable):
        return Refused(said)
    return MaybeApplied(said)
