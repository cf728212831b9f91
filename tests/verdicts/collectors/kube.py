"""A Kubernetes API server as its documentation describes it, for as much of it as is read.

No real API server can be had where these tests run, so this is an emulator (on kmock) that replays documented behaviour:
lists in pages with `limit` and `continue`, one resourceVersion for all, watches from a version on with bookmarks and
`timeoutSeconds`, 410 Gone for a version that is not kept any more, refusals as metav1.Status, pod logs with
`previous`, `timestamps`, `sinceTime`, `tailLines` and `limitBytes`. Objects are built from lightkube's models, so
that a wrong field name fails; those of custom resources by their published types.
"""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kmock

from verdicts.collectors.kubernetes_client import Api

GROUPS = {
    "batch": ("v1", ["jobs"]),
    "jobset.x-k8s.io": ("v1alpha2", ["jobsets"]),
    "kubeflow.org": ("v1", ["pytorchjobs", "mpijobs"]),
    "trainer.kubeflow.org": ("v1alpha1", ["trainjobs"]),
    "kueue.x-k8s.io": ("v1beta1", ["workloads"]),
}

_PATH = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[0-9a-z]+)(?:/namespaces/(?P<ns>[^/]+))?/(?P<plural>[a-z]+)"
                   r"(?:/(?P<name>[^/]+))?(?P<log>/log)?")  # fmt: skip


@dataclass
class Cluster:
    """What is in the cluster, what happened to it, and how it misbehaves."""

    groups: dict[str, tuple[str, list[str]]] = field(default_factory=lambda: dict(GROUPS))
    version: int = 100
    oldest: int = 0
    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    logs: dict[tuple[str, str, bool], Any] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    bookmarks: bool = True
    gone_as_status: bool = False
    hang: set[str] = field(default_factory=set)
    #: Watches of these end in the middle of their last line, after so many events.
    cut: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    expire_continue: int = 0
    url: str = ""

    def put(self, plural: str, thing: Any) -> dict[str, Any]:
        """Create or change an object."""
        made: dict[str, Any] = json.loads(json.dumps(thing if isinstance(thing, dict) else thing.to_dict()))
        meta = made["metadata"]
        key = (plural, meta.get("namespace", ""), meta["name"])
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        kind = "MODIFIED" if key in self.objects else "ADDED"
        self.objects[key] = made
        self.history.append((self.version, kind, plural, made))
        return made

    def remove(self, plural: str, name: str, namespace: str = "ml") -> None:
        """Delete an object."""
        gone = dict(self.objects.pop((plural, namespace, name)))
        self.version += 1
        gone["metadata"] = {**gone["metadata"], "resourceVersion": str(self.version)}
        self.history.append((self.version, "DELETED", plural, gone))

    def forget(self) -> None:
        """Lose the history, as etcd's compaction does."""
        self.history.clear()
        self.oldest = self.version

    def asked(self, part: str) -> list[dict[str, str]]:
        """The parameters of the requests whose path has this in it."""
        return [params for path, params in self.requests if part in path]

    # --- answers ----------------------------------------------------------------------------------------------------

    def answer(self, request: kmock.Request) -> kmock.Response:
        """One answer."""
        path, params = request.url.path, dict(request.params)
        self.requests.append((path, params))
        if path in self.answers:
            return self.answers[path](request)
        if path == "/version":
            return _json({"gitVersion": "v1.31.2", "major": "1", "minor": "31"})
        if path == "/apis":
            groups = [
                {"name": g, "versions": [{"groupVersion": f"{g}/{v}", "version": v}]}
                for g, (v, _) in self.groups.items()
            ]
            return _json({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        if match := re.fullmatch(r"/apis/([^/]+)/[^/]+", path):
            kinds = self.groups.get(match[1], ("", []))[1]
            return _json({"kind": "APIResourceList", "resources": [{"name": kind} for kind in kinds]})
        found = _PATH.fullmatch(path)
        if found is None:
            return _status(404, "the server could not find the requested resource")
        plural, namespace = found["plural"], found["ns"] or ""
        right = "pods/log" if found["log"] else plural
        if right in self.forbidden or f"{namespace}/{right}" in self.forbidden:
            verb = "watch" if "watch" in params else "list"
            return _status(403, f'{right} is forbidden: User "inquest" cannot {verb} resource "{right}"', "Forbidden")
        if right in self.hang:
            return kmock.Response(status=200, payload=_hang())
        if found["log"]:
            return self._log(namespace, found["name"], params, request)
        if found["name"]:
            thing = self.objects.get((plural, namespace, found["name"]))
            return _json(thing) if thing else _status(404, f'{plural} "{found["name"]}" not found', "NotFound")
        if params.get("watch"):
            return self._watch(plural, namespace, params, request)
        return self._list(plural, namespace, params)

    def _list(self, plural: str, namespace: str, params: dict[str, str]) -> kmock.Response:
        items = [thing for (of, ns, _), thing in sorted(self.objects.items()) if of == plural and namespace in ("", ns)]
        items = [thing for thing in items if _selected(thing, params)]
        start, limit = int(params.get("continue") or 0), int(params.get("limit") or 0)
        if start and self.expire_continue:
            self.expire_continue -= 1
            return _status(410, "The provided continue parameter is too old", "Expired")
        page = items[start : start + limit] if limit else items[start:]
        meta = {"resourceVersion": str(self.version)}
        if start + len(page) < len(items):
            meta["continue"] = str(start + len(page))
        return _json({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": page})

    def _watch(self, plural: str, namespace: str, params: dict[str, str], request: Any) -> kmock.Response:
        since = int(params["resourceVersion"])
        if since < self.oldest:
            if self.gone_as_status:
                return _status(410, f"too old resource version: {since} ({self.oldest})", "Expired")
            return kmock.Response(status=200, payload=_some_lines([_gone(since, self.oldest)]))
        events = [
            {"type": kind, "object": thing}
            for version, kind, of, thing in self.history
            if version > since and of == plural and namespace in ("", thing["metadata"].get("namespace", ""))
            and _selected(thing, params)
        ]  # fmt: skip
        cut = self.cut.get(plural)
        if cut is not None:
            return kmock.Response(status=200, payload=_cut_lines(events, cut, request))
        if self.bookmarks and params.get("allowWatchBookmarks") == "true":
            events.append({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}})
        return kmock.Response(status=200, payload=_some_lines(events))

    def _log(self, namespace: str, name: str, params: dict[str, str], request: Any) -> kmock.Response:
        if ("pods", namespace, name) not in self.objects:
            return _status(404, f'pods "{name}" not found', "NotFound")
        kept = self.logs.get((name, params["container"], params.get("previous") == "true"))
        if kept is None:
            why = f'previous terminated container "{params["container"]}" in pod "{name}" not found'
            return _status(400, why, "BadRequest")
        if callable(kept):
            return kept(params, request)
        lines = [line for line in kept if line[:19] >= params.get("sinceTime", "")[:19]]
        if tail := int(params.get("tailLines") or 0):
            lines = lines[-tail:]
        data = "".join(f"{line}\n" for line in lines).encode()
        return kmock.Response(status=200, payload=data[: int(params.get("limitBytes") or len(data))])


def _json(thing: Any) -> kmock.Response:
    return kmock.Response(status=200, payload=thing)


def _status(code: int, message: str, reason: str = "") -> kmock.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return kmock.Response(status=code, payload=body)


def _gone(since: int, oldest: int) -> dict[str, Any]:
    message = f"too old resource version: {since} ({oldest})"
    return {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": message}}


def _selected(thing: dict[str, Any], params: dict[str, str]) -> bool:
    labels = thing["metadata"].get("labels") or {}
    for part in filter(None, params.get("labelSelector", "").split(",")):
        name, _, value = part.partition("=")
        if labels.get(name) != value:
            return False
    for part in filter(None, params.get("fieldSelector", "").split(",")):
        name, _, value = part.partition("=")
        found: Any = thing
        for step in name.split("."):
            found = (found or {}).get(step)
        if found != value:
            return False
    return True


async def _some_lines(events: list[dict[str, Any]]) -> AsyncIterator[bytes]:
    yield b""
    for event in events:
        yield json.dumps(event).encode() + b"\n"


async def _cut_lines(events: list[dict[str, Any]], cut: int, request: Any) -> AsyncIterator[bytes]:
    yield b""
    for event in events[:cut]:
        yield json.dumps(event).encode() + b"\n"
    if events[cut:]:
        yield json.dumps(events[cut]).encode()[:40]
    await asyncio.sleep(0)
    request._raw_request.transport.abort()
    yield b"{"


async def _hang() -> AsyncIterator[bytes]:
    yield b""
    await asyncio.Event().wait()


@contextmanager
def api_server(folder: Path) -> Iterator[tuple[Cluster, Api]]:
    """An API server on a loopback port, and the settings that lead to it."""
    cluster = Cluster()
    ready = threading.Event()
    box: dict[str, Any] = {}

    async def serve() -> None:
        async with kmock.RawHandler() as handler, kmock.Server(handler) as server:
            handler[re.compile("/.*")] << cluster.answer
            box.update(loop=asyncio.get_running_loop(), over=asyncio.Event())
            cluster.url = str(server.url).rstrip("/")
            ready.set()
            await box["over"].wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10), "the emulator is not up"
    try:
        yield cluster, Api(kubeconfig=str(kubeconfig(folder, cluster.url)))
    finally:
        box["loop"].call_soon_threadsafe(box["over"].set)
        thread.join(10)


def kubeconfig(folder: Path, url: str, **user: Any) -> Path:
    """A kubeconfig file."""
    path = folder / f"kubeconfig-{len(list(folder.iterdir()))}.yaml"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": user or {"token": "t0ken-0f-the-test"}}],
                "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return path
