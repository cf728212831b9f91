"""`make demo` for real: it starts, it answers, and however it ends nothing of it is left."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.real.running import free_port

BASE = Path(__file__).resolve().parent.parent.parent
#: Deadlines, for a machine that is busy with other suites.
START_SECONDS = 300
END_SECONDS = 60


def eventually(condition: Callable[[], object], seconds: float, what: Callable[[], str]) -> None:
    """Wait for a condition; fail with what `what` says when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def processes() -> dict[int, tuple[int, str]]:
    """Every living process: its parent and its command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if state[0] not in "ZX":
                    found[int(entry.name)] = (int(state[1]), command)
    return found


def descendants(pid: int) -> set[int]:
    """All living processes that stem from one."""
    alive = processes()
    found = {pid}
    while True:
        more = {child for child, (parent, _) in alive.items() if parent in found} - found
        if not more:
            return found - {pid}
        found |= more


@dataclass
class Demo:
    process: subprocess.Popen[bytes]
    output: Path
    home: Path

    def says(self) -> str:
        return self.output.read_text(errors="replace")

    def wait(self) -> str:
        """The address it answers at."""
        pattern = re.compile(r"^Inquest answers at (\S+)$", re.MULTILINE)
        eventually(lambda: pattern.search(self.says()) or self.process.poll() is not None, START_SECONDS, self.says)
        match = pattern.search(self.says())
        assert match, self.says()
        return match.group(1)

    def ends(self, number: int) -> None:
        """Send a signal and wait until nothing is left of it."""
        family = descendants(self.process.pid) | {self.process.pid}
        os.kill(self.process.pid, number)
        self.process.wait(END_SECONDS)
        eventually(lambda: not family & set(processes()), END_SECONDS, lambda: f"left: {family & set(processes())}")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a blank in its name, which other users can reach (pytest's own they cannot)."""
    with tempfile.TemporaryDirectory(prefix="inquest demo ") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def begin(home: Path, output: Path, port: int | None = None, prefix: tuple[str, ...] = ()) -> Demo:
    """Start a demo in a folder."""
    environment = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "CELERY_BROKER_URL", "SECRET_KEY")}
    environment.update(INQUEST_DATA_DIR=str(home), LOG_LEVEL="INFO")
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    command = [*prefix, sys.executable, "-m", "attribution_site.demo", "--port", str(port or free_port())]
    with output.open("wb") as file:
        # Under nohup it would ignore the closed terminal, as it should: the tests may run so themselves.
        process = subprocess.Popen(
            command, cwd=BASE, env=environment, stdout=file, stderr=file, preexec_fn=_hears_of_the_terminal
        )
        return Demo(process, output, home)


def _hears_of_the_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="module")
def used() -> Iterator[Demo]:
    """A demo that began with nothing and has ended: to start in a copy of its folder takes no tables and no samples."""
    with tempfile.TemporaryDirectory(prefix="inquest demo ") as folder:
        Path(folder).chmod(0o755)
        demo = begin(Path(folder) / "home", Path(folder) / "output.txt")
        try:
            demo.wait()
            demo.ends(signal.SIGINT)
            yield demo
        finally:
            if demo.process.poll() is None:
                demo.process.terminate()
                demo.process.wait(END_SECONDS)


@pytest.fixture
def start(place: Path, used: Demo) -> Iterator[Callable[..., Demo]]:
    """Starts demos, each in a folder of its own, which was used before unless it is to be new; ends what a test left."""
    demos: list[Demo] = []

    def run(name: str = "first", *, new: bool = False, **more: Any) -> Demo:
        home = place / name
        if not new and not home.exists():
            subprocess.run(["cp", "-a", used.home, home], check=True)
        demos.append(begin(home, place / f"{name}-{len(demos)}.txt", **more))
        return demos[-1]

    yield run
    for demo in demos:
        if demo.process.poll() is None:
            demo.process.terminate()
            demo.process.wait(END_SECONDS)


def get(address: str, path: str) -> tuple[int, str]:
    host, port = address.removeprefix("http://").rstrip("/").rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_it_starts_answers_and_ctrl_c_leaves_nothing_but_the_data(used: Demo, start: Callable[..., Demo]) -> None:
    assert used.process.returncode == 0
    assert not (used.home / "demo.env").exists()
    assert re.search(r"operator +[a-z2-9-]{19}\n +reviewer +[a-z2-9-]{19}\n", used.says())

    again = start()
    address = again.wait()
    assert get(address, "/accounts/login/")[0] == 200
    assert '"status": "ok"' in get(address, "/readyz")[1]
    assert again.says().rstrip().splitlines()[-1] == f"Inquest answers at {address}"
    assert (again.home / "demo.env").stat().st_mode & 0o077 == 0
    assert "make demo-passwords" in again.says()
    assert not re.search(r"operator +[a-z2-9-]{19}", again.says())
    again.ends(signal.SIGHUP)


def test_a_killed_supervisor_leaves_no_process_and_the_next_start_works(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.wait()
    demo.ends(signal.SIGKILL)
    start().wait()


def test_a_taken_port_is_told_and_two_folders_run_side_by_side(start: Callable[..., Demo]) -> None:
    one = start("one")
    address = one.wait()
    port = int(address.rstrip("/").rsplit(":", 1)[1])
    two = start("two", port=port)
    other = two.wait()
    assert other != address
    assert f"Port {port} is taken" in two.says()
    third = start("one")
    third.process.wait(60)
    assert "already running" in third.says()
    assert get(address, "/readyz")[0] == get(other, "/readyz")[0] == 200


def test_a_child_that_dies_is_named_and_started_again(start: Callable[..., Demo]) -> None:
    demo = start()
    address = demo.wait()
    for name, mark in (("postgres", "bin/postgres -D"), ("web", "gunicorn"), ("valkey", "valkey-server")):
        alive = processes()
        (pid,) = [p for p, (parent, command) in alive.items() if parent == demo.process.pid and mark in command]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda name=name: f"{name} ended by SIGKILL" in demo.says(), 60, demo.says)

        def well() -> bool:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return '"status": "ok"' in get(address, "/readyz")[1]
            return False

        eventually(well, 120, lambda name=name: f"it does not recover from the death of {name}: {demo.says()}")


def test_it_ends_with_the_process_that_started_it(start: Callable[..., Demo]) -> None:
    # A shell between us, as make is; the extra argument is passed on to the demo.
    demo = start(prefix=("sh", "-c", '"$@" --with-parent; exit 0', "sh"))
    demo.wait()
    demo.ends(signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives PostgreSQL to another user")
def test_root_may_run_it_in_a_folder_that_nobody_else_can_reach(start: Callable[..., Demo], place: Path) -> None:
    place.chmod(0o700)
    demo = start(new=True)
    try:
        assert get(demo.wait(), "/accounts/login/")[0] == 200
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        demo.ends(signal.SIGTERM)
    finally:
        shutil.rmtree((demo.home / "pg").resolve().parent, ignore_errors=True)
