"""Evidence in files: logs of nodes and jobs, packed and rotated, journald exports, NCCL's debug files and dumps."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec

from rules import files
from rules.incident import shown
from verdicts.collectors.ask import Ask, Budget
from verdicts.collectors.files_guard import Guard, Opened, Outside, Special, hint
from verdicts.collectors.files_paths import PACKED, ROTATED, UNREAD, BadValue, Found, Pattern, Said, problem, values_of
from verdicts.collectors.files_read import Reading, Window
from verdicts.collectors.labels import Nodes, some
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import Probe, SourceSettings

#: What one file gets of the budget at least, however many there are.
MIN_ROOM = 4 << 20
#: A log that is rotated just while it is looked at is looked at again, so often.
LOOKS = 3


class Files(SourceSettings, tag="files", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files below `root`.

    `paths` are patterns below it: `*`, `?`, `[abc]` within one part, `**` for any folders, and {node}, {rank},
    {job_id}, {job_name}, {user}, {restart}, {cluster}. With `rotated` what was rotated away from a name belongs to it.
    `utc_offset` is the zone of times that name none; `files` is how many are read at most, the newest.
    """

    root: Annotated[str, msgspec.Meta(pattern="^/", max_length=1000)]
    paths: Annotated[list[Annotated[str, msgspec.Meta(max_length=1000)]], msgspec.Meta(min_length=1, max_length=100)]
    rotated: bool = True
    utc_offset: Annotated[str, msgspec.Meta(pattern="^([+-](0[0-9]|1[0-4]):[0-5][0-9]|Z)?$")] = ""
    files: Annotated[int, msgspec.Meta(ge=1, le=20_000)] = 2_000

    def check(self) -> None:
        for path in self.paths:
            if said := problem(path):
                raise ValueError(f"paths: {path!r}: {said}")
            try:
                self._pattern(path, None, ()).parts  # noqa: B018 - it compiles them
            except BadValue as error:
                raise ValueError(f"paths: {error}") from error

    def _pattern(self, path: str, values: dict[str, str] | None, nodes: Sequence[str]) -> Pattern:
        return Pattern(path, values, Nodes(nodes), self.rotated)

    def collect(self, ask: Ask, out: Sink) -> None:
        window = Window.of(ask.begin, ask.end, self.utc_offset or ask.attempt.utc_offset)
        values = values_of(ask.attempt, ask.cluster)
        with Guard(self.root, ask.budget) as guard:
            found = self._found(guard, out, values, ask.nodes)
            families = self._families(found, ask.begin.timestamp(), out)
            if not found:
                out.note(self._nothing())
            elif without := self._without(found, ask.nodes):
                out.partial(f"no file of {some(without)}")
            wanted = {one.identity for family in families for one in family}
            passed = {one.identity for one in found} - wanted
            left = sum(map(len, families))
            for family in families:
                for file, one in _opened(guard, out, family, again=self.rotated, passed=passed):
                    room = max(MIN_ROOM, ask.budget.bytes_left // max(left, 1))
                    left -= 1
                    name = shown(one.name)
                    reading = Reading(guard, file, name, one.node, one.rank, window, ask.budget, room, out)
                    try:
                        reading.take()
                    except files.Unreadable as error:
                        out.partial(f"{name}: {error}")
                    except OSError as error:
                        out.partial(f"{name}: {hint(error)}")
                    guard.release(file)

    def _without(self, found: Iterable[Found], nodes: Sequence[str]) -> list[str]:
        """The nodes that have no file, where every pattern names a node: their silence is no health."""
        if not all("{node}" in path for path in self.paths):
            return []
        there = {one.node for one in found}
        return [node for node in nodes if node not in there]

    def _found(self, guard: Guard, out: Said, values: dict[str, str] | None, nodes: Sequence[str]) -> list[Found]:
        """Every matching file once, whichever patterns it matches and whatever links lead to it."""
        found: dict[tuple[int, int] | Path, Found] = {}
        for path in self.paths:
            try:
                for one in self._pattern(path, values, nodes).files(guard, out):
                    found.setdefault(one.identity if one.identity[1] else one.path, one)
            except BadValue as error:
                out.partial(str(error))
        return list(found.values())

    def _families(self, found: Iterable[Found], begin: float, out: Sink) -> list[list[Found]]:
        """The files to read, each with what was rotated away from it, the oldest first."""
        families: dict[str, list[Found]] = {}
        for one in found:
            families.setdefault(one.base, []).append(one)
        old = 0
        for base, members in families.items():
            names = {one.name for one in members}
            kept = []
            for one in sorted(members, key=lambda m: (m.mtime, m.name)):
                if one.rotated and 0 < one.mtime < begin:
                    old += 1
                elif one.packed in UNREAD:
                    out.partial(f"{shown(one.name)}: packed in a way that is not read; unpack it, or pack it with gzip")
                elif not one.packed or one.name[: -len(one.packed)] not in names:  # else it is just being packed
                    kept.append(one)
            families[base] = kept
        if old:
            out.note(f"{old} rotated file{'s' if old > 1 else ''} ended before the window")
        every = sorted((m for members in families.values() for m in members), key=lambda m: (-m.mtime, m.name))
        if len(every) > self.files:
            out.partial(f"{len(every)} files match; only the newest {self.files} were read")
        wanted = {one.path for one in every[: self.files]}
        chosen = ([one for one in members if one.path in wanted] for _, members in sorted(families.items()))
        return [members for members in chosen if members]

    def probe(self, nodes: Sequence[str], budget: Budget) -> Probe:
        said = _Notes()
        with Guard(self.root, budget) as guard:
            found = self._found(guard, said, None, nodes)
            newest = max(found, key=lambda one: one.mtime, default=None)
            if newest is not None:
                try:
                    guard.release(guard.open(newest.path))
                except OSError as error:
                    said.partial(f"{shown(newest.name)}: {hint(error)}")
        if not found:
            said.note(self._nothing())
        by_job = any("{job_id}" in path for path in self.paths)
        return Probe(
            newest=datetime.fromtimestamp(newest.mtime, UTC) if newest and newest.mtime else None,
            server_time=None,
            nodes=frozenset(one.node for one in found if one.node),
            jobs=frozenset(one.job for one in found if one.job) if by_job else None,
            notes=tuple(said.said),
            nothing="" if found else self._nothing(),
        )

    def _nothing(self) -> str:
        return f"no file below {self.root} matches {', '.join(self.paths)}"


class _Notes:
    """What a look at the files has to say."""

    def __init__(self) -> None:
        self.said: dict[str, None] = {}

    def partial(self, reason: str) -> None:
        self.said[reason] = None

    def note(self, reason: str) -> None:
        self.said[reason] = None


def _opened(
    guard: Guard, out: Sink, family: list[Found], *, again: bool, passed: set[tuple[int, int]]
) -> list[tuple[Opened, Found]]:
    """A log and what was rotated away from it, all open at once and each once, the oldest first.

    A rotation between the look at the names and the opening gives a file another name: the names are looked at
    again until all that is there is open. `passed` are files that are not wanted.
    """
    opened: dict[tuple[int, int], tuple[Opened, Found]] = {}
    wanted = family
    for _ in range(LOOKS):
        for one in wanted:
            try:
                file = guard.open(one.path)
            except FileNotFoundError:
                continue  # rotated or removed since: the next look finds it if it is still there
            except Special:
                out.partial(f"{shown(one.name)}: not a regular file")
                continue
            except Outside as error:
                out.partial(f"{shown(one.name)}: {error.strerror}")
                continue
            except OSError as error:
                out.partial(f"{shown(one.name)}: {hint(error)}")
                continue
            if file.identity in opened:
                guard.release(file)
            else:
                opened[file.identity] = (file, one)
        names = {one.name for _, one in opened.values()}
        if not again or not (wanted := _others(guard, out, family[0], passed | set(opened), names)):
            break
    return sorted(opened.values(), key=lambda pair: (pair[0].mtime, pair[1].name))


def _others(guard: Guard, out: Sink, one: Found, known: set[tuple[int, int]], names: set[str]) -> list[Found]:
    """Files of the same log that are there and neither open nor unwanted."""
    folder, base = one.path.parent, one.base.rpartition("/")[2]
    wanted = re.compile(re.escape(base) + ROTATED + PACKED, re.DOTALL)
    try:
        entries = guard.listing(folder, wanted, base, only=False)
    except FileNotFoundError:
        return []
    except OSError as error:
        out.partial(f"{shown(one.name)}: what was rotated away from it: {hint(error)}")
        return []
    prefix = one.base[: len(one.base) - len(base)]
    found = []
    for entry in entries:
        match = wanted.fullmatch(entry.name)
        packed = match["packed"] if match else ""
        unpacked = prefix + entry.name[: len(entry.name) - len(packed)]
        if entry.folder or entry.identity in known or packed in UNREAD or (packed and unpacked in names):
            continue
        found.append(replace(one, name=prefix + entry.name, path=folder / entry.name, identity=entry.identity))
    return found
