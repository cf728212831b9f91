"""Sending to a webhook: signed, to its own address alone, over in time, and what it answers is not read on and on."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import httpx2

from verdicts.collectors import wire
from verdicts.webhook import Webhook, signature

#: One request with the start of its answer, whole: a byte now and then puts nothing off.
SECONDS, CONNECT_SECONDS = 20.0, 5.0


@contextmanager
def asking(
    method: str, url: str, headers: Mapping[str, str], *, ca_file: str = "", **more: Any
) -> Iterator[httpx2.Response]:
    """The answer, of which only the headers were read; its body, too, is late when the time is over.

    Not where the answer leads, and by no proxy of the environment. Raises httpx2.HTTPError, and OSError where
    `ca_file` cannot be used.
    """
    client = wire.client(url, ca_file=ca_file, cert_file="", key_file="")
    now = time.monotonic()
    # No connection is kept for the next, and what was not asked for is not unpacked.
    told = {"Connection": "close", "Accept-Encoding": "identity", "User-Agent": "Inquest", **headers}
    timeout = wire.timeouts(now, now + SECONDS, CONNECT_SECONDS)
    with client.stream(method, url, headers=told, timeout=timeout, follow_redirects=False, **more) as answer:
        yield answer


def send(webhook: Webhook, name: UUID, sent_at: int, body: bytes) -> httpx2.Response:
    """Send JSON as Standard Webhooks has it; the status and the headers count. Raises httpx2.HTTPError."""
    headers = {
        "Content-Type": "application/json",
        "webhook-id": str(name),
        "webhook-timestamp": str(sent_at),
        "webhook-signature": signature(webhook.secret, name, sent_at, body),
    }
    with asking("POST", webhook.address, headers, content=body) as answer:
        return answer
