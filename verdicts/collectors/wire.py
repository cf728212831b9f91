"""Connections to a cluster's systems: timeouts that are moments, names that are looked up in time, a pool a server.

The client's own timeouts bound one wait each, so that a server that sends a byte now and then is never too late.
Here a timeout is a moment of `time.monotonic()`, which no answer can put off.
"""

import http.cookiejar
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any
from urllib.parse import urlencode

import httpcore2
import httpx2

#: Connections to one server at once; a server that hangs holds up nobody but those who ask it.
MAX_CONNECTIONS = 64
USER_AGENT = "inquest"


def _left(moment: float | None) -> float | None:
    """Seconds until a moment, never none: a socket with a timeout of zero does not wait at all."""
    return None if moment is None else max(0.001, moment - time.monotonic())


class _Connection(httpcore2.NetworkStream):
    """A connection whose timeouts are moments."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _Connection(self._inner.start_tls(ssl_context, server_hostname, _left(timeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore2.NetworkBackend):
    """Makes such connections, trying each address of a name with its share of the time."""

    def __init__(self) -> None:
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        found = _addresses(host, port, _left(timeout))
        refused: Exception = httpcore2.ConnectError(f"the name {host} has no address")
        for number, address in enumerate(found):
            left = _left(timeout)
            share = None if left is None else left / (len(found) - number)
            try:
                return _Connection(self._inner.connect_tcp(address, port, share, local_address, socket_options))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                refused = error
        raise refused

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        return _Connection(self._inner.connect_unix_socket(path, _left(timeout), socket_options))

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def _addresses(host: str, port: int, seconds: float | None) -> list[str]:
    """The addresses of a name. The resolver has no timeout that we could set, so that it is waited for only so long."""
    answer: list[list[str] | OSError] = []

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            answer.append(error if isinstance(error, OSError) else OSError(str(error)))
        else:
            answer.append(list(dict.fromkeys(str(row[4][0]) for row in rows)))

    thread = threading.Thread(target=ask, name=f"resolve {host}", daemon=True)
    thread.start()
    thread.join(seconds)
    if not answer:
        raise httpcore2.ConnectTimeout(f"the name {host} was not resolved in time")
    found = answer[0]
    if isinstance(found, OSError):
        raise httpcore2.ConnectError(f"the name {host} cannot be resolved: {found.strerror or found}") from found
    return found


class _Transport(httpx2.HTTPTransport):
    """The client's transport over such connections."""

    def __init__(self, context: ssl.SSLContext, unix_socket: str) -> None:
        self._pool = httpcore2.ConnectionPool(
            uds=unix_socket or None,
            ssl_context=context,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=32,
            keepalive_expiry=30,
            network_backend=_Backend(),
        )


@cache
def _context(ca_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    """Whom to trust and who we are. Raises OSError where a file cannot be used."""
    context = ssl.create_default_context(cafile=ca_file) if ca_file else httpx2.create_ssl_context(trust_env=False)
    if cert_file:
        context.load_cert_chain(cert_file, key_file or None)
    return context


@lru_cache(maxsize=1024)
def _origin(url: str) -> str:
    """The server in an address."""
    parts = httpx2.URL(url)
    return f"{parts.scheme}://{parts.netloc.decode()}"


_clients: dict[tuple[str, ...], httpx2.Client] = {}
_making = threading.Lock()


def client(url: str, *, ca_file: str, cert_file: str, key_file: str, unix_socket: str = "") -> httpx2.Client:
    """The process's pool of connections to one server. Raises OSError where a certificate's file cannot be used."""
    # A process that was forked off has connections of its own.
    key = (_origin(url), str(os.getpid()), ca_file, cert_file, key_file, unix_socket)
    with _making:
        if key not in _clients:
            # Nobody's session goes on in the next request.
            cookies = http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
            transport = _Transport(_context(ca_file, cert_file, key_file), unix_socket)
            told = {"User-Agent": USER_AGENT}
            _clients[key] = httpx2.Client(transport=transport, trust_env=False, cookies=cookies, headers=told)
        return _clients[key]


def timeouts(now: float, until: float, connect: float) -> httpx2.Timeout:
    """An answer must be whole by the moment `until`; connecting may take `connect` seconds of that."""
    return httpx2.Timeout(read=until, write=until, connect=min(until, now + connect), pool=max(0.001, until - now))


@lru_cache(maxsize=1024)
def address(where: str) -> httpx2.URL:
    """An address, taken apart once: page after page is asked of the same. Raises httpx2.InvalidURL."""
    return httpx2.URL(where)


def asking(address: httpx2.URL, params: Mapping[str, str | int | float]) -> dict[str, bytes]:
    """What stands in a request's first line: as a part of the address a long query would be looked over again and
    again, letter by letter."""
    return {"target": address.raw_path.partition(b"?")[0] + b"?" + urlencode(params).encode("ascii")}
