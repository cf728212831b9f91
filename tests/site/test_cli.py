"""The `inquest` command: what it lists, and that it loads no more than it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from attribution_site.cli import COMMANDS, main

HEAVY = ("django", "celery", "kombu", "psycopg", "rest_framework", "environ", "httpx2", "hypothesis")


def imported_by(*arguments: str) -> set[str]:
    """The top-level packages that `inquest ARGUMENTS` imports."""
    code = f"import sys; sys.argv = {['inquest', *arguments]!r}; from attribution_site.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


@pytest.mark.parametrize("arguments", [("--help",), ("explain", "--help"), ("rules", "--help")])
def test_the_engine_s_commands_load_neither_django_nor_celery(arguments: tuple[str, ...]) -> None:
    assert imported_by(*arguments).isdisjoint(HEAVY)


def test_the_list_of_commands_imports_none_of_them() -> None:
    assert imported_by("--help").isdisjoint({"rules", "verdicts"})


def test_every_listed_command_exists_and_has_help() -> None:
    for name in COMMANDS:
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0, (name, result.output)


def test_an_unknown_command_is_named() -> None:
    result = CliRunner().invoke(main, ["explian"])
    assert result.exit_code == 2
    assert "explian" in result.output


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://ada:hunter2@127.0.0.1:1/x", "the database cannot be used"),
        ("postgresql://ada:hunter2@[::zz/x", "the settings cannot be used"),
        ("no address", "the settings cannot be used"),
    ],
)
def test_ingest_without_a_database_says_so_in_one_line(tmp_path: Path, url: str, says: str) -> None:
    (tmp_path / "attempt.json").write_text('{"job_id": "1"}')
    told = os.environ | {"DATABASE_URL": url, "SECRET_KEY": "x", "INQUEST_DATA_DIR": str(tmp_path / "none")}
    told["DJANGO_SETTINGS_MODULE"] = "attribution_site.settings"
    command = [sys.executable, "-m", "attribution_site.cli", "ingest", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=told, check=False)
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith(f"inquest: {says}")
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


def test_explaining_a_pipe_is_refused_and_waits_for_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    result = CliRunner().invoke(main, ["explain", str(tmp_path / "pipe.log")])
    assert (result.exit_code, "neither a file nor a folder" in result.output) == (2, True)
