"""Asking the site as a stranger would: over HTTP at its own address, with a token or without. Nothing is followed.

The address is the setting's, or one that whoever runs the command on this machine gives; none comes from a page or the
API.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import BinaryIO
from urllib.parse import urlsplit

import httpx2

from verdicts.collectors import wire

#: One answer may take so long, from the connection to its last byte.
SECONDS = 120.0
CONNECT_SECONDS = 5.0
#: A record is at most 2 GiB; of any other answer so much is read.
MOST, MOST_OTHER = 2 << 30, 64 << 10
_SPOOL = 8 << 20


class NotAsked(Exception):
    """The site could not be asked; the message says why and what to do."""


@dataclass(frozen=True)
class Answer:
    """What came: the body is held while the answer is used."""

    status: int
    kind: str
    body: BinaryIO
    size: int
    sha256: str
    seconds: float

    @property
    def is_zip(self) -> bool:
        """Whether a file came that could be a record."""
        self.body.seek(0)
        return self.body.read(4) == b"PK\3\4"


@dataclass(frozen=True)
class Site:
    """The site by its address; `ca_file` says who may have signed its certificate, else the system's do."""

    address: str
    ca_file: str = ""

    def checked(self) -> "Site":
        """The same. Raises NotAsked where the address is none that can be asked."""
        if not self.address:
            raise NotAsked("no address is set: INQUEST_DRILL_URL, or INQUEST_PUBLIC_URL, says where the site is")
        try:
            parts = urlsplit(self.address)
        except ValueError as error:
            raise NotAsked(f"{self.address!r} is no address: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username is not None:
            raise NotAsked(f"{self.address!r} is no address of a site such as https://inquest.example.org")
        return self

    @contextmanager
    def get(self, path: str, token: str = "", *, method: str = "GET") -> Iterator[Answer]:
        """Ask for a path below /api/v1/. Raises NotAsked where no whole answer came."""
        url = self.checked().address.rstrip("/") + "/api/v1/" + path
        # A drill asks a few times in a week: no connection is kept for the next.
        headers = {"User-Agent": "Inquest drill", "Connection": "close"} | (
            {"Authorization": f"Token {token}"} if token else {}
        )
        began = time.monotonic()
        with tempfile.SpooledTemporaryFile(_SPOOL) as body:
            try:
                # The process's own connections: by no proxy and no credentials of the environment.
                client = wire.client(self.address, ca_file=self.ca_file, cert_file="", key_file="")
                timeout = wire.timeouts(began, began + SECONDS, CONNECT_SECONDS)
                with client.stream(method, url, headers=headers, timeout=timeout, follow_redirects=False) as response:
                    size, digest = _kept(response, body, began + SECONDS)  # type: ignore[arg-type]
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
                said = str(error) or type(error).__name__
                raise NotAsked(f"{self.address} does not answer: {said[:300]}") from error
            kind = response.headers.get("Content-Type", "").partition(";")[0]
            if 300 <= response.status_code < 400:
                raise NotAsked(f"{self.address} leads elsewhere ({response.status_code}): set the address it leads to")
            body.seek(0)
            seconds = time.monotonic() - began
            yield Answer(response.status_code, kind, body, size, digest, seconds)  # type: ignore[arg-type]


def _kept(response: httpx2.Response, body: BinaryIO, deadline: float) -> tuple[int, str]:
    """Keep the answer's body; how large it is, and its digest. Raises NotAsked."""
    most = MOST if response.status_code == 200 else MOST_OTHER
    size, digest = 0, sha256()
    for block in response.iter_bytes(1 << 16):
        size += len(block)
        if size > most:
            raise NotAsked(f"the answer is larger than {most:,} bytes")
        if time.monotonic() > deadline:
            raise NotAsked(f"the answer took longer than {SECONDS:g} s")
        digest.update(block)
        body.write(block)
    return size, digest.hexdigest()
