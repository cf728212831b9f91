"""What Kubernetes itself says of an attempt, as the lines that `kubectl` would print and the rules read.

Events of the run, its Jobs, its Workload and its pods come from the run's namespace, those of nodes from `default`.
They live for about an hour; the states of pods and nodes are as they are now, with the time at which they became so.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from verdicts.collectors.ask import Ask, SourceError, Unreachable
from verdicts.collectors.kubernetes_client import Connection, Expired, NotThere
from verdicts.collectors.kubernetes_logs import LIST_NODES, attempt_pods
from verdicts.collectors.kubernetes_objects import (
    Condition,
    ContainerStatus,
    Event,
    JobId,
    Node,
    Pod,
    Terminated,
    holds,
)
from verdicts.collectors.kubernetes_pods import PodFact, one_line, seconds
from verdicts.collectors.kubernetes_words import own_words
from verdicts.collectors.sink import Sink

#: How long an API server keeps events unless told otherwise (--event-ttl).
EVENT_TTL = timedelta(hours=1)
#: What led to an end is looked for in the time just before it: of a long attempt no more can be had.
LAST_WORDS = timedelta(minutes=15)
#: Lines that one collection gives to the rules.
MAX_LINES = 100_000
#: So many nodes are asked for one by one; more are listed.
FEW_NODES = 40
NANO = 1_000_000_000

LIST_EVENTS = 'apiGroups: [""], resources: ["events"], verbs: ["list"]'

#: What a node's condition is called when it is not well; Ready is the other way round.
_PRESSURES = {"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}


@dataclass
class Lines:
    """Lines by node, to be given to the rules in order of time."""

    at: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    count: int = 0
    dropped: int = 0
    gone: list[str] = field(default_factory=list)

    def add(self, moment: int | None, text: str, node: str = "", *, otherwise: int) -> None:
        """One line; where it has no time of its own, that of when it was looked at."""
        if self.count >= MAX_LINES:
            self.dropped += 1
            return
        self.count += 1
        self.at.setdefault(node, []).append((otherwise if moment is None else moment, text))

    def give(self, out: Sink, what: str) -> None:
        """Give them to the rules."""
        for node, lines in sorted(self.at.items()):
            lines.sort()
            data = "\n".join(text for _, text in lines).encode("utf-8", "backslashreplace")
            out.bytes += len(data)
            out.stream(f"{what}/{node}" if node else what, node=node).feed(data, [moment * NANO for moment, _ in lines])
        if self.gone:
            out.partial(f"the nodes {', '.join(self.gone[:5])} are not in the cluster any more")
        if self.dropped:
            out.partial(f"{what}: more than {MAX_LINES} lines; {self.dropped} were left out")


def collect_events(connection: Connection, job: JobId, ask: Ask, out: Sink) -> None:
    """Read the events and states. One kind that cannot be had is a gap; raises SourceError when none can."""
    errors: list[SourceError] = []
    pods: list[tuple[Pod, PodFact]] = []
    done = 0
    try:
        own_words(connection, job, out)
    except SourceError as error:
        errors.append(_named("annotations", error))
    try:
        pods = attempt_pods(connection, job, ask)
        _states_of_pods(pods, ask).give(out, "pods")
        done += 1
    except SourceError as error:
        errors.append(_named("pods", error))
    for what, read in (("events", _events), ("node events", _node_events), ("nodes", _states_of_nodes)):
        lines = Lines()
        try:
            connection.budget.left()
            read(lines, connection, job, ask, pods)
            done += 1
        except SourceError as error:
            errors.append(_named(what, error))
        finally:
            lines.give(out, what.replace(" ", "-"))
    if not done:
        raise errors[0]
    for gap in errors:
        out.partial(str(gap))
    oldest = datetime.now(ask.begin.tzinfo) - EVENT_TTL
    said = f"events from before {oldest:%Y-%m-%d %H:%M} UTC are not in the cluster any more: it keeps them for an hour"
    if oldest > ask.end - LAST_WORDS:
        out.partial(said)
    elif oldest > ask.begin:
        out.note(said)


def _named(what: str, error: SourceError) -> SourceError:
    kind = Unreachable if isinstance(error, Unreachable) else SourceError
    return kind(f"{what}: {error}")


def _events(lines: Lines, connection: Connection, job: JobId, ask: Ask, pods: list[tuple[Pod, PodFact]]) -> None:
    """Events of the run, of what was made for it, and of its pods, also of those that are gone."""
    nodes = {fact.name: fact.node for _, fact in pods}
    uids = {pod.metadata.uid for pod, _ in pods}
    is_ours = _ours(job, uids, frozenset(nodes))
    for event in _listed(connection, job.namespace, {}):
        if is_ours(event):
            name = event.involved_object.name or ""
            host = event.source.host if event.source else None
            _add(lines, event, ask, nodes.get(name) or (host if host in ask.nodes else "") or "")


def _node_events(lines: Lines, connection: Connection, _job: JobId, ask: Ask, _pods: object) -> None:
    """Events of the attempt's nodes."""
    nodes = frozenset(ask.nodes)
    if nodes:
        for event in _listed(connection, "default", {"fieldSelector": "involvedObject.kind=Node"}):
            name = event.involved_object.name or ""
            if name in nodes:
                _add(lines, event, ask, name)


def _listed(connection: Connection, namespace: str, params: dict[str, str]) -> Iterator[Event]:
    """All events of a namespace, once each; begun again, once, when the list was not kept for long enough."""
    path = f"api/v1/namespaces/{namespace}/events"
    seen: set[str] = set()
    for again in (True, False):
        try:
            for page in connection.pages(path, params, right=LIST_EVENTS):
                for raw in page.items or []:
                    event = msgspec.json.decode(raw, type=Event)
                    if (uid := event.metadata.uid or event.metadata.name) not in seen:
                        seen.add(uid)
                        yield event
            return
        except Expired:
            if not again:
                raise
        except msgspec.DecodeError as error:
            raise SourceError(f"an event that cannot be read: {error}") from error


_MADE_BY_KUEUE = re.compile(r"-[0-9a-f]{5}")
_POD_SUFFIX = "-[bcdfghjklmnpqrstvwxz2456789]{5}"


def _ours(job: JobId, uids: set[str], pods: frozenset[str]) -> Callable[[Event], bool]:
    """Whether an event is of this run: by uid, by name, or by how controllers name what they make for it."""
    name = re.escape(job.name)
    made = {
        "job": rf"{name}(-\d+)?{_POD_SUFFIX}",
        "jobset": rf"{name}-[a-z0-9-]+-\d+-\d+({_POD_SUFFIX})?",
        "trainjob": rf"{name}-[a-z0-9-]+-\d+-\d+({_POD_SUFFIX})?",
    }.get(job.kind, rf"{name}-(master|worker|launcher|chief|ps|evaluator)(-\d+)?({_POD_SUFFIX})?")
    pod_name = re.compile(made)
    child = re.compile(rf"{name}-([a-z0-9-]+-\d+|launcher)")

    def is_ours(event: Event) -> bool:
        of = event.involved_object
        if of.kind == "Pod":
            return of.uid in uids or (of.name in pods and not of.uid) or bool(pod_name.fullmatch(of.name or ""))
        if of.kind == "Workload":
            start = f"{job.kind}-{job.name}"
            return (of.name or "").startswith(start) and bool(_MADE_BY_KUEUE.fullmatch((of.name or "")[len(start) :]))
        if of.kind.lower() == job.kind or of.name == job.name:
            same = not of.uid or of.uid.replace("-", "")[:8] == job.uid
            return of.name == job.name and (same or of.kind.lower() != job.kind)
        return job.kind != "job" and bool(child.fullmatch(of.name or ""))

    return is_ours


def _add(lines: Lines, event: Event, ask: Ask, node: str) -> None:
    """An event as `kubectl describe` prints it; one that came several times, when first and when last."""
    first, last, count = _when(event)
    begin, end = int(ask.begin.timestamp()), int(ask.end.timestamp())
    if first is not None and last is not None and (last < begin or first > end):
        return
    component = (event.source.component if event.source else None) or event.reporting_component
    of = event.involved_object
    times = f"(x{count})" if count > 1 else ""
    words = [event.type or "Normal", event.reason, times, component, event.message, f"[{of.kind.lower()}/{of.name}]"]
    text = "  ".join(told for word in words if (told := one_line(word, 2_000)))
    if count > 1 and first is not None and first >= begin and first != last:
        lines.add(first, text, node, otherwise=end)
    if last is None or last <= end:
        lines.add(last, text, node, otherwise=end)
    elif not (count > 1 and first is not None and first >= begin):
        lines.add(first, text, node, otherwise=end)


def _when(event: Event) -> tuple[int | None, int | None, int]:
    """First and last time, and how often."""
    series = event.series
    times = [
        event.first_timestamp,
        event.event_time,
        event.last_timestamp,
        series.last_observed_time if series else None,
    ]
    known = [moment for text in times if (moment := seconds(text)) is not None]
    if not known:
        made = seconds(event.metadata.creation_timestamp)
        known = [] if made is None else [made]
    count = max(event.count or 1, (series.count if series else None) or 1)
    return min(known, default=None), max(known, default=None), count


def _states_of_pods(pods: list[tuple[Pod, PodFact]], ask: Ask) -> Lines:
    """How the containers of the attempt's pods ended or why they wait, and what disrupted the pods."""
    lines = Lines()
    now = int(ask.end.timestamp())
    for pod, fact in pods:
        head = f"pod/{fact.name}"
        if pod.status.reason:
            said = (
                f"Status: {fact.phase}  Reason: {one_line(pod.status.reason)}  Message: {one_line(pod.status.message)}"
            )
            lines.add(fact.over(), f"{head}  {said}", fact.node, otherwise=now)
        if (why := holds(pod.status.conditions, "DisruptionTarget")) is not None:
            said = f"DisruptionTarget  True  {one_line(why.reason)}  {one_line(why.message)}"
            lines.add(seconds(why.last_transition_time), f"{head}  {said}", fact.node, otherwise=now)
        scheduled = next((c for c in pod.status.conditions or [] if c.type == "PodScheduled"), None)
        if scheduled is not None and scheduled.status == "False":
            said = f"PodScheduled  False  {one_line(scheduled.reason)}  {one_line(scheduled.message)}"
            lines.add(seconds(scheduled.last_transition_time), f"{head}  {said}", fact.node, otherwise=now)
        for status in [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]:
            _state_of_container(lines, head, status, fact, ask)
    return lines


def _state_of_container(lines: Lines, head: str, status: ContainerStatus, fact: PodFact, ask: Ask) -> None:
    begin, end = int(ask.begin.timestamp()), int(ask.end.timestamp())
    for state in (status.last_state, status.state):
        if state is None:
            continue
        if state.terminated is not None:
            at = seconds(state.terminated.finished_at)
            if at is None or begin <= at <= end:
                lines.add(at, f"{head}  {status.name}  {_terminated(state.terminated)}", fact.node, otherwise=end)
        elif state.waiting is not None and state is status.state and state.waiting.reason:
            said = f"State: Waiting  Reason: {one_line(state.waiting.reason)}  {one_line(state.waiting.message)}"
            lines.add(None, f"{head}  {status.name}  {said}".rstrip(), fact.node, otherwise=end)


def _terminated(end: Terminated) -> str:
    parts = [f"State: Terminated  Reason: {one_line(end.reason) or 'Unknown'}", f"Exit Code: {end.exit_code}"]
    parts.append(f"Signal: {end.signal}" if end.signal else "")
    parts.append(f"Message: {one_line(end.message)}" if end.message else "")
    return "  ".join(part for part in parts if part)


def _states_of_nodes(lines: Lines, connection: Connection, _job: JobId, ask: Ask, _pods: object) -> None:
    """What is not well with the attempt's nodes since before its end: conditions, taints, closed for new pods."""
    for node in _nodes(connection, ask.nodes, lines.gone):
        _state_of_node(lines, node, int(ask.end.timestamp()))


def _nodes(connection: Connection, names: Sequence[str], gone: list[str]) -> Iterator[Node]:
    if len(names) <= FEW_NODES:
        for name in names:
            try:
                yield connection.get(f"api/v1/nodes/{name}", Node, right=LIST_NODES)
            except NotThere:
                gone.append(name)
        return
    wanted = frozenset(names)
    for page in connection.pages("api/v1/nodes", right=LIST_NODES):
        for raw in page.items or []:
            node = msgspec.json.decode(raw, type=Node)
            if node.metadata.name in wanted:
                yield node


def _state_of_node(lines: Lines, node: Node, end: int) -> None:
    name = node.metadata.name
    for condition in node.status.conditions or []:
        since = seconds(condition.last_transition_time)
        if since is not None and since > end:
            continue
        if text := _unwell(name, condition):
            lines.add(since, text, name, otherwise=end)
    for taint in node.spec.taints or []:
        since = seconds(taint.time_added)
        if taint.effect == "NoExecute" and (since is None or since <= end):
            lines.add(since, f"{name}   Taints: {one_line(taint.key)}:NoExecute", name, otherwise=end)
    if node.spec.unschedulable:
        lines.add(None, f"{name}   Ready,SchedulingDisabled", name, otherwise=end)


def _unwell(name: str, condition: Condition) -> str:
    said = f"{one_line(condition.reason)}  {one_line(condition.message)}".rstrip()
    if condition.type == "Ready":
        return "" if condition.status == "True" else f"{name}   NotReady   Ready  {condition.status}  {said}"
    if condition.type in _PRESSURES:
        return f"{name}   {condition.type}   True   {said}" if condition.status == "True" else ""
    # What a node problem detector adds is well when it is False.
    return f"{name}   {one_line(condition.type)}   True   {said}" if condition.status == "True" else ""


def newest_event(connection: Connection, namespaces: Sequence[str]) -> datetime | None:
    """The time of the newest event among the first page's, to see that they can be had. Raises Forbidden."""
    newest: datetime | None = None
    for namespace in namespaces or ("",):
        path = f"api/v1/namespaces/{namespace}/events" if namespace else "api/v1/events"
        for raw in next(connection.pages(path, right=LIST_EVENTS)).items or []:
            _, last, _ = _when(msgspec.json.decode(raw, type=Event))
            if last is not None:
                moment = datetime.fromtimestamp(last).astimezone()
                newest = moment if newest is None else max(newest, moment)
    return newest
