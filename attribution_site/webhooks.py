"""The webhooks that the environment names: nobody else's address is ever called."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from verdicts.webhook import Webhook

LEAST_SECRET = 24


def read(env: environ.Env) -> dict[str, Webhook]:
    """INQUEST_WEBHOOKS (name=address) with INQUEST_WEBHOOK_SECRETS or its _FILE (name=whsec_…, one a line)."""
    addresses: dict[str, str] = env.dict("INQUEST_WEBHOOKS", default={})
    secrets: dict[str, str] = env.dict("INQUEST_WEBHOOK_SECRETS", default={})
    if path := env.str("INQUEST_WEBHOOK_SECRETS_FILE", default=""):
        try:
            lines = Path(path).read_text(encoding="utf-8").split()
        except OSError as error:
            raise ImproperlyConfigured(f"INQUEST_WEBHOOK_SECRETS_FILE cannot be read: {error}") from error
        secrets |= {name: secret for name, _, secret in (line.partition("=") for line in lines)}
    return {name: _webhook(name, address, secrets.get(name, "")) for name, address in addresses.items()}


def _webhook(name: str, address: str, secret: str) -> Webhook:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ImproperlyConfigured(f"INQUEST_WEBHOOKS: {name}: give an http or https address without a name in it")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error as error:
        raise ImproperlyConfigured(f"INQUEST_WEBHOOK_SECRETS: {name}: whsec_ and base64") from error
    if len(key) < LEAST_SECRET:
        raise ImproperlyConfigured(f"INQUEST_WEBHOOK_SECRETS: {name}: {LEAST_SECRET} random bytes or more, as base64")
    return Webhook(address, key)
