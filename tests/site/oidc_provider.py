"""An OpenID Connect provider on the loopback: the code flow with PKCE, signed tokens, and ways to go wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "inquest", "known to the provider"


class Provider:
    """What it knows, and what it was asked. Change `person`, or one of the ways to go wrong, from a test."""

    def __init__(self) -> None:
        self.issuer = ""
        self.redirect_uris: set[str] = set()
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.person: dict[str, Any] = {
            "sub": "u-1",
            "preferred_username": "grace",
            "name": "Grace Hopper",
            "email": "grace@example.org",
            "email_verified": True,
            "groups": ["sre"],
        }
        self.only_in_info: set[str] = set()
        self.token_changes: dict[str, Any] = {}
        self.signing: dict[str, Any] = {}
        self.leave_out: set[str] = set()
        self.info_sub = ""
        self.asked: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._tokens: set[str] = set()

    def discovery(self) -> dict[str, Any]:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        }
        return {name: value for name, value in found.items() if name not in self.leave_out}

    def keys(self) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [public | {"kid": "k1", "use": "sig", "alg": "RS256"}]}

    def authorize(self, said: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        """Where a person is sent: here always the same one, who always agrees."""
        if said.get("client_id") != CLIENT or said.get("redirect_uri") not in self.redirect_uris:
            return 400, {}, {"error": "invalid_request"}
        if said.get("response_type") != "code" or said.get("code_challenge_method") != "S256":
            return 400, {}, {"error": "invalid_request", "error_description": "PKCE is required"}
        code = secrets.token_urlsafe(16)
        self._codes[code] = said
        back = {"code": code, "state": said["state"]}
        return 302, {"Location": f"{said['redirect_uri']}?{urlencode(back)}"}, {}

    def token(self, said: dict[str, str], authorization: str) -> tuple[int, dict[str, str], Any]:
        if authorization.startswith("Basic "):
            client, _, secret = base64.b64decode(authorization[6:]).decode().partition(":")
        else:
            client, secret = said.get("client_id", ""), said.get("client_secret", "")
        if (client, secret) != (CLIENT, SECRET):
            return 401, {}, {"error": "invalid_client"}
        asked = self._codes.pop(said.get("code", ""), None)
        if asked is None or asked["redirect_uri"] != said.get("redirect_uri"):
            return 400, {}, {"error": "invalid_grant"}
        digest = hashlib.sha256(said.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return 400, {}, {"error": "invalid_grant", "error_description": "the verifier does not fit"}
        access = secrets.token_urlsafe(16)
        self._tokens.add(access)
        answer: dict[str, Any] = {"access_token": access, "token_type": "Bearer", "expires_in": 300}
        if "id_token" not in self.leave_out:
            answer["id_token"] = self.signed(asked.get("nonce", ""))
        return 200, {}, answer

    def signed(self, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 60, "nonce": nonce}
        claims |= {name: value for name, value in self.person.items() if name not in self.only_in_info}
        claims |= self.token_changes
        signing = {"key": self.key, "algorithm": "RS256", "headers": {"kid": "k1"}} | self.signing
        return jwt.encode({name: value for name, value in claims.items() if value is not None}, **signing)

    def userinfo(self, authorization: str) -> tuple[int, dict[str, str], Any]:
        if authorization.removeprefix("Bearer ") not in self._tokens:
            return 401, {}, {}
        return 200, {}, self.person | ({"sub": self.info_sub} if self.info_sub else {})


@contextmanager
def a_provider() -> Iterator[Provider]:
    """A provider that answers while the block runs."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _answer(self, body: str) -> None:
            parts = urlsplit(self.path)
            said = {name: values[0] for name, values in parse_qs(body or parts.query).items()}
            provider.asked.append(parts.path)
            status, headers, data = self._route(parts.path, said)
            content = json.dumps(data).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _route(self, path: str, said: dict[str, str]) -> tuple[int, dict[str, str], Any]:
            authorization = self.headers.get("Authorization", "")
            if path == "/.well-known/openid-configuration":
                return 200, {}, provider.discovery()
            if path == "/keys":
                return 200, {}, provider.keys()
            if path == "/authorize":
                return provider.authorize(said)
            if path == "/token":
                return provider.token(said, authorization)
            if path == "/userinfo":
                return provider.userinfo(authorization)
            return 404, {}, {}

        def log_message(self, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
