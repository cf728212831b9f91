"""What was seen of each run, kept between two looks: its admissions, its pods and where they were.

Facts are only ever added to and are plain JSON: they are the cursor of the discovery. What is deleted in the cluster
stays here until its run is over and told. All times are whole seconds since 1970, as the API server gives them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from verdicts.collectors.kubernetes_objects import RUN_KINDS, Condition, Meta, Pod, Run
from verdicts.collectors.kubernetes_pods import Fact, PodFact, one_line, pod_fact, seconds

#: A pod whose run is not known yet is kept so long.
LOOSE_SECONDS = 600
MAX_LOOSE = 5_000
#: Two clocks: Kueue stamps an admission, the API server a pod.
SKEW = 5
QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name")


class Admission(Fact):
    """A time in which a run may have pods: from an admission by Kueue, or from its start or resumption without.

    `mark` is Kueue's own stamp of it, None where Kueue is not involved; `evictions` how many there were before.
    """

    at: int
    mark: int | None = None
    ended: int | None = None
    why: str = ""
    said: str = ""
    evictions: int = 0


class End(Fact):
    """How a run ended: the condition and its reason."""

    state: str
    at: int
    why: str = ""
    said: str = ""


class RunFact(Fact):
    """One run: the object that a person made. `seen` is false while only its Workload was.

    `laps` are a JobSet's restarts, `slots` an MPI job's processes in a worker. `numbers` has the restart count and
    the submit time given to each attempt, `sent` what was last told of it; `sealed` counts attempts of an admission
    that are not kept any more, and of no pod made before `floor` is anything new taken in.
    `lost` is the eviction that ended an admission from before the first one seen.
    """

    kind: str
    namespace: str
    name: str
    created: int
    seen: bool = False
    workload: str = ""
    queue: str = ""
    user: str = ""
    account: str = ""
    image: str = ""
    kueue: bool = False
    suspended: bool = False
    end: End | None = None
    gone: int | None = None
    deleted: bool = False
    laps: int = 0
    slots: int | None = None
    floor: int = 0
    lost: End | None = None
    admissions: list[Admission] = []
    pods: dict[str, PodFact] = {}
    numbers: dict[str, tuple[int, int]] = {}
    sent: dict[str, str] = {}
    sealed: dict[str, int] = {}


class Loose(Fact):
    """A pod that was seen before what it belongs to."""

    owner: str
    pod: PodFact
    since: int


class State(Fact):
    """The cursor. `first` is when it began; `versions` has where each watch goes on; `parents` which Job belongs to
    which run; `done` the runs that are over and told, while the server still lists them, with their kinds;
    `news` those of which something new was seen that has yet to be told; `places` which elements nodes belong to.
    """

    first: int = 0
    served: dict[str, str] = {}
    served_at: int = 0
    versions: dict[str, str] = {}
    runs: dict[str, RunFact] = {}
    parents: dict[str, str] = {}
    loose: dict[str, Loose] = {}
    done: dict[str, str] = {}
    news: dict[str, int] = {}
    places: dict[str, dict[str, str]] = {}
    places_at: int = 0

    def root(self, uid: str) -> str:
        """The run that an object belongs to: itself, or what made it."""
        for _ in range(4):
            if uid not in self.parents:
                break
            uid = self.parents[uid]
        return uid


@dataclass(frozen=True)
class Reading:
    """How objects are read: which kinds are watched, and which labels name a user and an account."""

    kinds: frozenset[str] = RUN_KINDS
    user_label: str = ""
    account_label: str = ""


def fold_run(state: State, kind: str, run: Run, now: int, reading: Reading) -> None:
    """Take in a Job, JobSet or training job as it is now."""
    meta = run.metadata
    if not meta.uid or meta.uid in state.done:
        return
    owner = meta.owner()
    if owner is not None and owner.uid and owner.kind in reading.kinds and owner.kind != kind:
        state.parents[meta.uid] = owner.uid
        if kind == "JobSet" and (root := state.runs.get(state.root(owner.uid))) is not None:
            root.laps = max(root.laps, run.status.restarts)
            state.news[state.root(owner.uid)] = now
        return
    fact = state.runs.get(meta.uid)
    if fact is None:
        fact = state.runs[meta.uid] = _new_run(kind, meta, now)
    state.news[meta.uid] = now
    fact.seen, fact.gone = True, None
    fact.created = seconds(meta.creation_timestamp) or fact.created
    fact.workload = owner.name if owner is not None and owner.kind == "CronJob" else meta.name
    fact.queue = meta.label(*QUEUE_LABELS) or fact.queue
    fact.user = one_line(meta.label(reading.user_label)) if reading.user_label else ""
    fact.account = one_line(meta.label(reading.account_label)) if reading.account_label else meta.namespace
    fact.laps = max(fact.laps, run.status.restarts)
    fact.slots = (run.spec.slots_per_worker or 1) if kind == "MPIJob" else None
    policy = run.spec.run_policy
    fact.suspended = bool(run.spec.suspend or (policy and policy.suspend))
    if fact.end is None:
        fact.end = _end(run, now)
    if meta.label(QUEUE_LABELS[0]) and "Workload" in reading.kinds:
        fact.kueue = True
    if not fact.kueue:
        _own_admission(fact, run, now)


def _new_run(kind: str, meta: Meta, now: int) -> RunFact:
    return RunFact(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        created=seconds(meta.creation_timestamp) or now,
        workload=meta.name,
        account=meta.namespace,
        admissions=[],
        pods={},
        numbers={},
        sent={},
        sealed={},
    )


def _end(run: Run, now: int) -> End | None:
    """The condition that says that it is over, if any."""
    found = run.condition("Failed", "Complete", "Completed", "Succeeded")
    if found is None:
        return None
    at = seconds(run.status.completion_time) if found.type != "Failed" else None
    at = at or seconds(found.last_transition_time) or now
    state = "Failed" if found.type == "Failed" else "Complete"
    return End(state=state, at=at, why=one_line(found.reason), said=one_line(found.message))


def _own_admission(fact: RunFact, run: Run, now: int) -> None:
    """Without Kueue: a run has its time from its start on; suspending it ends that, resuming it begins another."""
    last = fact.admissions[-1] if fact.admissions else None
    if fact.suspended:
        if last is not None and last.ended is None and fact.end is None:
            condition = run.condition("Suspended")
            said = seconds(condition.last_transition_time) if condition else None
            last.ended, last.why = max(said or now, last.at), "Suspended"
            last.said = one_line(condition.message) if condition else ""
    elif last is None:
        begun = seconds(run.status.start_time)
        fact.admissions.append(Admission(at=begun if begun is not None else fact.created))
    elif last.ended is not None and fact.end is None:
        begun = seconds(run.status.start_time)
        fact.admissions.append(Admission(at=max(begun or now, last.ended, last.at + 1)))


def fold_workload(state: State, workload: Run, now: int, reading: Reading) -> None:
    """Take in a Kueue Workload as it is now: is what it belongs to admitted, evicted, admitted again?"""
    owner = workload.metadata.owner()
    if owner is None or not owner.uid or owner.kind not in reading.kinds or state.root(owner.uid) in state.done:
        return
    root = state.root(owner.uid)
    fact = state.runs.get(root)
    if fact is not None and fact.admissions and workload.condition("Finished") is not None:
        return  # over, or replaced by another Workload of the same run
    if fact is None:
        meta = msgspec.structs.replace(workload.metadata, name=owner.name, labels=None, annotations=None)
        fact = state.runs[root] = _new_run(owner.kind, meta, now)
    state.news[root] = now
    fact.kueue = True
    fact.queue = workload.spec.queue_name or fact.queue
    stats = workload.status.scheduling_stats
    evictions = sum(max(0, eviction.count) for eviction in (stats.evictions if stats else None) or [])
    _admit(fact, workload, evictions, now)


def _admit(fact: RunFact, workload: Run, evictions: int, now: int) -> None:
    last = fact.admissions[-1] if fact.admissions else None
    admitted, evicted = workload.condition("Admitted"), workload.condition("Evicted")
    if admitted is not None:
        mark = seconds(admitted.last_transition_time) or now
        if last is not None and last.mark is None and last.ended is None and mark <= last.at + SKEW:
            last.mark = mark  # it was seen running before its Workload was
        again = last is not None and (mark != last.mark or (last.ended is not None and evicted is None))
        if last is None or again:
            if last is not None and last.ended is None:
                _close(last, _was_evicted(workload), min(mark, now))
            # Kueue says of the first one too that there were evictions before, when they were not seen here.
            before = max(evictions, 1 if _was_evicted(workload) and last is None else 0)
            at = mark if last is None else max(mark, last.at + 1)
            last = Admission(at=at, mark=mark, evictions=before)
            fact.admissions.append(last)
        if evicted is not None and last is not None and last.ended is None:
            _close(last, evicted, now, workload.condition("Preempted"))
    elif last is None:
        if evicted is not None:
            gone = Admission(at=0)
            _close(gone, evicted, now, workload.condition("Preempted"))
            fact.lost = End(state="Evicted", at=gone.ended or now, why=gone.why, said=gone.said)
    elif last.ended is None and fact.end is None and workload.condition("Finished") is None:
        away = evicted or next((c for c in workload.status.conditions or [] if c.type == "Admitted"), None)
        _close(last, away, now, workload.condition("Preempted") if evicted else None)


def _was_evicted(workload: Run) -> Condition | None:
    """The trace of an eviction before the present admission."""
    return next((c for c in workload.status.conditions or [] if c.type == "Evicted" and c.status != "True"), None)


def _close(admission: Admission, by: Condition | None, now: int, preempted: Condition | None = None) -> None:
    at = seconds(by.last_transition_time) if by else None
    admission.ended = max(at or now, admission.at)
    if by is not None and by.type == "Evicted" and by.status == "True":
        admission.why = f"EvictedDueTo{by.reason or ''}" + (f": {preempted.reason}" if preempted else "")
    admission.why = one_line(admission.why or "Evicted")
    admission.said = one_line(by.message) if by else ""


def fold_pod(state: State, pod: Pod, now: int, reading: Reading) -> None:
    """Take in a pod as it is now, if it is a run's."""
    meta, owner = pod.metadata, pod.metadata.owner()
    if owner is None or not meta.uid or owner.kind not in reading.kinds:
        return
    root = state.root(owner.uid)
    if root in state.done:
        return
    fact = pod_fact(pod, owner.name, now)
    run = state.runs.get(root)
    if run is not None and (run.seen or owner.kind != "Job"):
        _keep(run, meta.uid, fact)
        state.news[root] = now
        state.loose.pop(meta.uid, None)
    elif meta.uid in state.loose or len(state.loose) < MAX_LOOSE:
        state.loose[meta.uid] = Loose(owner=owner.uid, pod=fact, since=now)


def settle(state: State, now: int) -> None:
    """Give pods that came before what they belong to to their runs; forget those that stayed without one."""
    for uid, loose in list(state.loose.items()):
        run = state.runs.get(state.root(loose.owner))
        if run is not None and run.seen:
            _keep(run, uid, loose.pod)
            state.news[state.root(loose.owner)] = now
            del state.loose[uid]
        elif now - loose.since > LOOSE_SECONDS or state.root(loose.owner) in state.done:
            del state.loose[uid]


def _keep(run: RunFact, uid: str, fact: PodFact) -> None:
    """Keep what was known and is not said any more: where it ran, when it started and ended."""
    old = run.pods.get(uid)
    if old is None and fact.created < run.floor:
        return
    if old is not None:
        fact.seen = old.seen
        if old.ended is not None and fact.ended is not None:
            fact.ended = min(old.ended, fact.ended)
        for name in ("node", "started", "ended", "dying", "code", "signal", "why", "said", "image"):
            if not getattr(fact, name) and getattr(fact, name) != 0:
                setattr(fact, name, getattr(old, name))
    # The same image is not kept ten thousand times.
    run.image = run.image or fact.image
    fact.image = "" if fact.image == run.image else fact.image
    run.pods[uid] = fact


def vanish(state: State, kind: str, uid: str, now: int, *, seen: bool) -> None:
    """An object is not there any more. `seen` says that its deletion was watched, not only that it is missing."""
    state.done.pop(uid, None)
    if kind == "Pod":
        if uid in state.loose:
            state.loose[uid].pod.gone = now
        for root, run in state.runs.items():
            if (pod := run.pods.get(uid)) is not None and pod.gone is None:
                pod.gone = now
                state.news[root] = now
        return
    fact = state.runs.get(uid)
    if fact is not None and fact.gone is None:
        fact.gone, fact.deleted = now, seen
        state.news[uid] = now


def present(state: State, kind: str, namespace: str) -> Iterator[str]:
    """The uids of a kind in a namespace (all where "") that are there as far as is known."""
    for uid, run in state.runs.items():
        if namespace and run.namespace != namespace:
            continue
        if kind == "Pod":
            yield from (pod_uid for pod_uid, pod in run.pods.items() if pod.gone is None)
        elif run.kind == kind and run.seen and run.gone is None:
            yield uid
    if not namespace:
        yield from (uid for uid, of in state.done.items() if of == kind)
