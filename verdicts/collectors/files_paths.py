"""Which files belong to an attempt: patterns with placeholders, and the files that match them.

What stands for a placeholder comes from the attempt and is anybody's text: it means itself, never a wildcard, and
names one part of a path, never two.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from rules.attempt import Attempt
from verdicts.collectors.files_guard import MAX_ENTRIES, Entry, Guard, hint
from verdicts.collectors.labels import Nodes

PLACEHOLDERS = ("node", "rank", "job_id", "job_name", "user", "restart", "cluster")
#: Folders below a "**".
MAX_DEPTH = 8
_TOKEN = re.compile(r"\{([a-z_]*)\}|(\[[^\]/]+\])|(.)", re.DOTALL)
#: What log rotation puts behind a name: a number, a date, and how it was packed. "-1" is the end of many nodes' names.
ROTATED = r"(?P<rotated>(?:\.\d{1,4}|[.-](?:\d{8}(?:[-_T]?\d{2,6})?|\d{4}-\d\d-\d\d(?:[-_T]\d\d[\d:-]*)?))?)"
PACKED = r"(?P<packed>(?:\.(?:gz|zst|xz|bz2|lz4))?)"
#: Packings that nothing here unpacks.
UNREAD = (".xz", ".bz2", ".lz4")


class Said(Protocol):
    """Who is told of gaps and of what is worth knowing: a sink."""

    def partial(self, reason: str) -> None:
        """A gap."""

    def note(self, reason: str) -> None:
        """No gap."""


class BadValue(ValueError):
    """What the attempt has for a placeholder cannot be a part of a path."""


@dataclass(frozen=True)
class Found:
    """A file's path, the name that it had before it was rotated, and whose it is."""

    path: Path
    name: str
    base: str
    node: str
    rank: int | None
    identity: tuple[int, int]
    mtime: float
    rotated: bool
    packed: str = ""
    job: str = ""


def values_of(attempt: Attempt, cluster: str) -> dict[str, str]:
    """What the placeholders stand for in an attempt; nodes and ranks are found in the names."""
    return {
        "job_id": attempt.job_id,
        "job_name": attempt.workload,
        "user": attempt.user,
        "restart": str(attempt.restart_count),
        "cluster": cluster,
    }


def problem(pattern: str) -> str:
    """Why a pattern cannot be used, or ""."""
    if pattern.startswith("/") or "\0" in pattern:
        return "is below root and does not begin with /"
    parts = pattern.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "has an empty part, . or .."
    for name in re.findall(r"\{([^}]*)\}", pattern):
        if name not in PLACEHOLDERS:
            return f"{{{name}}} is none of {', '.join('{' + known + '}' for known in PLACEHOLDERS)}"
    if parts[-1] == "**":
        return "ends in **: name the files, such as **/*.log"
    return ""


@dataclass(frozen=True)
class Part:
    """One part of a path: the names that it means, and the name itself where it is only one."""

    names: re.Pattern[str]
    name: str


@dataclass(frozen=True)
class Pattern:
    """One pattern for one attempt, or for any where there are no values. `parts` raises BadValue where one cannot
    stand in it."""

    text: str
    values: Mapping[str, str] | None
    nodes: Nodes
    rotated: bool

    @cached_property
    def parts(self) -> list[Part | None]:
        """An expression for each part of the path; None for any number of folders."""
        parts = self.text.split("/")
        return [
            None if part == "**" else self._part(part, last=index == len(parts) - 1) for index, part in enumerate(parts)
        ]

    def _part(self, part: str, *, last: bool) -> Part:
        out, literal, wild = "", "", False
        for placeholder, chosen, char in _TOKEN.findall(part):
            if placeholder in ("node", "rank"):
                inside = r"[^/]+?" if placeholder == "node" else r"\d{1,7}"
                out += f"(?P={placeholder})" if f"(?P<{placeholder}>" in out else f"(?P<{placeholder}>{inside})"
                wild = True
            elif placeholder and self.values is None:
                out += "(?P<job>[^/]+)" if placeholder == "job_id" and "(?P<job>" not in out else "[^/]+"
                wild = True
            elif placeholder:
                value = self._value(placeholder)
                out += re.escape(value)
                literal += value
            elif chosen:
                out += (
                    "[" + ("^/" if chosen[1] in "!^" else "") + re.sub(r"[\\\[]", r"\\\g<0>", chosen[1:-1].lstrip("!^"))
                )
                out += "]"
                wild = True
            elif char in "*?":
                out += ("" if out else r"(?!\.)") + ("[^/]*" if char == "*" else "[^/]")
                wild = True
            else:
                out += re.escape(char)
                literal += char
        if not wild and literal in (".", ".."):
            raise BadValue(f"{self.text}: {part} would be {literal}")
        if last and self.rotated:
            out += ROTATED + PACKED
        try:
            return Part(re.compile(out, re.DOTALL), "" if wild else literal)
        except re.error as error:
            raise BadValue(f"{self.text}: {part}: {error}") from error

    def _value(self, placeholder: str) -> str:
        value = (self.values or {}).get(placeholder, "")
        if not value:
            raise BadValue(f"{self.text}: the attempt has no {placeholder}")
        if "/" in value or "\0" in value:
            raise BadValue(f"{self.text}: the attempt's {placeholder} holds a / and cannot be a part of a path")
        return value

    def files(self, guard: Guard, out: Said) -> Iterator[Found]:
        """Every file that matches, folder by folder. What cannot be listed is a gap; what is not there is none."""
        yield from self._below(guard, out, Path(guard.root), "", 0, 0, {})

    def _below(
        self, guard: Guard, out: Said, folder: Path, shown: str, index: int, depth: int, seen: dict[str, str]
    ) -> Iterator[Found]:
        part = self.parts[index]
        last = index == len(self.parts) - 1
        wanted = part or Part(_ANY, "")
        for entry in sorted(_listed(guard, out, folder, shown, wanted, only=not last or not self.rotated), key=_named):
            path, name = folder / entry.name, f"{shown}{entry.name}"
            if part is None:
                if entry.folder and not entry.link and depth < MAX_DEPTH:  # a link may lead back up
                    yield from self._below(guard, out, path, f"{name}/", index, depth + 1, seen)
                continue
            match = part.names.fullmatch(entry.name)
            if match is None or entry.folder == last:
                continue
            kept = {**seen, **{k: v for k, v in match.groupdict().items() if v and k in ("node", "rank", "job")}}
            if any(seen.get(k, v) != v for k, v in kept.items()) or not self._ours(kept):
                continue
            if not last:
                yield from self._below(guard, out, path, f"{name}/", index + 1, depth, kept)
                continue
            groups = match.groupdict()
            tail = (groups.get("rotated") or "") + (groups.get("packed") or "")
            base = name[: len(name) - len(tail)] if tail else name
            yield Found(
                path=path,
                name=name,
                base=base,
                node=self.nodes.known(kept["node"]) if "node" in kept else "",
                rank=int(kept["rank"]) if "rank" in kept else None,
                identity=entry.identity,
                mtime=entry.mtime,
                rotated=bool(groups.get("rotated")),
                packed=groups.get("packed") or "",
                job=kept.get("job", ""),
            )
        if part is None:
            yield from self._below(guard, out, folder, shown, index + 1, depth, seen)

    def _ours(self, kept: Mapping[str, str]) -> bool:
        return "node" not in kept or bool(self.nodes.known(kept["node"]))


#: Any name but a hidden one.
_ANY = re.compile(r"(?!\.).*", re.DOTALL)


def _named(entry: Entry) -> str:
    return entry.name


def _listed(guard: Guard, out: Said, folder: Path, shown: str, wanted: Part, *, only: bool) -> Sequence[Entry]:
    try:
        entries = guard.listing(folder, wanted.names, wanted.name, only=only and bool(wanted.name))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        out.partial(f"{shown.rstrip('/') or guard.root}: {hint(error)}")
        return ()
    if len(entries) > MAX_ENTRIES:
        out.partial(f"{shown.rstrip('/') or guard.root}: more than {MAX_ENTRIES} names; the rest was not looked at")
    return entries
