"""Slurm by slurmrestd: with a JSON web token, or through its local unix socket. Only reads.

Which versions of the API a server has is asked of it; the newest whose calls are known here is taken.
"""

import base64
import binascii
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from verdicts.collectors import slurm_json
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.http import Refused, TooLong, stream
from verdicts.collectors.server import Server
from verdicts.collectors.slurm_records import Job, NodeState
from verdicts.collectors.slurm_values import LARGEST

#: Versions whose answers are known, the newest first.
KNOWN = tuple(f"v0.0.{number}" for number in range(45, 37, -1))
#: Versions whose accounting shows every failed job's exit code as success.
WRONG_EXIT_CODES = frozenset({"v0.0.38"})
#: How long what a server can do is remembered.
REMEMBERED = 600.0
#: Jobs are asked for one by one; beyond so many the rest has to wait for the next look.
ONE_BY_ONE = 200


class _Described(msgspec.Struct):
    """What of an OpenAPI description counts."""

    paths: dict[str, Any] = {}


@dataclass(frozen=True)
class Api:
    """What a server offers: the path of each call, and the parameters of the list of accounted jobs."""

    version: str
    jobs: str
    job: str
    nodes: str
    diag: str
    accounted: str
    history: str
    takes: frozenset[str]


_apis: dict[str, tuple[float, Api]] = {}


def offered(raw: bytes) -> Api:
    """The newest version in an OpenAPI description whose calls are all there. Raises SourceError."""
    try:
        paths = msgspec.json.decode(raw.decode("utf-8", "replace"), type=_Described).paths
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise SourceError(f"slurmrestd's description of itself cannot be read: {error}") from error
    # Some versions end a list's path with a slash, and want it.
    listed = {re.sub(r"\{\w+\}", "{}", path.rstrip("/")): path for path in paths}
    for version in KNOWN:
        wanted = {
            "jobs": f"/slurm/{version}/jobs",
            "job": f"/slurm/{version}/job/{{}}",
            "nodes": f"/slurm/{version}/nodes",
            "diag": f"/slurm/{version}/diag",
            "accounted": f"/slurmdb/{version}/jobs",
            "history": f"/slurmdb/{version}/job/{{}}",
        }
        if all(path in listed for path in wanted.values()):
            there = {name: re.sub(r"\{\w+\}", "{}", listed[path]) for name, path in wanted.items()}
            call = paths[listed[wanted["accounted"]]]
            told = call.get("get", {}).get("parameters", []) if isinstance(call, Mapping) else []
            takes = frozenset(str(each.get("name")) for each in told if isinstance(each, Mapping))
            return Api(version=version, takes=takes, **there)
    versions = sorted({match[0] for path in paths if (match := re.search(r"v0\.0\.[0-9]+", path))})
    have = ", ".join(versions) or "none"
    raise SourceError(
        f"slurmrestd offers {have}, of which none is known here with both the slurm and the slurmdb calls: "
        f"start it with one of {KNOWN[-1]} to {KNOWN[0]}"
    )


def identified(server: Server) -> Server:
    """The server with Slurm's own headers: slurmrestd takes a token with the name of its user, or in newer versions
    a bearer's, but no token beside its own header. Raises SourceError where the token cannot be read.
    """
    token = server.secret("token")
    if not token or server.auth_header != "Authorization":
        return server
    headers = dict(server.headers)
    if not any(name.lower() == "x-slurm-user-name" for name in headers) and (user := _user_of(token)):
        headers["X-SLURM-USER-NAME"] = user
    return msgspec.structs.replace(server, auth_header="X-SLURM-USER-TOKEN", headers=headers)


def _user_of(token: str) -> str:
    """The Slurm user that a token says it is of, "" where it does not say."""
    try:
        middle = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)), type=dict[str, Any])
    except (IndexError, binascii.Error, msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        return ""
    user = claims.get("sun", claims.get("username", ""))
    return user if isinstance(user, str) and user.isascii() and user.isprintable() else ""


@dataclass(frozen=True)
class Rest:
    """One slurmrestd."""

    server: Server

    def api(self, budget: Budget) -> Api:
        """What it offers, asked now and then. Raises SourceError."""
        key = f"{self.server.url} {self.server.socket}"
        known = _apis.get(key)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        try:
            raw = self._get("/openapi/v3", budget)
        except Refused as error:
            if error.status != 404:
                raise
            raw = self._get("/openapi", budget)
        api = offered(raw)
        _apis[key] = (time.monotonic() + REMEMBERED, api)
        return api

    def _get(self, path: str, budget: Budget, params: Mapping[str, str] | None = None) -> bytes:
        # It ends connections without a word after an answer, and answers with HTTP 500 what no other try makes better.
        alone = {"Connection": "close"}
        with stream(identified(self.server), path, budget, params=params, headers=alone, tries=1) as pieces:
            said = bytearray()
            for piece in pieces:
                said += piece
                if len(said) > LARGEST:
                    raise TooLong(f"{self.server.url}{path}: an answer of more than {LARGEST >> 20} MiB")
            return bytes(said)

    def _found(self, path: str, budget: Budget, params: Mapping[str, str] | None = None) -> bytes:
        """An answer; where there is nothing, which is an error in several versions, an empty one."""
        try:
            return self._get(path, budget, params)
        except Refused as error:
            if error.status == 404:
                # Another version since it was asked, or nothing there: ask again what it offers.
                _apis.pop(f"{self.server.url} {self.server.socket}", None)
            if re.search(r"Nothing found|Invalid job id|Unable to find JobId", error.said):
                return b"{}"
            raise

    # What is asked

    def jobs(self, budget: Budget) -> list[Job]:
        """All jobs that the controller has."""
        return slurm_json.controller_jobs(self._found(self.api(budget).jobs, budget))

    def job(self, name: str, budget: Budget) -> list[Job]:
        """What the controller has of one job: several records of an array or a heterogeneous job."""
        return slurm_json.controller_jobs(self._found(self.api(budget).job.format(_raw(name)), budget))

    def ended_since(self, begin: int, end: int, budget: Budget, *, cluster: str = "") -> list[Job]:
        """The jobs that ran in a window, by accounting: every submission, without steps where it can leave them out."""
        api = self.api(budget)
        params = {"start_time": f"uts{begin}", "end_time": f"uts{end}"}
        params |= {name: "true" for name in ("skip_steps", "show_duplicates") if name in api.takes}
        params |= {"cluster": cluster} if cluster and "cluster" in api.takes else {}
        return self._accounted(self._found(api.accounted, budget, params), api)

    def history(self, ids: Sequence[str], budget: Budget, *, cluster: str = "", steps: bool = False) -> list[Job]:
        """All submissions of jobs with their steps, by accounting."""
        api, found = self.api(budget), []
        for raw in dict.fromkeys(map(_raw, ids[:ONE_BY_ONE])):
            found += self._accounted(self._found(api.history.format(raw), budget), api)
        return [job for job in found if not cluster or job.cluster == cluster]

    def _accounted(self, raw: bytes, api: Api) -> list[Job]:
        return slurm_json.accounted_jobs(raw, trusted=api.version not in WRONG_EXIT_CODES)

    def nodes(self, names: Sequence[str], budget: Budget) -> list[NodeState]:
        """The controller's records of these nodes; of all where no names are given."""
        wanted = frozenset(names)
        found = slurm_json.nodes(self._found(self.api(budget).nodes, budget))
        return [node for node in found if not wanted or node.name in wanted]

    def partitions(self, budget: Budget) -> dict[str, frozenset[str]]:
        """The nodes of each partition: a partition's own record may name sets that only Slurm can expand."""
        if found := slurm_json.partitions(self._found(self.api(budget).nodes, budget)):
            return found
        raise SourceError("its records of nodes name no partitions")

    def version(self, budget: Budget) -> str:
        """Slurm's version and that of the API."""
        api = self.api(budget)
        return f"{slurm_json.version(self._get(api.diag, budget))} (API {api.version})"

    def clock(self, budget: Budget) -> int:
        """The controller's clock."""
        return slurm_json.controllers_clock(self._get(self.api(budget).diag, budget))


def _raw(name: str) -> str:
    """The number in a job's id: of a task of an array the array's."""
    return name.partition("_")[0]
