"""Where a server is and how we are known there; what of that no message may show."""

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from rules.redact import redact
from verdicts.collectors.ask import SourceError

#: A header with such a name holds a secret.
_SECRET_HEADER = re.compile(r"auth|token|secret|key|cookie|password", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a server is and how we are known there. Secrets are in files or environment variables, never here.

    The token goes into `auth_header` as "`auth_scheme` TOKEN"; in any other header than Authorization it stands
    alone. `cert_file` and `key_file` are a client's certificate.
    """

    url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")]
    token_file: str = ""
    token_env: str = ""
    auth_scheme: str = "Bearer"
    auth_header: str = "Authorization"
    user: str = ""
    password_file: str = ""
    password_env: str = ""
    headers: dict[str, str] = {}
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    #: The path of a unix socket to speak through; the host in `url` is then only a name.
    socket: str = ""

    def __post_init__(self) -> None:
        for name, value in {**self.headers, self.auth_header: self.auth_scheme}.items():
            if not _HEADER_NAME.fullmatch(name) or not value.isascii() or not value.isprintable():
                raise ValueError(f"headers: {name!r} is no name of a header or its value is no plain text")

    def check(self) -> None:
        """What the types cannot. Raises ValueError naming the key."""
        for key in ("token_file", "password_file", "ca_file", "cert_file", "key_file"):
            if (path := getattr(self, key)) and not os.access(path, os.R_OK):
                raise ValueError(f"server.{key}: {path} cannot be read")
        if self.socket and not os.access(self.socket, os.W_OK):
            raise ValueError(f"server.socket: {self.socket} is not there or may not be written to")
        for key in ("token", "password"):
            if getattr(self, f"{key}_file") and getattr(self, f"{key}_env"):
                raise ValueError(f"server.{key}_file and server.{key}_env: only one of them")
        if self.user and (self.token_file or self.token_env):
            raise ValueError("server.user: a token is given too; only one of them")

    def secret(self, which: str) -> str:
        """The `token` or `password`, "" where none is configured. Raises SourceError when it cannot be used."""
        if name := getattr(self, f"{which}_env"):
            where = f"{which}_env: the environment variable {name}"
            if not (value := os.environ.get(name, "").strip()):
                raise SourceError(f"{where} is not set")
        elif path := getattr(self, f"{which}_file"):
            where = f"{which}_file: {path}"
            try:
                value = Path(path).read_text(encoding="utf-8").strip()
            except UnicodeDecodeError as error:
                raise SourceError(f"{where} is no text") from error
            except OSError as error:
                raise SourceError(f"{where} cannot be read: {error.strerror}") from error
            if not value:
                raise SourceError(f"{where} is empty")
        else:
            return ""
        if which == "token" and not (value.isascii() and value.isprintable() and " " not in value):
            raise SourceError(f"{where} holds more than a token: blanks, several lines or other characters")
        return value

    def credentials(self) -> dict[str, str]:
        """The headers that say who we are. Raises SourceError."""
        headers = dict(self.headers)
        if token := self.secret("token"):
            plain = self.auth_header.lower() != "authorization" or not self.auth_scheme
            headers[self.auth_header] = token if plain else f"{self.auth_scheme} {token}"
        elif self.user:
            pair = f"{self.user}:{self.secret('password')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers


def secrets_in(server: Server, headers: Mapping[str, str]) -> tuple[str, ...]:
    """What of a request's headers is secret, the longest first. Raises SourceError."""
    found = {server.secret("password")} if server.user else set()
    for name, value in headers.items():
        if _SECRET_HEADER.search(name):
            found |= {value, value.rpartition(" ")[2]}
    return tuple(sorted((secret for secret in found if len(secret) > 3), key=len, reverse=True))


def without(secrets: tuple[str, ...], text: str) -> str:
    """What a server or a library said, with these secrets and whatever looks like one taken out."""
    for secret in secrets:
        text = text.replace(secret, "[redacted: credentials]")
    return redact(text)
