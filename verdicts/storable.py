"""Making input fit for PostgreSQL's text and jsonb, without hiding what it was."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from rules.attempt import InputError
from rules.stamp import offset_micros, parse_stamp

# PostgreSQL refuses NUL in text; a lone surrogate has no UTF-8. Logs have both after a crash.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
#: In JSON these are the only ways to write either: bytes have no lone surrogates.
_UNSTORABLE_JSON = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

T = TypeVar("T")


def storable_text(text: str) -> str:
    """The text with NUL and lone surrogates as visible escapes: `\\x00`, `\\udc80`."""
    if _UNSTORABLE.search(text) is None:
        return text
    return _UNSTORABLE.sub(_escape, text)


def storable(value: Any) -> Any:
    """Plain data with every text in it, keys too, made storable."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {storable_text(key): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value


def storable_json(raw: bytes) -> Any:
    """What a JSON text says, made storable; most say nothing that has to be."""
    value = msgspec.json.decode(raw)
    return value if _UNSTORABLE_JSON.search(raw) is None else storable(value)


def storable_struct(given: T) -> T:
    """The same with storable texts, checked again: an escape is longer than what it stands for. Raises InputError."""
    try:
        return msgspec.convert(storable(msgspec.to_builtins(given)), type(given))
    except msgspec.ValidationError as error:
        message, _, field = str(error).partition(" - at `$")
        raise InputError(f"{field.strip('.`')}: {message} (with its control characters spelled out)") from error


def moment(text: str | None, utc_offset: str = "") -> datetime | None:
    """A stamp of an attempt as a time for keys, filters and sorting.

    A stamp without a zone is read in `utc_offset`, else as UTC: the attempt's body keeps it as it was given.
    """
    stamp = parse_stamp(text) if text else None
    if stamp is None or stamp.clock not in ("utc", "local"):
        return None
    micros = stamp.micros - (offset_micros(utc_offset) if stamp.clock == "local" and utc_offset else 0)
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\\x00" if code == 0 else f"\\u{code:04x}"
