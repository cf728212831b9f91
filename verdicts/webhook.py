"""A webhook of the settings, and the signature of what is sent to it."""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True)
class Webhook:
    """An address of the settings, with the secret that signs what is sent there."""

    address: str = field(repr=False)
    secret: bytes = field(repr=False)


def signature(secret: bytes, name: UUID, sent_at: int, body: bytes) -> str:
    """The signature of Standard Webhooks: HMAC-SHA-256 over name, time and body."""
    signed = hmac.new(secret, f"{name}.{sent_at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"
