"""Decoding JSON in which a log line was written down as it is: one bad line must not hide all others.

Stores give back what was sent to them: bytes that are no UTF-8, halves of surrogate pairs, control characters. By the
letter that makes the whole answer no JSON. What cannot stand there is replaced, and only where decoding has failed.
"""

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

_REPLACED = "\ufffd"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
#: A backslash that stands for itself, a whole pair of surrogates, or half of one.
_ESCAPED = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def mended(raw: bytes) -> bytes:
    """The same with what cannot stand in JSON replaced."""
    text = _CONTROL.sub(_REPLACED, raw.decode("utf-8", "replace"))
    return _ESCAPED.sub(lambda found: _REPLACED if found["half"] else found[0], text).encode()


def decode(raw: bytes | bytearray, kind: type[T]) -> T:
    """Decode, mending what has to be. Raises msgspec.DecodeError, msgspec.ValidationError, RecursionError."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        whole = mended(bytes(raw))
        if whole == raw:
            raise
        return msgspec.json.decode(whole, type=kind)
