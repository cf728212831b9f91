"""Reading a TOML file of settings: what is wrong is named by file, key, and the named table that it is in."""

import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def read_settings(
    path: Path,
    shape: type[T],
    *,
    wrong: Callable[[str], Exception],
    problems: Callable[[T], Iterable[str]],
    kinds: Callable[[str], Iterable[str]],
) -> T:
    """The file as `shape`. Raises what `wrong` makes of a message.

    `problems` says what the types cannot see, each with its key; `kinds` the words that `kind` may be below a key.
    """
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise wrong(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise wrong(f"{path}: {error}") from error
    try:
        read = msgspec.convert(plain, shape)
    except msgspec.ValidationError as error:
        raise wrong(f"{path}: {_place(str(error), plain, kinds)}") from error
    for problem in problems(read):
        raise wrong(f"{path}: {problem}")
    return read


def twice(what: str, names: list[str]) -> Iterator[str]:
    """The problem of each name that is there more than once."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{what}: the name {name!r} is there twice"


def _place(message: str, plain: dict[str, Any], kinds: Callable[[str], Iterable[str]]) -> str:
    """msgspec's message with its path as the file's keys, and the names of the tables that it is in."""
    said, _, path = message.partition(" - at `$")
    keys = path.rstrip("`").lstrip(".")
    names, value = [], plain
    for key in keys.replace("[", ".[").split("."):
        try:
            value = value[int(key[1:-1])] if key.startswith("[") else value[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError, ValueError):
            break
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            names.append(value["name"])
    where = f" (in {' / '.join(names)})" if names else ""
    if keys.endswith(".kind") or "missing required field `kind`" in said:
        said += f"; a kind is one of {', '.join(kinds(keys))}"
    return f"{keys or 'the file'}{where}: {said}"
