"""`make demo` for real: it starts, it answers, and however it ends nothing of it is left."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

BASE = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 120
END_SECONDS = 30


def eventually(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait for a condition; fail with `what` when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
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
        eventually(
            lambda: pattern.search(self.says()) or self.process.poll() is not None, START_SECONDS, "it does not start"
        )
        match = pattern.search(self.says())
        assert match, self.says()
        return match.group(1)

    def ends(self, number: int) -> None:
        """Send a signal and wait until nothing is left of it."""
        family = descendants(self.process.pid) | {self.process.pid}
        os.kill(self.process.pid, number)
        self.process.wait(END_SECONDS)
        eventually(lambda: not family & set(processes()), END_SECONDS, f"left: {family & set(processes())}")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a blank in its name, which other users can reach (pytest's own they cannot)."""
    with tempfile.TemporaryDirectory(prefix="inquest demo ") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def start(place: Path) -> Iterator[Callable[..., Demo]]:
    """Starts demos, each in a folder of its own; ends what a test left."""
    demos: list[Demo] = []

    def run(name: str = "first", port: int | None = None, prefix: tuple[str, ...] = ()) -> Demo:
        home = place / name
        output = place / f"{name}-{len(demos)}.txt"
        environment = {
            k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "CELERY_BROKER_URL", "SECRET_KEY")
        }
        environment.update(INQUEST_DATA_DIR=str(home), LOG_LEVEL="INFO")
        environment.pop("DJANGO_SETTINGS_MODULE", None)
        command = [*prefix, sys.executable, "-m", "attribution_site.demo", "--port", str(port or free_port())]
        with output.open("wb") as file:
            process = subprocess.Popen(command, cwd=BASE, env=environment, stdout=file, stderr=file)
        demos.append(Demo(process, output, home))
        return demos[-1]

    yield run
    for demo in demos:
        if demo.process.poll() is None:
            demo.process.terminate()
            demo.process.wait(END_SECONDS)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(address: str, path: str) -> tuple[int, str]:
    host, port = address.removeprefix("http://").rstrip("/").rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_it_starts_answers_and_ctrl_c_leaves_nothing_but_the_data(start: Callable[..., Demo]) -> None:
    demo = start()
    address = demo.wait()
    assert get(address, "/accounts/login/")[0] == 200
    assert '"status": "ok"' in get(address, "/readyz")[1]
    assert demo.says().rstrip().splitlines()[-1] == f"Inquest answers at {address}"
    assert re.search(r"operator +[a-z2-9-]{19}\n +reviewer +[a-z2-9-]{19}\n", demo.says())
    assert (demo.home / "demo.env").stat().st_mode & 0o077 == 0
    demo.ends(signal.SIGINT)
    assert demo.process.returncode == 0
    assert not (demo.home / "demo.env").exists()

    again = start()
    again.wait()
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
    third.process.wait(20)
    assert "already running" in third.says()
    assert get(address, "/readyz")[0] == get(other, "/readyz")[0] == 200


def test_a_child_that_dies_is_named_and_started_again(start: Callable[..., Demo]) -> None:
    demo = start()
    address = demo.wait()
    for name, mark in (("postgres", "bin/postgres -D"), ("web", "gunicorn"), ("valkey", "valkey-server")):
        alive = processes()
        (pid,) = [p for p, (parent, command) in alive.items() if parent == demo.process.pid and mark in command]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda name=name: f"{name} ended by SIGKILL" in demo.says(), 20, demo.says())

        def well() -> bool:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return '"status": "ok"' in get(address, "/readyz")[1]
            return False

        eventually(well, 40, f"it does not recover from the death of {name}: {demo.says()}")


def test_it_ends_with_the_process_that_started_it(start: Callable[..., Demo]) -> None:
    # A shell between us, as make is; the extra argument is passed on to the demo.
    demo = start(prefix=("sh", "-c", '"$@" --with-parent; exit 0', "sh"))
    demo.wait()
    demo.ends(signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives PostgreSQL to another user")
def test_root_may_run_it_in_a_folder_that_nobody_else_can_reach(start: Callable[..., Demo], place: Path) -> None:
    place.chmod(0o700)
    demo = start()
    try:
        assert get(demo.wait(), "/accounts/login/")[0] == 200
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        demo.ends(signal.SIGTERM)
    finally:
        shutil.rmtree((demo.home / "pg").resolve().parent, ignore_errors=True)
