"""The logs of an attempt's pods as the API server has them: while the pods are there, and not longer.

Several are read at once, but lines go through the rules one pod after another as they come. Of a long log the beginning
is read, which says who is who, and the end, which says what went wrong.
"""

import queue
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import msgspec

from verdicts.collectors.ask import Ask, SourceError
from verdicts.collectors.http import Refused
from verdicts.collectors.kubernetes_client import Connection, Forbidden, NotThere
from verdicts.collectors.kubernetes_objects import PODS, RUN_KINDS, ContainerStatus, JobId, Node, Pod
from verdicts.collectors.kubernetes_pods import PodFact, one_line, pod_fact, seconds
from verdicts.collectors.kubernetes_ranks import node_ranks
from verdicts.collectors.sink import Sink

#: Logs read at once from one API server.
THREADS = 8
#: Of a log that is longer so many bytes are read from its beginning, before its last lines.
HEAD_BYTES = 256 << 10
#: One container's log takes no more of the budget than its share, nor than this, nor less than this.
MAX_SHARE, MIN_SHARE = 64 << 20, 1 << 20
#: A line that has not ended after so many bytes is taken in pieces.
MAX_LINE = 1 << 20
#: Pieces that are read and not yet gone through, over all threads.
WAITING_PIECES = 32
#: A log that says nothing new for so long in the middle is not waited for.
LOG_SECONDS = 60.0
#: Names of pods and nodes that a message spells out.
SHOWN = 5

LIST_PODS = 'apiGroups: [""], resources: ["pods"], verbs: ["list"]'
GET_LOGS = 'apiGroups: [""], resources: ["pods/log"], verbs: ["get"]'
LIST_NODES = 'apiGroups: [""], resources: ["nodes"], verbs: ["get", "list"]'

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")
NANO = 1_000_000_000


@dataclass(frozen=True)
class Log:
    """One container's output to be read: of its present run, or of the one before."""

    pod: str
    container: str
    previous: bool
    node: str
    rank: int | None

    @property
    def name(self) -> str:
        """What its lines are referred to by."""
        return f"{self.pod}/{self.container}" + ("/previous" if self.previous else "")


@dataclass(frozen=True)
class Piece:
    """Lines of a log with their times; the last of a log has none, and says what was wrong or missing."""

    log: Log
    data: bytes = b""
    times: Sequence[int] = ()
    last: bool = False
    gap: str = ""
    error: SourceError | None = None


def collect_logs(
    connection: Connection, job: JobId, ask: Ask, out: Sink, containers: Sequence[str], lines: int
) -> None:
    """Read the logs of the attempt's pods. Raises SourceError when the pods cannot be asked for."""
    pods = attempt_pods(connection, job, ask)
    _say_gone(pods, job, ask, out)
    logs = list(_logs(pods, out, frozenset(containers)))
    if not logs:
        return
    share = max(MIN_SHARE, min(MAX_SHARE, ask.budget.bytes_left // len(logs)))
    pieces: queue.Queue[Piece] = queue.Queue(WAITING_PIECES)
    stop = threading.Event()
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="pod-logs")
    try:
        for log in logs:
            pool.submit(_read, connection, job.namespace, log, ask, share, lines, pieces, stop)
        _take(pieces, len(logs), ask, out)
    finally:
        stop.set()
        # Who still waits for an answer ends with the budget; it is not waited for.
        pool.shutdown(wait=False, cancel_futures=True)


def _take(pieces: "queue.Queue[Piece]", open_logs: int, ask: Ask, out: Sink) -> None:
    """Give what the threads read to the rules, until every log is read."""
    unread: dict[str, list[str]] = {}
    while open_logs:
        try:
            piece = pieces.get(timeout=ask.budget.left())
        except queue.Empty:
            continue
        if piece.data:
            out.bytes += len(piece.data)
            out.stream(piece.log.name, node=piece.log.node, rank=piece.log.rank).feed(piece.data, piece.times)
        if piece.last:
            open_logs -= 1
            if piece.gap:
                out.partial(f"{piece.log.name}: {piece.gap}")
            if piece.error is not None:
                unread.setdefault(str(piece.error), []).append(piece.log.name)
    for error, names in unread.items():
        out.partial(f"{_some(names)}: {error}")


def attempt_pods(connection: Connection, job: JobId, ask: Ask) -> list[tuple[Pod, PodFact]]:
    """The pods of the run that were there during the attempt, in order of their names."""
    begin = seconds(ask.attempt.start or ask.attempt.submit_time)
    end = seconds(ask.attempt.end)
    found = []
    path = PODS.path("v1", job.namespace)
    for page in connection.pages(path, {"labelSelector": job.selector()}, right=LIST_PODS):
        for raw in page.items or []:
            pod = msgspec.json.decode(raw, type=Pod)
            owner = pod.metadata.owner()
            fact = pod_fact(pod, owner.name if owner else "", 0)
            over = fact.over()
            before = begin is not None and over is not None and over < begin
            after = end is not None and fact.created >= end and (begin is None or fact.created > begin)
            if not before and not after:
                found.append((pod, fact))
    return sorted(found, key=lambda pair: (pair[1].name, pair[1].created))


def _say_gone(pods: list[tuple[Pod, PodFact]], job: JobId, ask: Ask, out: Sink) -> None:
    """Say which pods are not there any more, as far as nodes tell."""
    keep = "its logs are not in the cluster any more: keep them with a log store"
    if not pods:
        out.partial(f"no pod of {job.kind}/{job.name} in {job.namespace} is there any more; {keep}")
        return
    has = {fact.node for _, fact in pods}
    missing = [node for node in ask.nodes if node not in has]
    if missing:
        out.partial(f"the pod on {_some(missing)} is gone; {keep}")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


def _logs(pods: list[tuple[Pod, PodFact]], out: Sink, wanted: frozenset[str]) -> Iterator[Log]:
    """Which logs there are to read."""
    for (pod, fact), place in zip(pods, node_ranks([fact for _, fact in pods]), strict=True):
        rank = place if fact.per == 1 else None
        statuses = [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]
        init = len(pod.status.init_container_statuses or [])
        if not statuses:
            out.partial(f"pod {fact.name} has started no container: {_waits(pod)}")
        for number, status in enumerate(statuses):
            if wanted and status.name not in wanted:
                continue
            if number < init and not _failed(status):
                continue
            yield from _runs_of(status, fact, rank, out)


def _runs_of(status: ContainerStatus, fact: PodFact, rank: int | None, out: Sink) -> Iterator[Log]:
    state = status.state
    waiting = state.waiting if state else None
    if status.restart_count > 0:
        yield Log(fact.name, status.name, True, fact.node, rank)
    if waiting is None and state is not None:
        yield Log(fact.name, status.name, False, fact.node, rank)
    elif status.restart_count == 0:
        why = one_line(waiting.reason if waiting else "") or "its state is not known"
        out.partial(f"pod {fact.name}: container {status.name} has not started: {why}")


def _failed(status: ContainerStatus) -> bool:
    ended = status.ended()
    return ended is not None and ended.exit_code != 0


def _waits(pod: Pod) -> str:
    reasons = [one_line(c.reason) for c in pod.status.conditions or [] if c.status != "True" and c.reason]
    return reasons[0] if reasons else one_line(pod.status.reason) or (pod.status.phase or "its state is not known")


def _read(
    connection: Connection,
    namespace: str,
    log: Log,
    ask: Ask,
    share: int,
    lines: int,
    pieces: "queue.Queue[Piece]",
    stop: threading.Event,
) -> None:
    """Read one log into the queue; in a thread."""
    gap, error = "", None
    try:
        gap = _read_log(connection, namespace, log, ask, share, lines, pieces, stop)
    except NotThere:
        gap = "the pod is gone; its logs are not in the cluster any more: keep them with a log store"
    except Refused as refused:
        # 400: no earlier container, or its output was cleaned up on the node.
        gap = f"it cannot be read: {refused.said}"
    except SourceError as caught:
        error = caught
    _put(pieces, Piece(log, last=True, gap=gap, error=error), stop)


def _put(pieces: "queue.Queue[Piece]", piece: Piece, stop: threading.Event) -> bool:
    """Whether it could be handed over before nobody takes it any more."""
    while not stop.is_set():
        try:
            pieces.put(piece, timeout=0.2)
            return True
        except queue.Full:
            continue
    return False


def _read_log(
    connection: Connection,
    namespace: str,
    log: Log,
    ask: Ask,
    share: int,
    lines: int,
    pieces: "queue.Queue[Piece]",
    stop: threading.Event,
) -> str:
    """Its beginning and, where there is more, its last lines. What is missing, in words, "" where nothing is."""
    path = f"{PODS.path('v1', namespace)}/{log.pod}/log"
    params: dict[str, str | int] = {"container": log.container, "timestamps": "true"}
    params["sinceTime"] = ask.begin.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if log.previous:
        params["previous"] = "true"
    begin, until = (int(moment.timestamp() * NANO) for moment in (ask.begin, ask.end))
    reading = _Reading(log, begin, until, pieces, stop)

    def read(limit: int, **more: int) -> _Got:
        asked = {**params, **more, "limitBytes": limit}
        with connection.stream(path, asked, right=GET_LOGS, seconds=LOG_SECONDS) as answer:
            return reading.take(answer, limit)

    if not (head := read(min(HEAD_BYTES, share))).cut or reading.over:
        return ""
    seen = reading.last
    tail = read(share, tailLines=lines)
    if tail.cut and not reading.over:
        # So many lines do not fit: fewer will, and they are the last ones.
        lines = max(1, tail.lines * 3 // 4)
        tail = read(share, tailLines=lines)
    if tail.cut and not reading.over:
        return f"its end was not read: {lines} lines are more than the {share >> 20} MiB that it may take"
    if tail.lines >= lines and tail.first > seen:
        return f"longer than what is read of it: its beginning and its last {lines} lines were"
    return "" if head.lines or tail.lines else "its lines are longer than what is read of them"


@dataclass(frozen=True)
class _Got:
    """What one answer brought: whether there was more than asked for, its lines, and the time of the first."""

    cut: bool
    lines: int
    first: int


class _Reading:
    """Where the reading of one log is: the last time read, and whether the attempt's window is over."""

    def __init__(self, log: Log, begin: int, until: int, pieces: "queue.Queue[Piece]", stop: threading.Event) -> None:
        self._log, self._until, self._pieces, self._stop = log, until, pieces, stop
        self.last, self.over = begin - 1, False
        self._at, self._keep = begin, True
        self._second, self._epoch = b"", 0

    def take(self, answer: Iterator[bytes], limit: int) -> _Got:
        """Pass on the lines that are later than what was passed on before, until `limit` bytes or the window's end."""
        seen, count, first = self.last, 0, 0
        received, rest = 0, b""
        for piece in answer:
            received += len(piece)
            block, newline, rest = (rest + piece).rpartition(b"\n")
            if len(rest) > MAX_LINE:
                block, newline, rest = block + newline + rest, b"\n", b""
            if newline:
                count, first = self._lines(block.split(b"\n"), seen, count, first)
            if received >= limit or self.over or self._stop.is_set():
                break
        cut = received >= limit
        if rest and not cut and not self.over:
            count, first = self._lines([rest], seen, count, first)
        return _Got(cut, count, first)

    def _lines(self, lines: list[bytes], seen: int, count: int, first: int) -> tuple[int, int]:
        kept, times = [], []
        for line in lines:
            time, text = self._time(line)
            if time is not None:
                self._keep = time > seen
                first = first or time
                if time > self._until:
                    self.over = True
                    break
                self._at = max(self._at, time)
            # What has no time of its own goes with the line before.
            if self._keep:
                kept.append(text)
                times.append(self._at)
        count += len(lines)
        if kept:
            self.last = self._at
            _put(self._pieces, Piece(self._log, b"\n".join(kept) + b"\n", times), self._stop)
        return count, first

    def _time(self, line: bytes) -> tuple[int | None, bytes]:
        """The time before a line, nanoseconds since 1970 or None, and the line without it."""
        match = _STAMP.match(line)
        if match is None:
            return None, line
        if match[1] != self._second:
            text = match[1].decode() + ("+00:00" if match[3] == b"Z" else match[3].decode())
            try:
                self._epoch = int(datetime.fromisoformat(text).timestamp())
            except ValueError:
                return None, line
            self._second = match[1]
        return self._epoch * NANO + int((match[2] or b"0").ljust(9, b"0")), line[match.end() :]


def newest_line(connection: Connection, namespaces: Sequence[str]) -> tuple[datetime | None, list[str]]:
    """The time of the last line of one running pod, to see that logs can be had; and what was not there to see it by.

    Raises Forbidden where they cannot.
    """
    for namespace in namespaces or ("",):
        params: dict[str, str | int] = {"fieldSelector": "status.phase=Running", "limit": 20}
        for raw in connection.get(PODS.path("v1", namespace), _Pods, params, right=LIST_PODS).items or []:
            owner, containers = raw.metadata.owner(), raw.spec.containers or []
            if owner is None or owner.kind not in RUN_KINDS or not containers:
                continue
            path = f"{PODS.path('v1', raw.metadata.namespace)}/{raw.metadata.name}/log"
            asked: dict[str, str | int] = {
                "container": containers[0].name,
                "tailLines": 1,
                "timestamps": "true",
                "limitBytes": 4096,
            }
            try:
                with connection.stream(path, asked, right=GET_LOGS) as answer:
                    match = _STAMP.match(b"".join(answer))
            except (NotThere, Refused):
                continue
            if match is not None:
                return datetime.fromisoformat(match[1].decode() + "+00:00"), []
    return None, ["no run has a pod with a log just now"]


class _Pods(msgspec.Struct):
    """A short list of pods."""

    items: list[Pod] | None = None


def known_nodes(connection: Connection, namespaces: Sequence[str]) -> tuple[frozenset[str], list[str]]:
    """The names of nodes, from the nodes themselves or, where these may not be listed, from pods."""
    notes = []
    try:
        found = set()
        for page in connection.pages("api/v1/nodes", right=LIST_NODES, names_only=True):
            found |= {msgspec.json.decode(raw, type=Node).metadata.name for raw in page.items or []}
        return frozenset(found), []
    except Forbidden as error:
        notes.append(f"nodes: {error}")
    found = set()
    for namespace in namespaces or ("",):
        for page in islice(connection.pages(PODS.path("v1", namespace), right=LIST_PODS), 2):
            found |= {msgspec.json.decode(raw, type=Pod).spec.node_name or "" for raw in page.items or []}
    return frozenset(found - {""}), notes
