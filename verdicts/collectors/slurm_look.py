"""What one look for attempts has to tell, and what it remembers for the next one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from rules.attempt import Attempt
from verdicts.collectors.ask import BudgetSpent
from verdicts.collectors.slurm_records import Job, rfc3339
from verdicts.collectors.slurm_ways import Slurm

#: Accounting is asked for so much time at once, so that a long outage is caught up with piece by piece.
SLICE = 6 * 3600
#: After accounting was away its rows may come in any order and late: for so long the whole outage is looked at again.
CATCH_UP = 600
#: So far our clock may be ahead of Slurm's: a look goes on from the newest time that Slurm itself has told.
AHEAD = 3 * 3600


class Look:
    """One look, and what the cursor remembers between two.

    `since` is up to when accounting was looked at. `known` has for each submission ("4711@1796037704") its restart
    count, whether it is over, and a digest of what was told of it, so that only news is told. It holds what runs and
    what ended lately; what falls out of it is told again when it turns up, which changes nothing.
    """

    def __init__(self, since: int, now: int, known: dict[str, list[Any]], outage: list[int], overlap: int) -> None:
        self._since, self._now, self._overlap = since, now, overlap
        self._known = known
        self._outage = outage
        self._next: dict[str, list[Any]] = {}
        self._until = since
        self._failed = self._partly = False
        self._newest = 0

    @classmethod
    def read(cls, cursor: Mapping[str, Any], now: int, *, overlap: float, first_look: float) -> "Look":
        """The look that goes on from a cursor."""
        since = int(cursor.get("since", now - first_look))
        outage = [int(moment) for moment in cursor.get("outage", [])]
        return cls(since, now, dict(cursor.get("known", {})), outage, int(overlap))

    def booked(self, slurm: Slurm) -> list[Job]:
        """What accounting has since the last look, slice by slice; what is not reached is looked at next time."""
        begin = max(1, min([self._since, *self._outage[:1]]) - self._overlap)
        found: list[Job] = []
        while begin < self._now:
            end = min(self._now, begin + SLICE)
            try:
                # Jobs that are too new for our clock are there too: nobody's clock is ours.
                found += slurm.ended_since(begin, end if end < self._now else self._now + 3600)
            except BudgetSpent as error:
                if not found:
                    raise
                slurm.note(f"accounting was read up to {datetime.fromtimestamp(begin, UTC):%H:%M:%S} UTC only: {error}")
                self._partly = True
                break
            begin = end
        self._until = begin
        return found

    def accounting_failed(self) -> None:
        """Accounting is away: the time is looked at again when it is back."""
        self._failed = True

    def unfinished(self) -> None:
        """Not all could be told: the same time is looked at again."""
        self._partly = True

    def counts(self) -> dict[tuple[str, int], int]:
        """The restart counts that were told."""
        return {(key.rpartition("@")[0], int(key.rpartition("@")[2])): row[0] for key, row in self._known.items()}

    def is_new(self, job: Job) -> bool:
        """Whether a submission is unknown, or its end is."""
        known = self._known.get(f"{job.id}@{job.submit}")
        return known is None or (job.ended and not known[1])

    def lost(self, jobs: Iterable[Job]) -> set[str]:
        """Those that ran when they were last seen, and of which nothing is said now."""
        there = {f"{job.id}@{job.submit}" for job in jobs}
        return {key.rpartition("@")[0] for key, row in self._known.items() if not row[1] and key not in there}

    def news(self, jobs: Iterable[Job], slurm: Slurm, tell: Callable[[Job], Attempt]) -> Iterator[Attempt]:
        """The attempts of which there is something to tell."""
        for job in jobs:
            self._newest = max(self._newest, job.submit, job.start if job.began else 0, job.end if job.ended else 0)
            if not job.began:
                continue
            told = "|".join((job.state, str(job.start), str(job.end if job.ended else 0), job.nodes))
            digest = blake2b(told.encode(), digest_size=6).hexdigest()
            key = f"{job.id}@{job.submit}"
            self._next[key] = [job.restarts or 0, int(job.ended), digest]
            known = self._known.get(key)
            if known is not None and known[2] == digest:
                continue
            if known is not None and known[1] and not job.ended:
                # The controller forgot what accounting has told.
                self._next[key] = known
                continue
            try:
                yield tell(job)
            except ValueError as error:
                slurm.note(f"job {job.id}: its nodes cannot be read: {error}")

    def requeued(self, jobs: Sequence[Job]) -> Iterator[Attempt]:
        """The ends of attempts whose job is at a later one already: all that the controller alone tells of them."""
        latest = {job.id: job for job in jobs}
        for key, row in self._known.items():
            name, _, submit = key.rpartition("@")
            job = latest.get(name)
            if job is None or row[1] or key in self._next or job.submit <= int(submit):
                continue
            # No digest is this one, so that it is told again as soon as accounting says how it ended.
            self._next[key] = [row[0], 1, ""]
            yield Attempt(
                job_id=name,
                scheduler="slurm",
                submit_time=rfc3339(int(submit)),
                restart_count=row[0],
                end=rfc3339(job.submit),
                reason="requeued; how it ended is not known without accounting",
            )

    def cursor(self) -> dict[str, Any]:
        """Where the next look goes on."""
        stay = self._failed or self._partly
        told: dict[str, Any] = {"since": self._until, "known": {**self._known, **self._next} if stay else self._next}
        outage = self._outage
        if self._failed:
            told["since"] = self._since
            outage = [outage[0] if outage else self._since, self._now + CATCH_UP]
        elif self._until < self._now and outage:
            outage = [self._until, outage[1]]
        elif self._partly and self._until >= self._now:
            told["since"] = self._since
        else:
            told["since"] = min(self._until, max(self._newest, self._until - AHEAD))
            outage = [] if outage and outage[1] <= self._now else outage
        return told | ({"outage": outage} if outage else {})
