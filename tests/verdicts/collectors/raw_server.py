"""A loopback server that says byte for byte what a test wants, as no well-behaved server can."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from verdicts.collectors.http import Server

Answer = Callable[[socket.socket, bytes], None]


@dataclass
class RawServer:
    """Where it listens, what it was asked, and a way to say that whoever still hangs may go."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def server(self, **settings: object) -> Server:
        return Server(url=self.url, **settings)  # type: ignore[arg-type]


def _request(connection: socket.socket) -> bytes:
    """One request's head and body; b"" when the other side has gone."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def raw_server(*answers: Answer) -> Iterator[RawServer]:
    """Answer the first request with the first, and so on; the last answer is given from then on.

    Each connection is closed after its answer.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        raw = RawServer(listener.getsockname()[1])

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                if request := _request(connection):
                    raw.requests.append(request)
                    answers[min(len(raw.requests), len(answers)) - 1](connection, request)

        def listen() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield raw
        finally:
            raw.over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def says(head: str, body: bytes = b"") -> Answer:
    """An answer of these headers (the status line first) and this body, whatever they promise."""

    def answer(connection: socket.socket, request: bytes) -> None:
        connection.sendall(head.strip().replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)

    return answer


def ok(body: bytes, *headers: str) -> Answer:
    """A good answer."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close"]
    return says("\n".join([*lines, *headers]), body)


def status(code: int, body: bytes = b"", *headers: str) -> Answer:
    """Another answer than a good one."""
    return says("\n".join([f"HTTP/1.1 {code} So", f"Content-Length: {len(body)}", "Connection: close", *headers]), body)
