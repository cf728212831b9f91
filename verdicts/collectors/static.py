"""Attempts from files that something else writes: one attempt.json for each, in a folder."""

from datetime import datetime
from pathlib import Path
from typing import Any

from rules.attempt import Attempt, InputError, decode_attempt
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.source import DiscoverySettings, Found

MAX_FILES, MAX_BYTES = 20_000, 8 << 20


class StaticDiscovery(DiscoverySettings, tag="static", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every `*.json` in `folder` is an attempt as docs/engine.md describes attempt.json: its window, its nodes, how
    it ended. A changed file is read again; one that cannot be read is named and the others are taken."""

    folder: str

    def check(self) -> None:
        if not Path(self.folder).is_dir():
            raise ValueError(f"folder: {self.folder} is no folder")

    def discover(self, cursor: dict[str, Any], now: datetime, budget: Budget) -> Found:
        seen: dict[str, int] = cursor.get("seen", {})
        attempts: list[Attempt] = []
        notes: list[str] = []
        there: dict[str, int] = {}
        try:
            paths = sorted(Path(self.folder).glob("*.json"))
        except OSError as error:
            raise SourceError(f"{self.folder}: {error.strerror or error}") from error
        if len(paths) > MAX_FILES:
            notes.append(f"{self.folder}: {len(paths)} files; only the first {MAX_FILES} were looked at")
        for path in paths[:MAX_FILES]:
            budget.left()
            try:
                changed = path.stat().st_mtime_ns
                there[path.name] = changed
                if seen.get(path.name) == changed:
                    continue
                if path.stat().st_size > MAX_BYTES:
                    notes.append(f"{path.name}: larger than {MAX_BYTES >> 20} MiB")
                    continue
                given = decode_attempt(path.read_bytes(), name=path.name)
            except OSError as error:
                notes.append(f"{path.name}: {error.strerror or error}")
                there.pop(path.name, None)
                continue
            except InputError as error:
                notes.append(str(error))
                continue
            attempts.append(given)
        return Found(attempts=attempts, cursor={"seen": there}, notes=tuple(notes))
