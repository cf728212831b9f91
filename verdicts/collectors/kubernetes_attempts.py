"""From what was seen of a run to its attempts. Pure: the same facts give the same attempts.

A run has one attempt for each time it was let run: each admission by Kueue, each restart of a JobSet, and each time
a pod is made in place of one that the attempt had made. A pod that goes on running when the others are made anew
belongs to both. A container that the kubelet restarts in its pod stays in the attempt: it has the same allocation.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from rules.attempt import Attempt, natural
from verdicts.collectors.kubernetes_facts import SKEW, Admission, RunFact, State
from verdicts.collectors.kubernetes_objects import JobId
from verdicts.collectors.kubernetes_pods import PodFact, one_line, written
from verdicts.collectors.kubernetes_ranks import place_ranks

#: Attempts of a run whose pods are kept; of older ones only their number is.
KEPT = 4
#: A run that is over is kept so long for what its pods still say.
LINGER_SECONDS = 300
#: Jobs that belong to other runs, beyond which those of runs that are over are forgotten.
MAX_PARENTS = 20_000
#: No run is kept for longer than so after its end, whatever its pods do.
MAX_LINGER_SECONDS = 3_600

#: How a pod that was taken away, or a run that was ended, is called by who did it, in the words of `rules.terminal`.
_STATES = {
    "OOMKilled": "OOMKilled",
    "DeadlineExceeded": "DeadlineExceeded",
    "PreemptionByScheduler": "Preempted",
    "PreemptionByKubeScheduler": "Preempted",
    "Preempting": "Preempted",
    "EvictionByEvictionAPI": "Evicted",
}
_BY_HAND = ("Suspended", "EvictedDueToDeactivated", "EvictedDueToInactiveWorkload")


@dataclass
class Span:
    """One attempt of a run: its admission, which one in it, and the pods that were in it."""

    admission: Admission
    number: int
    start: int
    end: int | None = None
    lap: int | None = None
    made: dict[str, PodFact] = field(default_factory=dict)
    carried: dict[str, PodFact] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What it is called among the run's attempts."""
        return f"{self.admission.at}.{self.number}"

    def pods(self) -> list[PodFact]:
        """All pods in it, in order of their names."""
        return sorted([*self.made.values(), *self.carried.values()], key=lambda pod: (natural(pod.name), pod.created))


def spans(run: RunFact) -> list[Span]:
    """The attempts of a run, the first first."""
    found: list[Span] = []
    for admission, pods in _windows(run):
        parts = _parts(run, admission, pods)
        for part, following in pairwise(parts):
            part.end = following.start
        parts[-1].end = admission.ended
        found += parts
    for span, following in pairwise(found):
        if span.end is None:
            span.end = following.start
    if found and found[-1].end is None:
        found[-1].end = run.end.at if run.end else run.gone
    return found


def _windows(run: RunFact) -> Iterator[tuple[Admission, dict[str, PodFact]]]:
    """Each admission with the pods made in it, in the order in which they were."""
    windows: list[dict[str, PodFact]] = [{} for _ in run.admissions]
    for uid, pod in sorted(run.pods.items(), key=lambda item: (item[1].created, item[1].name, item[0])):
        place = _window(run.admissions, pod.created)
        if place is not None:
            windows[place][uid] = pod
    yield from zip(run.admissions, windows, strict=True)


def _admit_missed(run: RunFact) -> bool:
    """Whether there were pods from before the first admission that was seen: another began with the first of them."""
    missed = [pod.created for pod in run.pods.values() if _window(run.admissions, pod.created) is None]
    if missed:
        before = Admission(at=min(missed))
        if run.lost is not None and run.lost.at >= before.at:
            before.ended, before.why, before.said = run.lost.at, run.lost.why, run.lost.said
        run.admissions.insert(0, before)
    return bool(missed)


def _window(admissions: list[Admission], created: int) -> int | None:
    place = max((n for n, admission in enumerate(admissions) if admission.at <= created), default=-1)
    if place + 1 < len(admissions) and admissions[place + 1].at - created <= SKEW:
        ended = admissions[place].ended if place >= 0 else created
        if ended is not None and ended <= created:
            place += 1
    return place if place >= 0 else None


def _parts(run: RunFact, admission: Admission, pods: dict[str, PodFact]) -> list[Span]:
    """The attempts within one admission. `pods` are in the order in which they were made."""
    first = run.sealed.get(str(admission.at), 0)
    parts = [Span(admission, first, admission.at)]
    if first:
        parts[0].start = min((pod.created for pod in pods.values()), default=admission.at)
    holders: dict[str, tuple[str, Span]] = {}
    for uid, pod in pods.items():
        span = parts[-1]
        slot = pod.slot or _taken_over(holders, pod)
        holder = holders.get(slot)
        newer = pod.lap is not None and span.lap is not None and pod.lap > span.lap
        if newer or (holder is not None and holder[1] is span):
            span = Span(admission, span.number + 1, pod.created)
            if not newer:
                before = {**parts[-1].carried, **parts[-1].made}
                span.carried = {u: p for u, p in before.items() if (over := p.over()) is None or over > pod.created}
            parts.append(span)
        if holder is not None:
            span.carried.pop(holder[0], None)
        span.lap = pod.lap if span.lap is None else span.lap
        span.made[uid] = pod
        holders[slot] = (uid, span)
    return parts


def _taken_over(holders: dict[str, tuple[str, Span]], pod: PodFact) -> str:
    """The place of a pod without an index: that of one which failed or was lost before, else a new one."""
    for slot, (uid, span) in holders.items():
        old = span.made[uid]
        over = old.over()
        lost = old.failed() or (old.phase != "Succeeded" and (old.dying is not None or old.gone is not None))
        if not old.slot and lost and over is not None and (over <= pod.created or over == old.gone):
            return slot
    return f"~{len(holders)}"


def told(state: State, now: int, *, since: int = 0, pods_seen: bool = True, kueue_seen: bool = True) -> list[Attempt]:
    """The attempts about which something is new since they were last told; `state` remembers that they were.

    Nothing is told of runs that were over before `since`, nor of one of which it is not sure yet how many attempts it
    had: `pods_seen` and `kueue_seen` say whether pods and Workloads could be looked at this time.
    """
    found = []
    for uid in list(state.news):
        run = state.runs.get(uid)
        known = spans(run) if run is not None and run.seen else []
        if run is not None and _unsure(run, known, now, pods_seen=pods_seen, kueue_seen=kueue_seen):
            continue
        del state.news[uid]
        if run is None or not run.seen or (run.end is not None and run.end.at < since):
            continue
        if _admit_missed(run):
            known = spans(run)
        for span, following in _pairs(known):
            if span.key not in run.numbers:
                run.numbers[span.key] = _number(run, span)
            attempt = _attempt(uid, run, span, following)
            digest = hashlib.sha256(msgspec.json.encode(attempt)).hexdigest()[:16]
            if run.sent.get(span.key) != digest:
                run.sent[span.key] = digest
                found.append(attempt)
    return found


def _unsure(run: RunFact, known: list[Span], now: int, *, pods_seen: bool, kueue_seen: bool) -> bool:
    """Whether a run has new attempts or pods of which is not known yet, but soon will be, what they are.

    Pods and Workloads are watched one beside the other: a pod can be seen a moment before the admission that led to
    it, and would look like one made in place of another. And where pods were not seen, there may have been attempts
    in between, whose numbers come first.
    """
    if run.gone is not None:
        return False
    if not pods_seen and sum(span.key not in run.numbers for span in known) > (0 if run.numbers else 1):
        return True
    if not run.kueue:
        return False
    new = [pod for pod in run.pods.values() if _window(run.admissions, pod.created) is None]
    for span in known:
        if span.key not in run.numbers and span.key != f"{span.admission.at}.0":
            new += span.made.values()
    return bool(new) and (not kueue_seen or any(pod.seen >= now for pod in new))


def _pairs(found: list[Span]) -> Iterator[tuple[Span, Span | None]]:
    yield from zip(found, [*found[1:], None], strict=False)


def _number(run: RunFact, span: Span) -> tuple[int, int]:
    """The restart count and submit time of an attempt, given once and for all.

    Counts grow from attempt to attempt; where Kueue or the JobSet counts more than were seen here, as they count.
    """
    least = span.admission.evictions + (span.lap or 0)
    given = [count for count, _ in run.numbers.values()]
    count = max(max(given, default=-1) + 1, least)
    return count, run.created if count == 0 else span.start


def _attempt(uid: str, run: RunFact, span: Span, following: Span | None) -> Attempt:
    restart, submitted = run.numbers[span.key]
    pods = span.pods()
    state, reason, bad = _ending(run, span, following, pods)
    nodes = sorted({pod.node for pod in pods if pod.node}, key=natural)
    ranks = place_ranks(pods, run.slots)
    begun = span.start if pods or run.kueue else None
    return Attempt(
        job_id=str(JobId.of(run.kind, run.namespace, run.name, uid)),
        scheduler="kubernetes",
        workload=run.workload,
        restart_count=restart,
        submit_time=written(submitted),
        start=None if begun is None else written(begun),
        end=None if span.end is None else written(max(span.end, begun or 0, submitted)),
        state=state,
        reason=one_line(reason, 800),
        exit_code=bad.code if bad else (0 if state == "Complete" else None),
        signal=bad.signal or None if bad else None,
        user=run.user,
        account=run.account,
        partition=run.queue,
        nodes=nodes,
        ranks=ranks,
        image=(pods[0].image if pods else "") or run.image,
    )


def _ending(run: RunFact, span: Span, following: Span | None, pods: list[PodFact]) -> tuple[str, str, PodFact | None]:
    """State, reason, and the pod that failed first."""
    bad = first_bad(pods)
    why = _pod_words(bad)
    if span.end is None:
        if run.suspended and not pods:
            return "Suspended", "", None
        return ("Running" if any(pod.phase != "Pending" for pod in pods) else "Pending"), why, bad
    if following is not None and following.admission is span.admission:
        return _state_of(bad, "Failed"), why or "its pods were made anew", bad
    admission = span.admission
    if admission.ended is not None and (following is not None or run.end is None or run.end.at > admission.ended):
        return _evicted(admission), _join(f"{admission.why}: {admission.said}".strip(": "), why), bad
    if following is not None:
        return _state_of(bad, "Evicted"), _join("how this admission ended was not seen", why), bad
    if run.end is not None:
        words = ": ".join(part for part in (run.end.why, run.end.said) if part)
        if run.end.state == "Complete":
            return "Complete", words, None
        if run.end.why == "DeadlineExceeded":
            return "DeadlineExceeded", words, bad
        return _state_of(bad, "Failed"), _join(words, why), bad
    if run.deleted:
        return "Cancelled", _join(f"the {run.kind} was deleted before it ended", why), bad
    if bad is None and pods and all(pod.phase == "Succeeded" for pod in pods):
        return "Complete", f"the {run.kind} is not there any more; all of its pods had ended well", None
    return (
        _state_of(bad, "Failed" if bad else "Gone"),
        _join("it is not there any more; its end was not seen", why),
        bad,
    )


def first_bad(pods: list[PodFact]) -> PodFact | None:
    """The pod that failed first, or was taken away; of several in one second an OOM kill counts first."""
    bad = [pod for pod in pods if pod.failed() or pod.why]
    far = max((pod.over() or 0 for pod in bad), default=0)
    return min(bad, key=lambda p: (p.over() or far, p.why != "OOMKilled", natural(p.name)), default=None)


def _pod_words(pod: PodFact | None) -> str:
    if pod is None:
        return ""
    parts = [f"{pod.why}:" if pod.why else "", f"pod {pod.name}"]
    parts.append(f"on {pod.node}" if pod.node else "")
    parts.append(f"exit code {pod.code}" if pod.code is not None else "")
    parts.append(f"signal {pod.signal}" if pod.signal else "")
    parts.append(f"({pod.said[:200]})" if pod.said else "")
    return " ".join(part for part in parts if part)


def _state_of(pod: PodFact | None, otherwise: str) -> str:
    return _STATES.get(pod.why, otherwise) if pod else otherwise


def _evicted(admission: Admission) -> str:
    """The state of an attempt whose admission was taken away."""
    why = admission.why
    if "MaximumExecutionTimeExceeded" in why:
        return "DeadlineExceeded"
    if "Preempted" in why:
        return "Preempted"
    if "NodeFailures" in why:
        return "NODE_FAIL"
    return "Cancelled" if why in _BY_HAND else "Evicted"


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def unended(state: State) -> frozenset[str]:
    """The job ids of runs that are not over."""
    return frozenset(
        str(JobId.of(run.kind, run.namespace, run.name, uid))
        for uid, run in state.runs.items()
        if run.seen and run.end is None and run.gone is None
    )


def forget(state: State, now: int, *, complete: bool = True) -> None:
    """Drop what has been told and can change no more: runs that are over, and early attempts of long ones.

    After a look that was not `complete` a run that is over is kept: something of it may not have been seen yet.
    """
    for uid, run in list(state.runs.items()):
        over = run.end.at if run.end else run.gone
        if over is None:
            if len(run.numbers) > KEPT:
                _seal(run)
            continue
        if not complete or uid in state.news:
            continue
        since = now - max(over, run.gone or 0)
        quiet = all(pod.over() is not None for pod in run.pods.values())
        if since >= MAX_LINGER_SECONDS or (quiet and (since >= LINGER_SECONDS or run.gone is not None)):
            del state.runs[uid]
            if run.gone is None:
                state.done[uid] = run.kind
    if len(state.parents) > MAX_PARENTS:
        known = state.runs.keys() | state.done.keys()
        state.parents = {child: up for child, up in state.parents.items() if state.root(child) in known}


def _seal(run: RunFact) -> None:
    """Keep the pods of the last few attempts; those before have been told and ended."""
    found = spans(run)
    for place, span in enumerate(found[:-KEPT]):
        following = found[place + 1]
        lasting = any(pod.over() is None for pod in span.made.values()) or span.key not in run.sent
        if lasting or any(uid in later.carried for later in found[place + 1 :] for uid in span.made):
            return
        for uid in span.made:
            run.pods.pop(uid, None)
        if following.admission is span.admission:
            run.sealed[str(span.admission.at)] = following.number
        else:
            run.sealed.pop(str(span.admission.at), None)
            run.admissions = [admission for admission in run.admissions if admission is not span.admission]
        run.floor = following.start - (0 if following.number else SKEW)
        run.sent.pop(span.key, None)
        # The highest count stays, so that none is given twice.
        highest = max(run.numbers.values())
        run.numbers = {key: given for key, given in run.numbers.items() if key != span.key or given == highest}
