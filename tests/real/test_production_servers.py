"""The site on servers that are not ours: Debian's PostgreSQL, Redis and RabbitMQ, each a fresh one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from attribution_site.embedded import follow_parent, server_account
from tests.real.running import free_port

BASE = Path(__file__).resolve().parent.parent.parent
SAMPLES = len(list((BASE / "verdicts" / "samples").glob("*/attempt.json")))
CURRENT = "SELECT count(*) FROM verdicts_verdict WHERE is_current"


def eventually(condition: Callable[[], object], seconds: float, what: Callable[[], str]) -> None:
    """Wait for a condition; fail with what `what` says when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="inquest-real-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def run(place: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts servers whose output goes to a file in `place`; ends them in reverse order."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *command: str, **options: object) -> subprocess.Popen[bytes]:
        with (place / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(  # type: ignore[call-overload]
                command,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: follow_parent(signal.SIGTERM),
                **options,
            )
        started.append(process)
        return process  # type: ignore[no-any-return]

    yield start
    for process in reversed(started):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answers(url: str) -> bool:
    """Whether a PostgreSQL takes connections: it listens before it does."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def database(place: Path, run: Callable[..., subprocess.Popen[bytes]]) -> str:
    """The lowest supported PostgreSQL that the system has, with a user who is not its superuser."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if not versions:
        pytest.skip("no PostgreSQL of the system's own")
    programs = versions[0].parent
    account = server_account()
    data = account.own(place / "data")
    subprocess.run(  # type: ignore[call-overload]
        [str(programs / "initdb"), "-D", str(data), "-U", "admin", "-A", "trust", "-E", "UTF8", "--locale=C"],
        check=True,
        capture_output=True,
        cwd="/",
        **account.arguments(),
    )
    port = free_port()
    command = [
        str(programs / "postgres"),
        "-D",
        str(data),
        "-p",
        str(port),
        "-k",
        "",
        "-c",
        "listen_addresses=127.0.0.1",
    ]
    run("postgres", *command, cwd="/", **account.arguments())
    admin = f"postgresql://admin@127.0.0.1:{port}/postgres"
    eventually(lambda: answers(admin), 60, (place / "postgres.log").read_text)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("CREATE USER inquest")
        connection.execute("CREATE DATABASE inquest OWNER inquest")
    return f"postgresql://inquest@127.0.0.1:{port}/inquest"


def redis(place: Path, run: Callable[..., subprocess.Popen[bytes]]) -> str:
    port = free_port()
    (place / "redis").mkdir()
    run("broker", "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(place / "redis"))
    eventually(lambda: listens(port), 30, (place / "broker.log").read_text)
    return f"redis://127.0.0.1:{port}/0"


def rabbitmq(place: Path, run: Callable[..., subprocess.Popen[bytes]]) -> str:
    port, distribution = free_port(), free_port()
    home = place / "rabbit"
    home.mkdir()
    (home / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\nloopback_users.guest = true\n")
    (home / "enabled_plugins").write_text("[].\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "RABBITMQ_NODENAME": f"inquest{port}@localhost",
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_PID_FILE": str(home / "pid"),
        # A name service of its own, which ends with it.
        "ERL_EPMD_PORT": str(free_port()),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    program = next(iter(Path("/usr/lib/rabbitmq").glob("lib/rabbitmq_server-*/sbin/rabbitmq-server")))
    epmd = shutil.which("epmd") or "epmd"
    run("epmd", epmd, "-port", environment["ERL_EPMD_PORT"], "-address", "127.0.0.1", env=environment)
    run("broker", str(program), env=environment, cwd=home)
    eventually(lambda: listens(port), 90, (place / "broker.log").read_text)
    return f"amqp://guest:guest@127.0.0.1:{port}//"


@pytest.mark.parametrize("broker", [redis, rabbitmq])
def test_the_same_code_runs_on_servers_given_by_the_environment(
    broker: Callable[..., str], database: str, place: Path, run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    if shutil.which("redis-server" if broker is redis else "rabbitmq-server") is None:
        pytest.skip(f"no {broker.__name__} here")
    environment = {
        "PATH": os.environ["PATH"],
        "INQUEST_DATA_DIR": str(place / "site"),
        "DATABASE_URL": database,
        "CELERY_BROKER_URL": broker(place, run),
    }
    command = [sys.executable, "-m", "attribution_site.demo", "--port", str(free_port())]
    demo = run("demo", *command, cwd=BASE, env=environment)
    said = (place / "demo.log").read_text
    eventually(lambda: "Inquest answers at" in said() or demo.poll() is not None, 300, said)
    assert re.search(r"^Loaded \d+ sample incidents", said(), re.MULTILINE), said()
    assert not (place / "site" / "pg").exists()
    assert not (place / "site" / "valkey").exists()

    def verdicts() -> int:
        with psycopg.connect(database) as connection:
            row = connection.execute(CURRENT).fetchone()
            return int(row[0]) if row else 0

    eventually(lambda: verdicts() == SAMPLES, 120, lambda: f"{verdicts()} of {SAMPLES} verdicts")
