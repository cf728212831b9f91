"""Making input fit for PostgreSQL's text and jsonb, without hiding what it was."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from rules.stamp import offset_micros, parse_stamp

# PostgreSQL refuses NUL in text; a lone surrogate has no UTF-8. Logs have both after a crash.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
