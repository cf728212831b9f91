"""A site's own shapes of secrets, as a TOML file: `[[pattern]]` with `kind` and `match`."""

import re
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from rules import scan
from rules.redact import Extra
from rules.rule import line_of, pattern_problem

#: A kind stands in the mark, before the tag: it must not end like one.
KIND = r"^[A-Za-z][A-Za-z0-9 &+_-]{0,39}$"
_LIKE_A_TAG = re.compile(r"(?:^| )[0-9a-f]{6}$")


class RedactionError(ValueError):
    """A file that cannot be used; the message starts with file, line and key."""


class _Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Annotated[str, msgspec.Meta(pattern=KIND)]
    match: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: list[_Pattern] = []


def read_redaction_file(path: Path) -> tuple[Extra, ...]:
    """The patterns of a file, each known to work in linear time. Raises RedactionError, OSError."""
    raw = path.read_bytes()
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RedactionError(f"{path}:1: not UTF-8: {error}") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise RedactionError(f"{path}:{line[1] if line else 1}: {error}") from error
    try:
        given = msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        said, _, key = str(error).partition(" - at `$.")
        key = key.rstrip("`")
        raise RedactionError(f"{path}:{line_of(raw, key, str(error))}: {f'{key}: ' if key else ''}{said}") from error
    for number, one in enumerate(given.pattern):
        if _LIKE_A_TAG.search(one.kind):
            where = line_of(raw, "", one.kind)
            raise RedactionError(f"{path}:{where}: pattern[{number}].kind: {one.kind!r} ends like the tag of a secret")
        if problem := pattern_problem(one.match) or _refusal(one.match):
            raise RedactionError(f"{path}:{line_of(raw, '', one.match)}: pattern[{number}].match: {problem}")
    return tuple(Extra(one.kind, one.match) for one in given.pattern)


def _refusal(pattern: str) -> str:
    """Why the automaton does not take a pattern, or ""."""
    try:
        scan.spanning(pattern)
    except ValueError as error:
        return str(error)
    return ""
