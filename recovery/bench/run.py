"""One made-up fleet under one way to answer: its jobs, what breaks and is repaired, and where the node-hours go."""

import heapq
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from recovery.bench.answers import Answer, Job, Way
from recovery.bench.faults import REPAIR, Fault, Fleet, Said, Verdicts, faults
from recovery.bench.ours import Ours, restarted

#: Hours: assumed, the same for all.
CHECKPOINT, START_UP, SEEN, HANGS = 0.5, 0.25, 1 / 60, 10 / 60
#: How soon a fault that lasts ends a job again, on average; a user's bug comes at its step.
AGAIN = {"node": 0.5, "switch": 1 / 6, "image": 1 / 3, "bug": 1 / 12}
PEOPLE, FOUND_BY_DIAGNOSTICS = 1.0, 0.95


@dataclass
class Result:
    """The figures of one run."""

    way: str
    seed: int
    goodput: float = 0.0
    exclusions: int = 0
    wrong: int = 0
    sound_hours: float = 0.0
    away_hours: float = 0.0
    crashes: int = 0
    to_people: int = 0
    by_itself: int = 0
    promoted: int = 0
    demoted: int = 0
    marked: int = 0  # exclusions that a recurrence marked as wrong
    paced: int = 0
    #: Exclusions of the node that was at fault, which a restart alone would have helped too.
    needless: int = 0
    #: Where node-hours went: waiting for a person, replay, start-up, … as shares of all.
    lost: dict[str, float] = field(default_factory=dict)

    @property
    def wrong_share(self) -> float:
        """Of the nodes that were taken away, those that were not at fault."""
        return self.wrong / self.exclusions if self.exclusions else 0.0


class Run:
    """One fleet under one way to answer."""

    def __init__(self, fleet: Fleet, way: Way, rates: Verdicts, seed: int):
        self.fleet, self.way, self.rates, self.seed = fleet, way, rates, seed
        self.result = Result(way.name, seed)
        self.away: dict[int, tuple[float, int]] = {}
        self._broken: dict[int, Fault] = {}
        self._out: set[int] = set()  # in repair, maintenance, or drained by people
        self._shared: dict[int, Fault] = {}  # faults that last of switches and images, by number
        self._events: list[tuple[float, int, Callable[..., None], tuple]] = []
        self._order = itertools.count()
        self._waiting: list[Job] = []
        self._drained: set[int] = set()
        self._gone: dict[int, set[int]] = {}  # of each job, the nodes that it lost since it was placed
        self._said: dict[tuple[int, int], Said] = {}
        self._times: Counter[tuple[int, int]] = Counter()
        self._lost: defaultdict[str, float] = defaultdict(float)
        self._now = self._kept = self._small = 0.0
        order = list(range(fleet.nodes))
        self._jobs: list[Job] = []
        for number, size in enumerate(fleet.jobs):
            self._jobs.append(Job(number, size, tuple(order[:size])))
            order = order[size:]
        self._free = order
        self._owner = {node: job for job in self._jobs for node in job.nodes}

    def run(self) -> Result:
        """Let the days pass."""
        end = self.fleet.days * 24.0
        for fault in faults(self.fleet, self.seed):
            self._later(fault.at, self._strike, fault)
        while self._events and self._events[0][0] < end:
            at, _, what, of = heapq.heappop(self._events)
            self._pass(at)
            what(*of)
        self._pass(end)
        for job in self._jobs:
            if job.state == "running":
                self._kept += max(0.0, end - job.ready) * job.size
        for node, (since, _) in self.away.items():
            self._back(node, since)
        result, whole = self.result, self.fleet.nodes * end
        result.goodput = (self._kept + self._small) / whole
        result.lost = {name: hours / whole for name, hours in sorted(self._lost.items())}
        if isinstance(self.way, Ours):
            result.by_itself, result.marked, result.paced = self.way.by_itself, self.way.marked, self.way.paced
            result.promoted = sum(scope.promoted for scope in self.way.scopes.values())
            result.demoted = sum(scope.demoted for scope in self.way.scopes.values())
        return result

    def _draw(self, *of: object) -> random.Random:
        """Chance by what it is about: the same for all ways, however much else happened in one of them."""
        return random.Random(f"{self.seed} {of}")

    def _wait(self, job: Job, why: str) -> None:
        """What a job waited for until now."""
        self._lost[why] += (self._now - job.stopped) * job.size
        job.stopped = self._now

    def _later(self, at: float, what: Callable[..., None], *of: Any) -> None:
        heapq.heappush(self._events, (at, next(self._order), what, of))

    def _pass(self, at: float) -> None:
        bad = {node for fault in self._shared.values() for node in fault.places} | set(self._broken)
        idle = sum(1 for node in bad if node not in self._owner and node not in self._out and node not in self.away)
        self._small += (len(self._free) - idle) * (at - self._now)
        self._now = at

    def _strike(self, fault: Fault) -> None:
        """A fault happens. What lasts stays until somebody repairs it; jobs that run there end."""
        if fault.kind in ("bug", "unknown"):
            job = self._at(fault.where)
            if job.state != "running":
                return
            if fault.kind == "bug":
                job.bug = fault
                self._later(fault.at + fault.lasts, self._fixed, job, fault)
            self._crash(job, job.epoch, fault)
            return
        struck = [node for node in fault.places if node not in self._out and node not in self.away]
        hit = {owner.number: owner for node in struck if (owner := self._owner.get(node))}
        if fault.kind == "maintenance":
            for node in struck:
                self._take_out(node, fault.lasts)
        elif fault.lasts and fault.kind == "node":
            for node in struck:
                self._broken[node] = fault
            self._later(fault.at + fault.lasts, self._found, fault)
        elif fault.lasts:
            self._shared[fault.number] = fault
            self._later(fault.at + fault.lasts, self._repaired, fault)
        for job in hit.values():
            if job.state == "running":
                self._crash(job, job.epoch, fault)

    def _at(self, where: float) -> Job:
        """The job that a fault of jobs hits: large ones are hit in proportion."""
        place = where * sum(self.fleet.jobs)
        for job in self._jobs:
            place -= job.size
            if place < 0:
                return job
        return self._jobs[-1]

    def _crash(self, job: Job, epoch: int, fault: Fault) -> None:
        """A job ends, if it is still the start that was meant and the fault still reaches it."""
        if job.epoch != epoch or job.state != "running" or not self._reaches(fault, job):
            return
        ran = max(0.0, self._now - job.ready)
        kept = ran // CHECKPOINT * CHECKPOINT
        self._kept += kept * job.size
        self._lost["replay"] += (ran - kept) * job.size
        self._lost["start-up"] += min(START_UP, self._now - job.ready + START_UP) * job.size
        job.futile, job.stopped = (0, self._now) if kept else (job.futile + 1, self._now)
        job.gained = self._now if kept else job.gained
        if job.history:
            job.history[-1] = msgspec.structs.replace(job.history[-1], progressed=kept > 0)
        job.epoch, job.crashes, job.state = job.epoch + 1, job.crashes + 1, "down"
        self.result.crashes += 1
        of = (fault.number, job.number)
        self._times[of] += 1
        chance = self._draw("verdict", *of, self._times[of])
        said = self._said[of] = self.way.judge(fault, job.nodes, self.rates, chance, self._said.get(of))
        at = self._now + SEEN + (HANGS if fault.hangs else 0.0)
        self._later(at, self._told, job, said)

    def _told(self, job: Job, said: Said) -> None:
        self._wait(job, "detection")
        if nodes := self.way.told(job, said, self._now):
            self._later(self._now + self._people("shared", job), self._called, nodes)
        self._answer(job, said, self._now)

    def _people(self, what: str, job: Job) -> float:
        return self._draw("people", what, job.number, job.crashes).expovariate(1 / PEOPLE)

    def _answer(self, job: Job, said: Said, since: float) -> None:
        answer = self.way.answer(self, job, said, since, self._now)
        if answer.again:
            self._later(self._now + answer.delay, self._answer, job, said, since)
        elif answer.to_people:
            self.result.to_people += 1
            self._later(self._now + self._people("stuck", job), self._by_people, job)
        else:
            self._later(self._now + answer.delay, self._restart, job, said, answer)

    def _restart(self, job: Job, said: Said, answer: Answer) -> None:
        wanted = self.way.still(self, job, said, answer, self._now)
        nodes = [node for node in wanted if node not in self.away and node not in self._out]
        self._wait(job, "approval and guards")
        self.way.acted(nodes, job, said, answer, self._now)
        for node in nodes:
            self.result.exclusions += 1
            self.result.wrong += node not in said.guilty
            self.result.needless += node in said.guilty and node not in self._broken
            self.away[node] = (self._now, job.number)
            self._leave(node)
            self._later(self._now + self.way.keeps_away, self._returns, node, self._now)
        job.history = [*job.history[-20:], restarted(said, self._now)]
        self._place(job)

    def _by_people(self, job: Job) -> None:
        """People found what ailed the job: its bug, its broken nodes, or what these hang on."""
        self._wait(job, "people")
        job.bug, job.futile, job.history, job.gained = None, 0, [], self._now
        for node in job.nodes:
            if node in self._broken:
                self._take_out(node, REPAIR)
        self._called(frozenset(job.nodes))
        self._place(job)

    def _called(self, nodes: frozenset[int]) -> None:
        """People saw what the nodes hang on, if that is broken: whoever starts from now on is kept off it."""
        self._drained |= {fault.number for fault in self._shared.values() if nodes & set(fault.places)}

    def _place(self, job: Job) -> None:
        """Start a job on its nodes, others in place of those that are away; without enough it waits."""
        for fault in [self._shared[number] for number in self._drained & set(self._shared)]:
            for node in fault.places:
                if self._owner.get(node, job) is job:
                    self._take_out(node, fault.at + fault.lasts - self._now)
        gone = self._gone.pop(job.number, ())
        mine = [node for node in job.nodes if node not in gone] if gone else list(job.nodes)
        wanting = job.size - len(mine)
        job.nodes = tuple(mine)
        if wanting > len(self._free):
            job.state = "waits"
            if job not in self._waiting:
                self._waiting.append(job)
            return
        self._wait(job, "room")
        chance = self._draw("nodes", job.number, job.crashes)
        for _ in range(wanting):
            node = self._free.pop(chance.randrange(len(self._free)))
            self._owner[node] = job
            mine.append(node)
        job.nodes, job.state, job.ready = tuple(mine), "running", self._now + START_UP
        for fault in self._lasting(job):
            draw = self._draw("again", fault.number, job.number, self._times[fault.number, job.number])
            after = draw.expovariate(1 / AGAIN[fault.kind]) * self.fleet.again
            self._later(self._now + after, self._crash, job, job.epoch, fault)

    def _lasting(self, job: Job) -> list[Fault]:
        found = [fault for node, fault in self._broken.items() if self._owner.get(node) is job]
        found += [fault for fault in self._shared.values() if any(self._owner.get(n) is job for n in fault.places)]
        return [*found, job.bug] if job.bug else found

    def _reaches(self, fault: Fault, job: Job) -> bool:
        """Whether it still is there, for what comes again; what strikes now does."""
        if fault.at == self._now:
            return True
        if fault.kind == "bug":
            return job.bug is fault
        if fault.kind == "node":
            return self._broken.get(fault.places[0]) is fault and fault.places[0] in job.nodes
        return fault.number in self._shared

    def _leave(self, node: int) -> None:
        """A node is not to be used: its job will have to find another."""
        job = self._owner.pop(node, None)
        if job is not None:
            self._gone.setdefault(job.number, set()).add(node)
        elif node in self._free:
            self._free.remove(node)

    def _take_out(self, node: int, hours: float) -> None:
        if node in self._out or node in self.away:
            return
        self._out.add(node)
        self._leave(node)
        self._later(self._now + hours, self._in_again, node)

    def _in_again(self, node: int) -> None:
        self._out.discard(node)
        self._broken.pop(node, None)
        self._is_free(node)

    def _is_free(self, node: int) -> None:
        self._free.append(node)
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            self._place(job)

    def _returns(self, node: int, since: float) -> None:
        """An exclusion ends: a node that is broken is found so by its diagnostics, mostly, and repaired."""
        if node not in self.away or self.away[node][0] != since:
            return
        self._back(node, since)
        del self.away[node]
        if node in self._broken and self._draw("found", node, since).random() < FOUND_BY_DIAGNOSTICS:
            self._out.add(node)
            self._later(self._now + REPAIR, self._in_again, node)
        else:
            self._is_free(node)

    def _back(self, node: int, since: float) -> None:
        self.result.away_hours += self._now - since
        if node not in self._broken:
            self.result.sound_hours += self._now - since

    def _found(self, fault: Fault) -> None:
        """The site's own checks find a broken node, unless a job still runs on it: then they look again later."""
        node = fault.places[0]
        if self._broken.get(node) is not fault or node in self._out or node in self.away:
            return
        job = self._owner.get(node)
        if job is not None and job.state == "running":
            self._later(self._now + 4.0, self._found, fault)
        else:
            self._take_out(node, REPAIR)

    def _repaired(self, fault: Fault) -> None:
        self._shared.pop(fault.number, None)

    def _fixed(self, job: Job, fault: Fault) -> None:
        if job.bug is fault:
            job.bug = None
