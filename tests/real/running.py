"""A whole site as processes, for tests and benchmarks: PostgreSQL and Valkey out of their wheels, Celery workers, beat."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from attribution_site.embedded import Postgres, Valkey, following
from tests.database import copy_migrated

BASE = Path(__file__).resolve().parent.parent.parent
SAMPLES = BASE / "verdicts" / "samples"


def eventually(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Wait for a condition and return what it said; fail with `what` when the time is over."""
    deadline = time.monotonic() + seconds
    while not (said := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return said


def free_ports(number: int) -> list[int]:
    """Ports that nobody has now, below those that the kernel hands out to clients, who come and go all the time."""
    # At random: other servers that start at the same moment have not taken theirs yet.
    found, port = [], random.randrange(20_000, 32_000)
    while len(found) < number:
        port += 1
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def free_port() -> int:
    return free_ports(1)[0]


class Site:
    """A whole site in a folder: its servers and processes are ended with it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.postgres = Postgres(home / "pg-home")
        self.valkey = Valkey(home / "valkey")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        #: Settings of this site besides those that every one has.
        self.settings: dict[str, str] = {}
        (home / "pg-home").mkdir()
        (home / "tmp").mkdir()
        home.chmod(0o755)
        (home / "pg-home").chmod(0o755)
        copy_migrated(home / "pg-home" / "pg")
        self.postgres.prepare()
        self.valkey.prepare()

    @property
    def environment(self) -> dict[str, str]:
        """For everything that is started."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "PYTHONPATH": str(BASE),
            "DJANGO_SETTINGS_MODULE": "attribution_site.settings",
            "INQUEST_DATA_DIR": str(self.home / "data"),
            # What a killed process leaves goes with the site.
            "TMPDIR": str(self.home / "tmp"),
            "SECRET_KEY": "for this test",
            "DATABASE_URL": self.postgres.url("inquest"),
            "CELERY_BROKER_URL": self.valkey.url(),
            "INQUEST_SWEEP_SECONDS": "1",
            "LOG_FORMAT": "console",
            **self.settings,
        }

    def start_postgres(self) -> None:
        with (self.home / "postgres.log").open("ab") as log:
            self.running["postgres"] = self.postgres.start(log)
        eventually(self.postgres.answers, 30, "PostgreSQL does not answer")

    def start_valkey(self) -> None:
        with (self.home / "valkey.log").open("ab") as log:
            self.running["valkey"] = self.valkey.start(log)
        eventually(self.valkey.answers, 30, "Valkey does not answer")

    def start_celery(self, name: str, *arguments: str) -> None:
        """Start a worker or a beat under a name."""
        with (self.home / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "attribution_site.celery", *arguments],
                cwd=self.home,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Whoever ends the tests ends these with them.
                preexec_fn=following(os.getpid(), signal.SIGTERM),
            )

    def start_worker(self, name: str = "worker") -> None:
        self.start_celery(
            name, "worker", "--concurrency", "1", "--without-mingle", "--without-gossip", "-n", f"{name}@%h"
        )

    def start_collector(self, name: str = "collector", threads: int = 8) -> None:
        """Start a worker that reads sources and looks for attempts."""
        self.start_celery(
            name, "worker", "-P", "threads", "--concurrency", str(threads), "-Q", "inquest-collect",
            "--without-mingle", "--without-gossip", "-n", f"{name}@%h",
        )  # fmt: skip

    def start_beat(self, name: str = "beat") -> None:
        self.start_celery(name, "beat", "--schedule", str(self.home / name))

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Kill a process with all that it started."""
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        process.wait(30)

    def end(self) -> None:
        """End what still runs, the servers last."""
        for name in [*(name for name in self.running if name not in ("postgres", "valkey")), "valkey", "postgres"]:
            if name in self.running:
                self.kill(name, signal.SIGINT if name == "postgres" else signal.SIGKILL)
        self.postgres.release()
        self.valkey.release()

    def run(self, *command: str) -> str:
        """Run a command to its end."""
        done = subprocess.run(
            command, cwd=BASE, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ingest(self, *samples: str) -> list[str]:
        """Store samples and ask for their verdicts; returns the ids of their attempts."""
        program = "from attribution_site.cli import main; main()"
        paths = [str(SAMPLES / sample) for sample in samples]
        said = self.run(sys.executable, "-c", program, "ingest", "--json", "--wait", "0", *paths)
        return [json.loads(line)["attempt"] for line in said.splitlines()]

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with psycopg.connect(self.postgres.url("inquest"), connect_timeout=5) as connection:
            return connection.execute(query, values).fetchall()

    def states(self) -> list[str]:
        return [state for (state,) in self.ask("SELECT state FROM verdicts_attributionrequest ORDER BY state")]

    def settled(self) -> bool:
        """Whether every request is done."""
        return set(self.states()) == {"done"}

    def verdicts(self) -> list[tuple[int, bool]]:
        return self.ask("SELECT number, is_current FROM verdicts_verdict ORDER BY attempt_id, number")

    @contextlib.contextmanager
    def held(self, attempt: str) -> Iterator[psycopg.Connection[Any]]:
        """Hold an attempt's row, so that a worker stops just before it writes the verdict."""
        with psycopg.connect(self.postgres.url("inquest")) as connection:
            connection.execute("SELECT 1 FROM verdicts_attempt WHERE id = %s FOR UPDATE", [attempt])
            yield connection

    def writing(self) -> bool:
        """Whether a worker has concluded and waits to write."""
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ILIKE '%%verdicts_attempt%%'"
        return "running" in self.states() and bool(self.ask(waiting))

    def logs(self) -> str:
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}" for log in self.home.glob("*.log")
        )


@contextlib.contextmanager
def a_site() -> Iterator[Site]:
    """A site with database and broker running, and no worker yet."""
    home = Path(tempfile.mkdtemp(prefix="inquest-real-"))
    made = Site(home)
    try:
        made.start_postgres()
        made.start_valkey()
        yield made
    except BaseException:
        print(made.logs())
        raise
    finally:
        made.end()
        shutil.rmtree(home, ignore_errors=True)
