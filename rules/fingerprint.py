"""Templates of lines that no rule knows: what varies is masked, what stays is the fingerprint."""

import re

from rules.redact import untagged

_MASKS = [
    (re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"), "<uuid>"),
    (re.compile(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b"), "<pci>"),
    (re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b(?::\d+)?"), "<ip>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<hex>"),
    (re.compile(r"(?:/[\w.@+=-]+){2,}/?"), "<path>"),
    (re.compile(r"'[^'\n]{1,200}'"), "'<text>'"),
    (re.compile(r'"[^"\n]{1,200}"'), '"<text>"'),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"), "<hex>"),
    (re.compile(r"\d+"), "<num>"),
]
MAX_TEMPLATE = 300


def template(message: str) -> str:
    """The message with addresses, paths, quoted texts and numbers masked; stable across runs and versions."""
    text = untagged(message[: MAX_TEMPLATE * 3])
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return " ".join(text.split())[:MAX_TEMPLATE]
