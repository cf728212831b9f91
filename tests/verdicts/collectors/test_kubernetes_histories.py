"""Whatever happens to a run, and whatever of it is missed: each of its attempts is told once, with its own nodes.

Random histories of admissions, evictions, crashes and replaced pods, looked at by a discovery whose watches break off,
whose kinds fail for a while and whose history is lost. The API server's answers are those of the emulator in kube.py,
taken without HTTP, so that many histories can be tried.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rules.attempt import Attempt
from tests.verdicts.collectors.kube import _PATH, Cluster, _selected
from tests.verdicts.collectors.kube_objects import a_job, a_pod, a_workload, at, job_ref, uid
from verdicts.collectors.ask import SourceError, Unreachable
from verdicts.collectors.kubernetes_attempts import forget, spans, told, unended
from verdicts.collectors.kubernetes_client import Expired, Page
from verdicts.collectors.kubernetes_facts import Reading, State, fold_pod, fold_run
from verdicts.collectors.kubernetes_objects import Pod, Run
from verdicts.collectors.kubernetes_watch import look

QUEUED = {"kueue.x-k8s.io/queue-name": "team-a"}
PODS = 2


class Direct:
    """The emulator's answers without a server. `broken` kinds fail; `cut` watches end after so many events."""

    def __init__(self, cluster: Cluster, broken: frozenset[str], cut: int | None) -> None:
        self.cluster, self.broken, self.cut = cluster, broken, cut

    def served(self) -> dict[str, str]:
        return {"pods": "v1", "jobs": "v1", "workloads": "v1beta1"}

    def _plural(self, path: str) -> str:
        match = _PATH.fullmatch(f"/{path}")
        assert match is not None
        if match["plural"] in self.broken:
            raise Unreachable("away")
        return match["plural"]

    def pages(self, path: str, params: dict[str, Any], *, right: str = "") -> Iterator[Page]:
        answer = self.cluster._list(self._plural(path), "", {key: str(value) for key, value in params.items()})
        yield msgspec.json.decode(json.dumps(answer.payload), type=Page)

    @contextmanager
    def stream(
        self, path: str, params: dict[str, Any], *, right: str = "", seconds: float = 0
    ) -> Iterator[Iterator[bytes]]:
        plural, since = self._plural(path), int(params["resourceVersion"])
        if since < self.cluster.oldest:
            raise Expired("too old resource version")
        events = [
            {"type": kind, "object": thing}
            for version, kind, of, thing in self.cluster.history
            if version > since and of == plural and _selected(thing, {})
        ]
        yield self._lines(events)

    def _lines(self, events: list[dict[str, Any]]) -> Iterator[bytes]:
        for number, event in enumerate(events):
            if self.cut is not None and number >= self.cut:
                yield json.dumps(event).encode()[:50]
                raise Unreachable("cut off")
            yield json.dumps(event).encode() + b"\n"
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.cluster.version)}}}
        yield json.dumps(bookmark).encode() + b"\n"


@dataclass
class Execution:
    """One attempt as it really was."""

    nodes: list[str]
    start: float
    admitted: float
    end: float | None = None
    must: bool = False
    lost: bool = False
    evicted: str = ""


@dataclass
class World:
    """A queued job, what happens to it, and who looks."""

    cluster: Cluster = field(default_factory=Cluster)
    now: float = 10
    cursor: str = "{}"
    admitted: float | None = None
    evictions: int = 0
    truth: list[Execution] = field(default_factory=list)
    told: dict[tuple[str, str | None, int], Attempt] = field(default_factory=dict)
    names: int = 0
    over: bool = False
    behind: bool = False

    def __post_init__(self) -> None:
        self.cluster.put("jobs", a_job(suspend=True, labels=QUEUED, end=0))
        self.cluster.put("workloads", a_workload(job_ref()))
        self.look()

    def tick(self, seconds: float) -> None:
        self.now += seconds

    def admit(self) -> None:
        if self.admitted is not None or self.over:
            return
        self.admitted = self.now
        before = (self.now, "said before") if self.evictions else None
        stats = {"Preempted": self.evictions} if self.evictions else None
        self.cluster.put("workloads", a_workload(job_ref(), admitted=self.now, before=before, evictions=stats))
        self.cluster.put("jobs", a_job(labels=QUEUED, start=self.now))
        self._place()

    def _place(self) -> None:
        number = len(self.truth)
        nodes = [f"n{number}-{index}" for index in range(PODS)]
        self.truth.append(Execution(nodes, self.now, self.admitted or 0))
        for index, node in enumerate(nodes):
            self.names += 1
            self._pod(index, f"train-{index}-{self.names:05d}", self.now, node=None, phase="Pending")
            self._pod(index, f"train-{index}-{self.names:05d}", self.now, node=node)

    def _pod(self, index: int, name: str, created: float, **more: Any) -> None:
        self.cluster.put("pods", a_pod(name, created, of=uid(name), owner=job_ref(), index=index, **more))

    def _pods(self) -> list[tuple[str, dict[str, Any]]]:
        return [(name, pod) for (kind, _, name), pod in sorted(self.cluster.objects.items()) if kind == "pods"]

    def crash(self, *, survivors: bool) -> None:
        """All pods fail and are made anew; with `survivors` their containers only restart where they are."""
        if self.admitted is None:
            return
        self.tick(1)
        for name, pod in self._pods():
            if pod["status"]["phase"] != "Running":
                continue
            created = (_seconds(pod) - at(0).timestamp()) if pod else 0
            index = int(name.split("-")[1])
            node = pod["spec"]["nodeName"]
            if survivors:
                self._pod(index, name, created, node=node, restarts=1)
            else:
                self._pod(index, name, created, node=node, phase="Failed", code=1, ended=self.now)
        if not survivors:
            self.truth[-1].end = self.now = self.now + 2
            self._place()

    def evict(self, why: str) -> None:
        if self.admitted is None:
            return
        self.tick(1)
        evicted = (self.now, why, "said so")
        self.truth[-1].end, self.truth[-1].evicted = self.now, why
        self.cluster.put("workloads", a_workload(job_ref(), admitted=self.admitted, evicted=evicted))
        self.cluster.put("jobs", a_job(suspend=True, labels=QUEUED, end=self.now))
        for name, _ in self._pods():
            self.cluster.remove("pods", name)
        self.cluster.put("workloads", a_workload(job_ref(), not_admitted=self.now, evicted=evicted))
        self.admitted = None
        self.evictions += 1
        self.tick(1)

    def finish(self) -> None:
        if self.admitted is None:
            return
        self.tick(1)
        self.truth[-1].end = self.now
        self.cluster.put("jobs", a_job(labels=QUEUED, start=self.admitted, ended="Complete", end=self.now))
        self.admitted, self.over = None, True

    def lose_history(self) -> None:
        self.cluster.forget()
        self.behind = True

    def look(self, broken: frozenset[str] = frozenset(), cut: int | None = None, *, killed: bool = False) -> None:
        """Look once; who is killed has stored attempts, and not yet the cursor."""
        state = msgspec.convert(json.loads(self.cursor), State)
        moment = int(at(self.now).timestamp())
        state.first = state.first or moment
        connection: Any = Direct(self.cluster, broken, cut)
        try:
            looked = look(connection, state, namespaces=(), selector="", now=moment, reading=Reading())
        except SourceError:
            return
        for attempt in told(state, moment, pods_seen=looked.pods, kueue_seen=looked.kueue):
            self.told[attempt.job_id, attempt.submit_time, attempt.restart_count] = attempt
        assert bool(unended(state)) is not self.over or not looked.complete
        if killed:
            return
        forget(state, moment, complete=looked.complete)
        self.cursor = json.dumps(msgspec.to_builtins(state))
        if looked.complete and not looked.notes:
            for execution in self.truth:
                # After a loss only what is still there can be seen.
                execution.lost = execution.lost or (self.behind and not execution.must and execution.end is not None)
                execution.must = not execution.lost
            self.behind = False


def _seconds(pod: dict[str, Any]) -> float:
    from datetime import datetime

    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()


KINDS = st.sampled_from(["pods", "jobs", "workloads"])
ACTIONS = st.one_of(
    st.tuples(st.just("admit")),
    st.tuples(st.just("admit")),
    st.tuples(st.just("evict"), st.sampled_from(["Preempted", "PodsReadyTimeout", "ClusterQueueStopped"])),
    st.tuples(st.just("crash"), st.booleans()),
    st.tuples(st.just("tick"), st.integers(1, 400)),
    st.tuples(st.just("look"), st.frozensets(KINDS, max_size=2), st.one_of(st.none(), st.integers(0, 4))),
    st.tuples(st.just("look"), st.just(frozenset()), st.none()),
    st.tuples(st.just("killed")),
    st.tuples(st.just("lose")),
    st.tuples(st.just("finish")),
)


def play(actions: list[tuple[Any, ...]]) -> World:
    world = World()
    for action, *rest in actions:
        world.tick(3)
        match action:
            case "admit":
                world.admit()
            case "evict":
                world.evict(*rest)
            case "crash":
                world.crash(survivors=rest[0])
            case "tick":
                world.tick(*rest)
            case "look":
                world.look(*rest)
            case "killed":
                world.look(killed=True)
            case "lose":
                world.lose_history()
            case "finish":
                world.finish()
    world.tick(3)
    world.look()
    world.tick(3)
    world.look()
    return world


AWAY = ("look", frozenset({"workloads"}), None)
PREEMPTED = ("evict", "Preempted")


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTIONS, max_size=30))
# Each of these once made two attempts of one, or gave counts that went back.
@example([("admit",), PREEMPTED, ("admit",), ("tick", 114), AWAY])
@example([("admit",), ("look", frozenset(), None), PREEMPTED, ("admit",), AWAY])
@example([("admit",), ("crash", False), ("crash", False), AWAY, PREEMPTED, ("admit",), ("lose",), ("crash", False)])
@example([("admit",), ("finish",), ("look", frozenset({"workloads", "pods"}), None)])
def test_every_attempt_that_could_be_seen_is_told_once_with_its_nodes(actions: list[tuple[Any, ...]]) -> None:
    world = play(actions)
    attempts = sorted(world.told.values(), key=lambda attempt: attempt.restart_count)
    assert len({attempt.job_id for attempt in attempts}) <= 1
    counts = [attempt.restart_count for attempt in attempts]
    assert counts == sorted(set(counts)), "a restart count was given twice"
    starts = [str(attempt.start) for attempt in attempts]
    assert starts == sorted(starts), "restart counts do not grow with time"
    with_nodes = [attempt for attempt in attempts if attempt.nodes]
    for execution in world.truth:
        mine = [attempt for attempt in with_nodes if set(attempt.nodes) & set(execution.nodes)]
        assert len(mine) <= 1, "one attempt was told as two"
        if execution.must:
            assert [attempt.nodes for attempt in mine] == [execution.nodes]
        for attempt in mine:
            assert set(attempt.nodes) <= set(execution.nodes), "an attempt has another's nodes"
            if not execution.lost:
                assert (attempt.end is None) is (execution.end is None)
            if execution.must and execution.evicted:
                assert attempt.state in ("Preempted", "Evicted")
    # An attempt without nodes is an admission whose pods were never seen.
    empty = [str(attempt.start) for attempt in attempts if not attempt.nodes]
    admissions = {at(execution.admitted).isoformat() for execution in world.truth if not execution.must}
    assert set(empty) <= admissions and len(empty) == len(set(empty))


@settings(max_examples=50, deadline=None)
@given(st.lists(ACTIONS, max_size=60))
def test_the_cursor_stays_small(actions: list[tuple[Any, ...]]) -> None:
    world = play(actions)
    assert len(world.cursor) < 12_000


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTIONS.filter(lambda action: action[0] != "lose"), max_size=25))
def test_how_often_is_looked_and_what_fails_changes_nothing_in_the_end(actions: list[tuple[Any, ...]]) -> None:
    once = play([("tick", 0) if action[0] in ("look", "killed") else action for action in actions])
    often = play(actions)
    wanted = {(tuple(a.nodes), a.start, a.end, a.state, a.restart_count) for a in once.told.values()}
    assert {(tuple(a.nodes), a.start, a.end, a.state, a.restart_count) for a in often.told.values()} == wanted


PLACES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 60), st.booleans(), st.booleans()), max_size=12)


@settings(max_examples=100, deadline=None)
@given(PLACES, st.randoms(use_true_random=False))
def test_the_order_in_which_pods_are_seen_changes_nothing(
    places: list[tuple[int, int, bool, bool]], random: Any
) -> None:
    pods = []
    for number, (index, created, failed, indexed) in enumerate(places):
        end: dict[str, Any] = {"phase": "Failed", "code": 1, "ended": created + 5} if failed else {}
        name = f"train-{number:05d}"
        where = {"index": index} if indexed else {}
        pods.append(a_pod(name, created, of=uid(name), owner=job_ref(), node=f"n{number}", **where, **end).to_dict())
    shuffled = list(pods)
    random.shuffle(shuffled)
    assert _spans(pods) == _spans(shuffled)


def _spans(pods: list[dict[str, Any]]) -> list[tuple[str, int, int | None, list[str]]]:
    state = State()
    fold_run(state, "Job", msgspec.convert(a_job().to_dict(), Run), 100, Reading())
    for pod in pods:
        fold_pod(state, msgspec.convert(pod, Pod), 100, Reading())
    (run,) = state.runs.values()
    return [(span.key, span.start, span.end, [pod.name for pod in span.pods()]) for span in spans(run)]
