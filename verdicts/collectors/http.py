"""HTTP to the systems of a cluster: one pool of connections, a budget for each answer, retries where they are safe.

Addresses come from the configuration alone. Redirects are not followed: they could lead anywhere.
"""

import base64
import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Annotated, TypeVar

import httpx2
import msgspec

from rules.redact import redact
from verdicts.collectors.ask import Budget, SourceError, Unreachable

T = TypeVar("T")
Params = Mapping[str, str | int | float]

#: Answers that may be better a moment later. Only requests that change nothing are made here.
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
TRIES = 3
CONNECT_SECONDS = 5.0
#: Of an answer that is an error so many bytes are read, and so many characters shown.
MAX_ERROR, SHOWN_ERROR = 8_192, 300


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a server is and how we are known there. Secrets are in files or environment variables, never here."""

    url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")]
    token_file: str = ""
    token_env: str = ""
    user: str = ""
    password_file: str = ""
    password_env: str = ""
    headers: dict[str, str] = {}
    ca_file: str = ""

    def secret(self, which: str) -> str:
        """The `token` or `password`, "" where none is configured. Raises SourceError when it cannot be read."""
        if name := getattr(self, f"{which}_env"):
            if not (value := os.environ.get(name, "").strip()):
                raise SourceError(f"{which}_env: the environment variable {name} is not set")
            return value
        if path := getattr(self, f"{which}_file"):
            try:
                return Path(path).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise SourceError(f"{which}_file: {path} cannot be read: {error}") from error
        return ""

    def credentials(self) -> dict[str, str]:
        """The headers that say who we are. Raises SourceError."""
        headers = dict(self.headers)
        if token := self.secret("token"):
            headers["Authorization"] = f"Bearer {token}"
        elif self.user:
            pair = f"{self.user}:{self.secret('password')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers


@cache
def _client(ca_file: str) -> httpx2.Client:
    """The process's pool of connections, one for each set of trusted authorities."""
    verify = httpx2.create_ssl_context(verify=ca_file) if ca_file else True
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=30)
    return httpx2.Client(verify=verify, limits=limits, trust_env=False, headers={"User-Agent": "inquest"})


@contextmanager
def stream(
    server: Server,
    path: str,
    budget: Budget,
    *,
    params: Params | None = None,
    json: object = None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Iterator[Iterator[bytes]]:
    """The answer's body in pieces, as they come, within the budget.

    Tried again when the server cannot be reached or says that it is overloaded; not after the first piece.
    Raises Unreachable, BudgetSpent, and SourceError with the server's own words for any other refusal.
    """
    response = _response(server, path, budget, params=params, json=json, form=form, headers=headers)
    try:
        yield _pieces(response, budget)
    finally:
        response.close()


def get_json(
    server: Server,
    path: str,
    budget: Budget,
    answer: type[T],
    *,
    params: Params | None = None,
    json: object = None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> T:
    """The whole answer, decoded. A body (`json`, `form`) makes it a POST. Raises SourceError as `stream` does."""
    with stream(server, path, budget, params=params, json=json, form=form, headers=headers) as pieces:
        raw = b"".join(pieces)
    try:
        return msgspec.json.decode(raw, type=answer)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise SourceError(f"{server.url}{path}: the answer is not what was expected: {error}") from error


def clock(server: Server, path: str, budget: Budget) -> datetime | None:
    """The other side's clock, to the second, by the Date header of an answer. Raises SourceError."""
    response = _response(server, path, budget, params=None, json=None, form=None, headers=None)
    response.close()
    try:
        return parsedate_to_datetime(response.headers.get("date", "")).astimezone(UTC)
    except (ValueError, TypeError):
        return None


def _response(
    server: Server,
    path: str,
    budget: Budget,
    *,
    params: Params | None,
    json: object,
    form: Mapping[str, str] | None,
    headers: Mapping[str, str] | None,
) -> httpx2.Response:
    client = _client(server.ca_file)
    sent = {**server.credentials(), **(headers or {})}
    for tried in range(1, TRIES + 1):
        left = budget.left()
        request = client.build_request(
            "GET" if json is None and form is None else "POST",
            server.url.rstrip("/") + path,
            params=dict(params) if params else None,
            json=json,
            data=dict(form) if form else None,
            headers=sent,
            timeout=httpx2.Timeout(left, connect=min(left, CONNECT_SECONDS), pool=left),
        )
        try:
            response = client.send(request, stream=True)
        except httpx2.TimeoutException as error:
            # The whole budget went into waiting for one answer, or it could not even be connected to.
            if isinstance(error, httpx2.ConnectTimeout) and tried < TRIES and budget.left() > CONNECT_SECONDS:
                continue
            raise Unreachable(f"{server.url}: no answer within {min(left, budget.seconds):.0f} s") from error
        except httpx2.TransportError as error:
            if tried < TRIES:
                _pause(tried, budget)
                continue
            raise Unreachable(f"{server.url}: {error or type(error).__name__}") from error
        if response.status_code in RETRIED and tried < TRIES:
            after = response.headers.get("retry-after", "")
            response.close()
            _pause(tried, budget, after)
            continue
        if not response.is_success:
            raise _refused(server, path, response, budget)
        return response
    raise AssertionError("unreachable: the last try returns or raises")


def _pieces(response: httpx2.Response, budget: Budget) -> Iterator[bytes]:
    try:
        for piece in response.iter_bytes(1 << 16):
            budget.take(len(piece))
            yield piece
    except httpx2.TimeoutException as error:
        raise Unreachable(f"{response.url.host}: stopped answering in the middle of an answer") from error
    except httpx2.DecodingError as error:
        raise SourceError(f"{response.url.host}: the packed answer is damaged: {error}") from error
    except httpx2.TransportError as error:
        raise Unreachable(f"{response.url.host}: the answer was cut off: {error or type(error).__name__}") from error


def _refused(server: Server, path: str, response: httpx2.Response, budget: Budget) -> SourceError:
    """What a server said instead of an answer."""
    said = b""
    try:
        for piece in response.iter_bytes(1024):
            said += piece
            budget.left()
            if len(said) >= MAX_ERROR:
                break
    except httpx2.TransportError:
        said += b" (cut off)"
    finally:
        response.close()
    words = redact(" ".join(said.decode("utf-8", "replace").split()))[:SHOWN_ERROR]
    what = {401: "not let in: is the token right?", 403: "not allowed", 404: "not there: is the address right?"}
    hint = what.get(response.status_code, "redirects are not followed" if response.is_redirect else "")
    told = ": ".join(part for part in (hint, words) if part)
    kind = Unreachable if response.status_code in RETRIED else SourceError
    return kind(f"{server.url}{path}: HTTP {response.status_code}" + (f": {told}" if told else ""))


def _pause(tried: int, budget: Budget, after: str = "") -> None:
    """Wait before another try: as long as the server asks for, else longer each time, never beyond the budget."""
    wanted = float(after) if after.isdigit() else 0.2 * 2**tried
    wanted *= 1 + random.random() / 2
    if wanted >= budget.left():
        raise Unreachable(f"asked to wait {wanted:.0f} s, which is longer than the {budget.seconds:g} s it has")
    time.sleep(wanted)
