"""One look at what runs: a list the first time, then short watches that go on from where the last ones ended.

A watch is read until the server's bookmark says that all changes so far have been sent, so a look takes a second or
two and no worker is held. When the server does not keep the history that is asked for any more (410 Gone), the
kind is listed again and compared with what was known.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec

from verdicts.collectors.ask import BudgetSpent, SourceError
from verdicts.collectors.kubernetes_client import (
    MAX_WATCH_LINE,
    Connection,
    Expired,
    Forbidden,
    NotThere,
    Status,
    lines,
)
from verdicts.collectors.kubernetes_facts import (
    Reading,
    State,
    fold_pod,
    fold_run,
    fold_workload,
    present,
    settle,
    vanish,
)
from verdicts.collectors.kubernetes_objects import PODS, RESOURCES, WORKLOADS, Pod, Resource, Run

#: A server sends a bookmark two seconds before a watch's end, so this takes one or two; less gets none.
WATCH_SECONDS = 3
#: A watch that has not ended so long after it should have is no answer.
WATCH_GRACE = 10.0
#: Watches at once: each only waits.
THREADS = 24
#: Which kinds the server has is asked again after so long.
SERVED_SECONDS = 600


class WatchEvent(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


@dataclass
class Target:
    """A kind of object in a namespace (all where ""), and what a look at it brought."""

    resource: Resource
    version: str
    namespace: str
    since: str = ""
    listed: "dict[str, Pod | Run] | None" = None
    changes: list[tuple[str, Pod | Run]] = field(default_factory=list)
    unreadable: int = 0
    error: SourceError | None = None

    @property
    def key(self) -> str:
        """What its place in the history is kept under."""
        return f"{self.resource.plural}/{self.namespace}"

    def look(self, connection: Connection, selector: str) -> None:
        """Bring it up to date. An error is kept with what came before it."""
        params = {"labelSelector": selector} if selector and self.resource is not WORKLOADS else {}
        try:
            if self.since:
                try:
                    self._watch(connection, params)
                    return
                except Expired:
                    self.since = ""
            try:
                self._list(connection, params)
            except Expired:
                self._list(connection, params)
        except SourceError as error:
            self.error = error

    @property
    def _right(self) -> str:
        verbs = '["list", "watch"]'
        return f'apiGroups: ["{self.resource.group}"], resources: ["{self.resource.plural}"], verbs: {verbs}'

    def _list(self, connection: Connection, params: dict[str, str]) -> None:
        path = self.resource.path(self.version, self.namespace)
        found: dict[str, Pod | Run] = {}
        since = ""
        for page in connection.pages(path, params, right=self._right):
            since = page.metadata.resource_version
            for item in self._decoded(page.items or []):
                found[item.metadata.uid] = item
        self.listed, self.since = found, since

    def _decoded(self, items: "list[msgspec.Raw]") -> "Iterator[Pod | Run]":
        for raw in items:
            try:
                item = msgspec.json.decode(raw, type=Pod if self.resource is PODS else Run)
            except msgspec.DecodeError:
                self.unreadable += 1
                continue
            # Pods of web servers and the like are nobody's run; there may be many.
            if self.resource is not PODS or item.metadata.owner() is not None:
                yield item

    def _watch(self, connection: Connection, params: dict[str, str]) -> None:
        path = self.resource.path(self.version, self.namespace)
        asked: dict[str, str | int] = {
            **params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.since,
            "timeoutSeconds": WATCH_SECONDS,
        }
        with connection.stream(path, asked, right=self._right, seconds=WATCH_SECONDS + WATCH_GRACE) as pieces:
            for line in lines(pieces, MAX_WATCH_LINE):
                if line.strip() and self._takes(line):
                    return

    def _takes(self, line: bytes) -> bool:
        """Take in one line of a watch; whether it says that everything until now has been sent."""
        try:
            event = msgspec.json.decode(line, type=WatchEvent)
        except msgspec.DecodeError as error:
            raise SourceError(f"{self.key}: the watch sent what is no event: {error}") from error
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=Status)
            raise (Expired if status.code == 410 else SourceError)(f"{self.key}: {status.message or status.reason}")
        if event.type == "BOOKMARK":
            self.since = msgspec.json.decode(event.object, type=Run).metadata.resource_version or self.since
            return True
        for item in self._decoded([event.object]):
            self.changes.append((event.type, item))
            self.since = item.metadata.resource_version or self.since
        return False


@dataclass(frozen=True)
class Looked:
    """What a look is worth: whether every kind was seen, the pods, Kueue's Workloads; and what was not and why."""

    complete: bool
    pods: bool
    kueue: bool
    notes: tuple[str, ...]


def look(
    connection: Connection, state: State, *, namespaces: tuple[str, ...], selector: str, now: int, reading: Reading
) -> Looked:
    """Bring `state` up to date. Raises SourceError when nothing could be seen; then `state` is as it was."""
    if not state.served or now - state.served_at > SERVED_SECONDS:
        state.served, state.served_at = connection.served(), now
    targets = [
        Target(
            resource, state.served[resource.plural], namespace, state.versions.get(f"{resource.plural}/{namespace}", "")
        )
        for resource in RESOURCES
        if resource.plural in state.served
        for namespace in namespaces or ("",)
    ]
    with ThreadPoolExecutor(max_workers=min(THREADS, len(targets)), thread_name_prefix="kubernetes") as pool:
        list(pool.map(lambda target: target.look(connection, selector), targets))
    _require_some(targets)
    # A kind that may be seen in one of the namespaces is one that runs are made of.
    kinds = frozenset(t.resource.kind for t in targets if not isinstance(t.error, Forbidden | NotThere))
    reading = Reading(kinds=kinds, user_label=reading.user_label, account_label=reading.account_label)
    for target in sorted(targets, key=lambda t: (t.resource is PODS, t.resource is WORKLOADS)):
        _fold(state, target, now, reading)
    settle(state, now)
    if any(isinstance(target.error, NotThere) for target in targets):
        state.served_at = 0
    notes = {note: None for target in targets for note in _notes(target)}
    complete = not any(t.error is not None and not isinstance(t.error, Forbidden | NotThere) for t in targets)
    failed = {t.resource.kind for t in targets if t.error is not None and not isinstance(t.error, Forbidden)}
    return Looked(complete, PODS.kind not in failed, WORKLOADS.kind not in failed, tuple(notes))


def _require_some(targets: list[Target]) -> None:
    """Raise the error of a look that saw no runs at all."""
    runs = [target for target in targets if target.resource is not PODS and target.resource is not WORKLOADS]
    seen = any(target.error is None or target.changes for target in runs)
    spent = next((target.error for target in targets if isinstance(target.error, BudgetSpent)), None)
    if not seen:
        error = next((t.error for t in runs if t.error is not None and not isinstance(t.error, Forbidden)), None)
        raise spent or error or next(t.error for t in runs if t.error is not None)


def _fold(state: State, target: Target, now: int, reading: Reading) -> None:
    kind = target.resource.kind
    if target.listed is not None:
        # What could not be read is there all the same: then nothing is held to be gone.
        for uid in () if target.unreadable else set(present(state, kind, target.namespace)) - target.listed.keys():
            vanish(state, kind, uid, now, seen=False)
        for item in target.listed.values():
            _fold_one(state, kind, item, now, reading)
    for change, item in target.changes:
        _fold_one(state, kind, item, now, reading)
        if change == "DELETED":
            vanish(state, kind, item.metadata.uid, now, seen=True)
    if target.since and (target.listed is not None or target.changes or target.error is None):
        state.versions[target.key] = target.since
    elif isinstance(target.error, Expired | Forbidden | NotThere):
        state.versions.pop(target.key, None)


def _fold_one(state: State, kind: str, item: Pod | Run, now: int, reading: Reading) -> None:
    if isinstance(item, Pod):
        fold_pod(state, item, now, reading)
    elif kind == WORKLOADS.kind:
        fold_workload(state, item, now, reading)
    else:
        fold_run(state, kind, item, now, reading)


def _notes(target: Target) -> Iterator[str]:
    where = f" in {target.namespace}" if target.namespace else ""
    if target.error is not None:
        yield f"{target.resource.plural}{where}: {target.error}"
    if target.unreadable:
        yield f"{target.resource.plural}{where}: {target.unreadable} could not be read and were left out"
