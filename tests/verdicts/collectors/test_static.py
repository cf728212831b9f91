"""Attempts from files: what is there is taken, what cannot be read is named, and nothing holds the look up."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.source import Found
from verdicts.collectors.static import StaticDiscovery


def an_attempt(folder: Path, job: str, **more: Any) -> None:
    said = {"job_id": job, "start": "2026-11-03T01:00:00Z", "end": "2026-11-03T02:00:00Z", "state": "FAILED"} | more
    (folder / f"{job}.json").write_text(json.dumps(said))


def look(folder: Path, cursor: dict[str, Any] | None = None, budget: Budget | None = None) -> Found:
    discovery = StaticDiscovery(name="drop", folder=str(folder))
    return discovery.discover(cursor or {}, timezone.now(), budget or Budget.of(seconds=30, megabytes=64))


def jobs(found: Found) -> list[str]:
    return [attempt.job_id for attempt in found.attempts]


def test_a_file_is_an_attempt_and_is_told_again_only_when_it_changes(tmp_path: Path) -> None:
    an_attempt(tmp_path, "1")
    an_attempt(tmp_path, "2")
    first = look(tmp_path)
    assert jobs(first) == ["1", "2"]
    assert first.listed is None
    os.utime(tmp_path / "2.json", ns=(1, 1))
    assert jobs(look(tmp_path, first.cursor)) == ["2"]


def test_a_file_that_cannot_be_read_is_named_at_each_look_until_it_can(tmp_path: Path) -> None:
    an_attempt(tmp_path, "good")
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "big.json").write_bytes(b" " * (9 << 20))
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder.json").mkdir()
    found = look(tmp_path)
    assert jobs(found) == ["good"]
    again = look(tmp_path, found.cursor)
    assert sorted(again.notes) == sorted(found.notes)
    for name in ("bad", "big", "pipe", "gone", "folder"):
        assert any(name in note for note in again.notes)
    an_attempt(tmp_path, "bad")
    assert jobs(look(tmp_path, again.cursor)) == ["bad"]


def test_a_folder_that_went_away_is_a_failed_look_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        look(tmp_path / "gone")


def test_more_than_one_look_can_read_is_read_by_the_next_ones(tmp_path: Path) -> None:
    for job in range(4):
        an_attempt(tmp_path, str(job))
        with (tmp_path / f"{job}.json").open("a") as file:
            file.write(" " * 400_000)
    found, read = look(tmp_path, budget=Budget.of(seconds=30, megabytes=1)), []
    assert "the next look reads the other 2 files" in found.notes[0]
    for _ in range(4):
        read += jobs(found)
        found = look(tmp_path, found.cursor, Budget.of(seconds=30, megabytes=1))
    assert read == ["0", "1", "2", "3"]
