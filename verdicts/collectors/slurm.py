"""Slurm: where attempts are found, and what the scheduler says of one."""

from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec

from rules.attempt import Attempt, natural
from verdicts.collectors.ask import Budget, BudgetSpent, SourceError
from verdicts.collectors.server import Server
from verdicts.collectors.slurm_commands import Commands
from verdicts.collectors.slurm_evidence import SlurmRecords
from verdicts.collectors.slurm_look import Look
from verdicts.collectors.slurm_records import Job, attempt, joined, merged, numbered
from verdicts.collectors.slurm_ways import Slurm, check_ways, ways
from verdicts.collectors.source import DiscoverySettings, Found

__all__ = ["SlurmDiscovery", "SlurmRecords"]

#: Jobs that are asked for by their id in one look.
BY_ID = 2_000

Seconds = Annotated[float, msgspec.Meta(ge=0, le=30 * 86_400)]


class SlurmDiscovery(DiscoverySettings, tag="slurm", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The attempts of a Slurm cluster: running ones as the controller has them, ended ones as accounting has them.

    Read through slurmrestd where `server` is given, else and where that fails by Slurm's commands. A look goes back
    `overlap` seconds before the last one, for rows that accounting gets late; the first goes back `first_look`.
    `slurm_cluster` is Slurm's own name of the cluster, needed where one accounting serves several. With `partitions` or
    `accounts` only jobs of these are taken. `accounting = false` is for clusters without slurmdbd. With `topology`
    attempts know which of their nodes share a leaf switch.
    """

    server: Server | None = None
    commands: Commands = Commands()
    slurm_cluster: str = ""
    partitions: list[str] = []
    accounts: list[str] = []
    overlap: Seconds = 600.0
    first_look: Seconds = 3600.0
    accounting: bool = True
    topology: bool = True
    #: The zone of the cluster's clocks, for stamps in its logs that carry none.
    timezone: str = ""

    def check(self) -> None:
        check_ways(self.server, self.commands, self.timezone)

    def discover(self, cursor: dict[str, Any], now: datetime, budget: Budget) -> Found:
        slurm = ways(self.server, self.commands, self.slurm_cluster, budget)
        look = Look.read(cursor, int(now.timestamp()), overlap=self.overlap, first_look=self.first_look)
        live, booked, failure = self._asked(slurm, look)
        if live is None and booked is None:
            raise failure or SourceError("neither Slurm's controller nor its accounting was asked")
        records = [job for job in (*(live or []), *(booked or [])) if self._wanted(job)]
        jobs = self._completed(slurm, look, records, told_by_accounting=booked is not None)
        attempts = list(look.news(jobs, slurm, lambda job: self._told(job, slurm)))
        attempts += look.requeued(jobs) if booked is None else ()
        listed = frozenset(job.id for job in live if not job.ended) if live is not None else None
        return Found(attempts=attempts, cursor=look.cursor(), listed=listed, notes=tuple(slurm.notes))

    def _asked(self, slurm: Slurm, look: Look) -> tuple[list[Job] | None, list[Job] | None, SourceError | None]:
        """What the controller and what accounting say; None for the one that does not answer."""
        failure: SourceError | None = None
        live: list[Job] | None = None
        booked: list[Job] | None = None
        try:
            live = slurm.jobs()
        except BudgetSpent:
            raise
        except SourceError as error:
            failure = error
            slurm.note(f"Slurm's controller did not answer ({error}): what it still runs is not known")
        if not self.accounting:
            return live, None, failure
        try:
            booked = look.booked(slurm)
        except SourceError as error:
            if isinstance(error, BudgetSpent) and live is None:
                raise
            failure = failure or error
            look.accounting_failed()
            if "accounting storage is disabled" in str(error):
                slurm.note("this cluster keeps no accounts: set accounting = false; ends may be missed")
            else:
                slurm.note(f"Slurm's accounting did not answer ({error}): went on with the controller alone")
        return live, booked, failure

    def _wanted(self, job: Job) -> bool:
        ours = not self.partitions or bool(set(job.partition.split(",")) & set(self.partitions))
        return ours and (not self.accounts or job.account in self.accounts)

    def _completed(self, slurm: Slurm, look: Look, records: list[Job], *, told_by_accounting: bool) -> list[Job]:
        """The jobs with their restarts and all components, older submissions asked for by id where they are needed."""
        jobs, missing = numbered(merged(records), look.counts())
        # Of a heterogeneous job a window may hold one component only.
        wanted = missing | {job.id for job in jobs if job.component is not None and job.began and look.is_new(job)}
        wanted |= look.lost(jobs)
        if told_by_accounting and wanted:
            ids = sorted(wanted)[:BY_ID]
            if len(wanted) > BY_ID:
                slurm.note(f"{len(wanted)} jobs had to be asked for by id; {BY_ID} of them were")
            try:
                older, asked = slurm.history(ids)
            except SourceError as error:
                older, asked = [], frozenset()
                slurm.note(f"older submissions of {len(ids)} jobs are not known ({error})")
            records += (job for job in older if job.id in wanted and self._wanted(job))
            jobs, missing = numbered(merged(records), look.counts(), asked)
        whole = joined(job for job in jobs if job.restarts is not None)
        if missing:
            look.unfinished()
            slurm.note(f"how often {len(missing)} jobs were restarted is not known yet; they are told later")
        return whole

    def _told(self, job: Job, slurm: Slurm) -> Attempt:
        """The attempt, with what the cluster's settings and its topology add. Raises ValueError."""
        offset = ""
        if self.timezone:
            zone = datetime.fromtimestamp(job.start or job.submit, ZoneInfo(self.timezone)).strftime("%z")
            offset = f"{zone[:3]}:{zone[3:5]}"
        told = attempt(job, utc_offset=offset)
        if not self.topology or len(told.nodes) < 2:
            return told
        nodes = frozenset(told.nodes)
        switches = {name: sorted(below & nodes, key=natural) for name, below in slurm.switches().items()}
        known = {name: below for name, below in switches.items() if below}
        return msgspec.structs.replace(told, topology={"switch": known}) if known else told
