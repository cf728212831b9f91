"""Speaking to a Kubernetes API server: read only, within a budget, as whom lightkube's configuration says.

lightkube reads the kubeconfig or the service account; the requests are made by `http`, which ends each in its time,
counts its bytes and holds none of it longer than needed. There is no call here that is not a GET: nothing is ever
written to the cluster.
"""

import atexit
import base64
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TypeVar

import msgspec
import yaml
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from verdicts.collectors import http
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.kubernetes_objects import PODS, RESOURCES, Resource
from verdicts.collectors.server import Server

T = TypeVar("T")
Params = Mapping[str, str | int]

#: Objects in one page of a list, which is held as a whole: pods have 10 to 200 KiB.
PAGE = 250
#: How to ask for objects without what is in them.
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
#: An answer that is no stream is not waited for longer.
ANSWER_SECONDS = 30.0
#: Longest line of a watch that is taken: etcd holds objects of at most 1.5 MiB.
MAX_WATCH_LINE = 8 << 20


class Api(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which API server, and as whom: a kubeconfig file and one of its contexts, else the pod's own service account."""

    kubeconfig: str = ""
    context: str = ""

    def check(self) -> None:
        """Look whether the file can be used. Raises ValueError naming the key."""
        if self.context and not self.kubeconfig:
            raise ValueError("api.context: is of a kubeconfig, and api.kubeconfig is not set")
        if self.kubeconfig:
            try:
                server_of(self).check()
            except (SourceError, ValueError) as error:
                raise ValueError(f"api.kubeconfig: {error}") from error


class Forbidden(SourceError):
    """Access that our role does not have; the message names what to add to it."""


class NotThere(SourceError):
    """404: the object, or the kind of object, is not on the server (any more)."""


class Expired(SourceError):
    """410: the place in the history that was asked for is not kept any more; list again."""


def _config(api: Api) -> SingleConfig:
    """What lightkube reads. Raises SourceError, without any of the file's secrets."""
    try:
        if api.kubeconfig:
            config = KubeConfig.from_file(api.kubeconfig).get(api.context or None)
        else:
            config = KubeConfig.from_service_account().get()
    except ConfigError as error:
        hint = "" if api.kubeconfig else f" (not in a pod: {SERVICE_ACCOUNT} is not there; set api.kubeconfig)"
        raise SourceError(f"{error}{hint}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{api.kubeconfig} cannot be read: {type(error).__name__}") from error
    except (KeyError, TypeError, AttributeError, ValueError, yaml.YAMLError) as error:
        # The text of these errors can quote the file.
        raise SourceError(f"{api.kubeconfig or SERVICE_ACCOUNT} is not usable: {type(error).__name__}") from error
    if config is None:
        raise SourceError(f"{api.kubeconfig} has no current context: set api.context")
    return config


def server_of(api: Api) -> Server:
    """Where the API server is and how we are known there. Raises SourceError."""
    return _server(api, os.getpid())


@cache
def _server(api: Api, pid: int) -> Server:
    config = _config(api)
    user, cluster = config.user or User(), config.cluster
    where = api.kubeconfig or SERVICE_ACCOUNT
    if user.exec is not None or user.auth_provider is not None:
        raise SourceError(
            f"{where}: the user runs a command to get a token, which is not done here:"
            " use a service account's token (tokenFile) or a client certificate"
        )
    if cluster.insecure:
        raise SourceError(f"{where}: insecure-skip-tls-verify is not done here: set certificate-authority")
    headers = {}
    if user.token and not user.token_file:
        headers["Authorization"] = f"Bearer {user.token.strip()}"
    elif user.username and user.password:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        headers["Authorization"] = f"Basic {pair}"
    try:
        return msgspec.convert(
            {
                "url": cluster.server,
                "headers": headers,
                "token_file": str(config.abs_file(user.token_file)) if user.token_file else "",
                "ca_file": _file(config, cluster.certificate_auth, cluster.certificate_auth_data, pid),
                "cert_file": _file(config, user.client_cert, user.client_cert_data, pid),
                "key_file": _file(config, user.client_key, user.client_key_data, pid),
            },
            Server,
        )
    except msgspec.ValidationError as error:
        raise SourceError(f"{where}: {error}") from error
    except (ConfigError, ValueError) as error:
        raise SourceError(f"{where}: is not usable: {type(error).__name__}") from error


def _file(config: SingleConfig, path: str | None, data: str | None, pid: int) -> str:
    """The file of a certificate or key: the one that is named, or one made of what is inline."""
    if not data:
        return str(config.abs_file(path)) if path else ""
    descriptor, name = tempfile.mkstemp(dir=_folder(pid))
    with os.fdopen(descriptor, "wb") as file:
        file.write(base64.b64decode(data))
    return name


@cache
def _folder(pid: int) -> str:
    """Where a process keeps such files. One that was forked off has its own, and leaves its parent's alone."""
    folder = tempfile.mkdtemp(prefix="inquest-")
    atexit.register(_remove, folder, pid)
    return folder


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


class _Shared(Budget):
    """A budget of which several threads take."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget.deadline, budget.bytes_left, budget.seconds)
        self._budget, self._lock = budget, threading.Lock()

    def left(self) -> float:
        return self._budget.left()

    def take(self, size: int) -> None:
        with self._lock:
            self._budget.take(size)


@dataclass
class Connection:
    """One look at one server, with the budget that all calls of the look share."""

    api: Api
    budget: Budget

    def __post_init__(self) -> None:
        self.budget = _Shared(self.budget)

    @contextmanager
    def stream(
        self, path: str, params: Params | None = None, *, right: str = "", seconds: float | None = None
    ) -> Iterator[Iterator[bytes]]:
        """An answer's body in pieces, as they come, within `seconds`. `right` is the line of a role that it needs.

        Raises Forbidden, NotThere, Expired, Refused, Unreachable, BudgetSpent.
        """
        server = server_of(self.api)
        with _told(right), http.stream(server, f"/{path}", self.budget, params=params, seconds=seconds) as pieces:
            yield pieces

    def get(
        self,
        path: str,
        answer: type[T],
        params: Params | None = None,
        *,
        right: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """The whole answer, decoded. Raises SourceError as `stream` does."""
        server = server_of(self.api)
        with _told(right):
            return http.get_json(
                server, f"/{path}", self.budget, answer, params=params, headers=headers, seconds=ANSWER_SECONDS
            )

    def pages(
        self, path: str, params: Params | None = None, *, right: str = "", names_only: bool = False
    ) -> "Iterator[Page]":
        """A list, page by page; with `names_only` of each object its metadata.

        Raises Expired when it took so long that the server forgot where it was.
        """
        asked: dict[str, str | int] = {"limit": PAGE, **(params or {})}
        headers = {"Accept": METADATA} if names_only else None
        while True:
            page = self.get(path, Page, asked, right=right, headers=headers)
            yield page
            if not page.metadata.continue_:
                return
            asked["continue"] = page.metadata.continue_

    def served(self) -> dict[str, str]:
        """Which of the kinds of objects that are known here the server has, and in which version each is asked for."""
        groups = self.get("apis", Groups)
        versions = {group.name: {version.version for version in group.versions} for group in groups.groups}
        versions[""] = {"v1"}
        found = {}
        for resource in RESOURCES:
            has = versions.get(resource.group, set())
            always = resource.group in ("", "batch")
            for version in resource.versions:
                if version in has and (always or self._has(resource, version)):
                    found[resource.plural] = version
                    break
        found.setdefault(PODS.plural, "v1")
        return found

    def _has(self, resource: Resource, version: str) -> bool:
        """Whether a group has this kind: the training operator may be there without the MPI operator."""
        kinds = self.get(f"apis/{resource.group}/{version}", Kinds)
        return any(kind.name == resource.plural for kind in kinds.resources)

    def version(self) -> tuple[str, datetime | None]:
        """The server's version and, to the second, its clock."""
        said = self.get("version", Version).git_version
        return said, http.clock(server_of(self.api), "/version", self.budget)


@contextmanager
def _told(right: str) -> Iterator[None]:
    """The API's refusals as what they mean here."""
    try:
        yield
    except http.Refused as error:
        kinds = {404: NotThere, 410: Expired}
        if error.status == 403:
            need = f" Add to the role: {right} (docs/deploy/kubernetes-rbac.yaml has all of it)" if right else ""
            raise Forbidden(f"not allowed: {error.said}.{need}") from error
        if error.status in kinds:
            raise kinds[error.status](str(error)) from error
        raise


class Version(msgspec.Struct, rename="camel"):
    """GET /version."""

    git_version: str


class GroupVersion(msgspec.Struct):
    """One version of a group."""

    version: str = ""


class Group(msgspec.Struct):
    """metav1.APIGroup."""

    name: str = ""
    versions: list[GroupVersion] = []


class Groups(msgspec.Struct):
    """GET /apis."""

    groups: list[Group] = []


class Kind(msgspec.Struct):
    """metav1.APIResource."""

    name: str = ""


class Kinds(msgspec.Struct):
    """GET /apis/GROUP/VERSION."""

    resources: list[Kind] = []


class ListMeta(msgspec.Struct, frozen=True, rename={"continue_": "continue", "resource_version": "resourceVersion"}):
    """metav1.ListMeta."""

    resource_version: str = ""
    continue_: str = ""


class Page(msgspec.Struct):
    """One page of a list; each object is decoded by itself, so that one that cannot be read spoils no other."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class Status(msgspec.Struct):
    """metav1.Status: what the server says when it does not do what was asked."""

    code: int = 0
    message: str = ""
    reason: str = ""


def lines(pieces: Iterator[bytes], longest: int) -> Iterator[bytes]:
    """Whole lines of a stream, without their ends. What comes after the last newline is half a line: left out.

    Raises SourceError at a line that is longer than `longest`.
    """
    rest = bytearray()
    for piece in pieces:
        first, *others = piece.split(b"\n")
        rest += first
        for following in others:
            yield bytes(rest)
            rest = bytearray(following)
        if len(rest) > longest:
            raise SourceError(f"a line of more than {longest >> 20} MiB, which no object is")
