"""Attempts from files that something else writes: one attempt.json for each, in a folder."""

import stat
from datetime import datetime
from pathlib import Path
from typing import Any

from rules.attempt import Attempt, InputError, decode_attempt
from verdicts.collectors.ask import Budget, BudgetSpent, SourceError
from verdicts.collectors.source import DiscoverySettings, Found

MAX_FILES, MAX_BYTES = 20_000, 8 << 20


class StaticDiscovery(DiscoverySettings, tag="static", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every `*.json` in `folder` is an attempt as docs/engine.md describes attempt.json: its window, its nodes, how
    it ended. A changed file is read again; one that cannot be read is named at each look and the others are taken."""

    folder: str

    def check(self) -> None:
        if not Path(self.folder).is_dir():
            raise ValueError(f"folder: {self.folder} is no folder")

    def discover(self, cursor: dict[str, Any], now: datetime, budget: Budget) -> Found:
        seen: dict[str, int] = cursor.get("seen", {})
        wrong: dict[str, str] = cursor.get("wrong", {})
        attempts: list[Attempt] = []
        notes: list[str] = []
        there: dict[str, int] = {}
        bad: dict[str, str] = {}
        try:
            names = sorted(path.name for path in Path(self.folder).iterdir() if path.name.endswith(".json"))
        except OSError as error:
            raise SourceError(f"{self.folder}: {error.strerror or error}") from error
        if len(names) > MAX_FILES:
            notes.append(f"{self.folder}: {len(names)} files; only the first {MAX_FILES} were looked at")
        for index, name in enumerate(names[:MAX_FILES]):
            try:
                there[name], given = _read(Path(self.folder) / name, seen.get(name), budget)
                if given is not None:
                    attempts.append(given)
                elif name in wrong:
                    bad[name] = wrong[name]
            except BudgetSpent as error:
                # The next look goes on from here.
                rest = names[index:MAX_FILES]
                notes.append(f"{error}; the next look reads the other {len(rest)} files")
                there |= {left: seen[left] for left in rest if left in seen}
                bad |= {left: wrong[left] for left in rest if left in wrong}
                break
            except OSError as error:
                notes.append(f"{name}: {error.strerror or error}")
            except Wrong as error:
                there[name], bad[name] = error.changed, str(error)
        notes += bad.values()
        return Found(attempts=attempts, cursor={"seen": there, "wrong": bad}, notes=tuple(notes))


class Wrong(Exception):
    """A file that is no attempt; it is not read again before it changes."""

    def __init__(self, changed: int, why: str) -> None:
        super().__init__(why)
        self.changed = changed


def _read(path: Path, seen: int | None, budget: Budget) -> tuple[int, Attempt | None]:
    """When a file was changed, and its attempt, None where it was seen so. Raises OSError, Wrong, BudgetSpent."""
    budget.left()
    found = path.stat()
    changed = found.st_mtime_ns
    if changed == seen:
        return changed, None
    if not stat.S_ISREG(found.st_mode):
        raise Wrong(changed, f"{path.name}: not a regular file")
    if found.st_size > MAX_BYTES:
        raise Wrong(changed, f"{path.name}: larger than {MAX_BYTES >> 20} MiB")
    budget.take(found.st_size)
    try:
        return changed, decode_attempt(path.read_bytes(), name=path.name)
    except InputError as error:
        raise Wrong(changed, str(error)) from error
