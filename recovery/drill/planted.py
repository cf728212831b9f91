"""Secrets that a drill plants into evidence, made up anew each time, and how they are looked for. Pure.

They have the shapes that logs really carry; none is anybody's. They are put together here, so that no scanner takes
this file for a leak.
"""

import base64
import html
import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from string import ascii_letters, ascii_uppercase, digits

_TEXT = ascii_letters + digits
#: Of a secret that is longer than this, its beginning and its end are looked for as well: a cut one is one too.
LONG, PART = 30, 20


@dataclass(frozen=True)
class Planted:
    """A secret, and the line that carries it."""

    kind: str
    secret: str = field(repr=False)
    line: str = field(repr=False)

    @property
    def parts(self) -> frozenset[bytes]:
        """What must not be found, as it can be spelled in plain text, JSON, a page and Base64."""
        pieces = {self.secret}
        if len(self.secret) > LONG:
            pieces |= {self.secret[:PART], self.secret[-PART:]}
        spelled = {form for piece in pieces for form in (piece, json.dumps(piece)[1:-1], html.escape(piece))}
        packed = base64.b64encode(self.secret.encode()).rstrip(b"=")[: 4 * (len(self.secret) // 3)]
        return frozenset(form.encode() for form in spelled) | {packed}


def _some(length: int, alphabet: str = _TEXT) -> str:
    """A text that looks made up: with a digit and letters of both cases where the alphabet has them."""
    kinds = [kind for kind in (str.isdigit, str.islower, str.isupper) if any(map(kind, alphabet))]
    while True:
        text = "".join(secrets.choice(alphabet) for _ in range(length))
        if all(any(map(kind, text)) for kind in kinds):
            return text


def _base64(size: int) -> str:
    return base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=").replace("/", "a").replace("+", "b")


def plant(*, emails: bool) -> list[Planted]:
    """One of each kind; addresses of mail only where the site takes them out."""
    made = [
        ("AWS key", "AK" + "IA" + _some(16, ascii_uppercase + "234567"), "using AWS_ACCESS_KEY_ID={} from env"),
        ("AWS secret", _base64(30), "export AWS_SECRET_ACCESS_KEY={}"),
        ("bearer token", _some(43), "curl -sH 'Authorization: Bearer {}' https://api.example.org"),
        ("password of a database", _some(16), "postgresql://trainer:{}@db.example.org:5432/runs refused"),
        ("Hugging Face token", "h" + "f_" + _some(34), "401 for token {}"),
        ("GitHub token", "gh" + "p_" + _some(36), "remote: Invalid credentials {}"),
        ("Weights & Biases key", secrets.token_hex(20), "WANDB_API_KEY={}"),
        ("JSON web token", ".".join(("eyJ" + _some(33), "eyJ" + _some(120), _some(43))), "token rejected {}"),
        ("password option", _some(14), "train.py --registry-password {} --steps 10"),
        ("cookie", "sessionid=" + _some(32), "> Cookie: {}"),
        ("token of this program", "in" + "q_" + secrets.token_hex(32), "401 from https://inquest.example.org with {}"),
        ("signed address", secrets.token_hex(32), "GET https://b.s3.example.org/k?X-Amz-Signature={} 403"),
    ]
    if emails:
        made.append(("e-mail address", f"{_some(10).lower()}" + "@" + "example.org", "sbatch: mail to {} failed"))
    return [Planted(kind, secret, line.replace("{}", secret)) for kind, secret, line in made]


def found(blocks: Iterable[bytes], planted: Iterable[Planted]) -> Iterator[str]:
    """The kinds of which something is in a file that comes in pieces: also across the border of two."""
    wanted = {part: one.kind for one in planted for part in one.parts}
    longest = max(map(len, wanted), default=1)
    tail = b""
    for block in blocks:
        text = tail + block
        for part in [part for part in wanted if part in text]:
            yield wanted.pop(part)
        tail = text[-(longest - 1) :] if longest > 1 else b""
