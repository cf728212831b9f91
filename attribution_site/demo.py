"""`make demo`: everything of the site on one machine, in one terminal, and nothing left when it ends."""

from __future__ import annotations

import argparse
import fcntl
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import psycopg

from attribution_site.embedded import EmbeddedError, Postgres, Valkey, adopt_orphans, follow_parent, following
from attribution_site.supervise import Child, Supervisor, last_lines, say

BASE = Path(__file__).resolve().parent.parent
DATABASE = "inquest"
OPEN_REQUESTS = "SELECT 1 FROM verdicts_attributionrequest WHERE state IN ('pending', 'running') LIMIT 1"


class DemoError(RuntimeError):
    """The demo cannot go on; the message says why and what to do."""


class Stopped(Exception):
    """Told to stop while starting."""


def listener(host: str, port: int) -> socket.socket:
    """A listening socket on `port`, or on the next free one. Held by us, it stays ours over restarts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in [*range(port, min(port + 50, 65536)), 0]:
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, candidate))
            bound.listen(512)
        except PermissionError:
            bound.close()
            raise DemoError(f"Port {port} may not be used by this user; give another: make demo PORT=8000") from None
        except OSError as error:
            bound.close()
            if candidate == 0:
                raise DemoError(f"Cannot listen on {host}: {error}") from error
            continue
        if candidate != port:
            say(f"Port {port} is taken; using {bound.getsockname()[1]}.")
        return bound
    raise DemoError(f"No port is free on {host}.")


class Demo:
    """One running demo in one folder."""

    def __init__(self, home: Path, host: str, port: int) -> None:
        self.home = home
        self.host = host
        self.port = port
        self.supervisor = Supervisor()
        self.environment: dict[str, str] = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PG")},
            "INQUEST_DATA_DIR": str(home),
            "DJANGO_SETTINGS_MODULE": "attribution_site.settings",
            "PYTHONUNBUFFERED": "1",
        }
        self.environment.setdefault("INQUEST_HTTPS", "false")
        self.environment.setdefault("LOG_FORMAT", "console")
        self.found: dict[str, str] = {}
        self.servers: list[Postgres | Valkey] = []
        self.listening: socket.socket | None = None

    # --- pieces ---------------------------------------------------------------------------------

    def log(self, name: str) -> Path:
        """Where a child's output goes."""
        return self.home / "log" / f"{name}.log"

    def child(self, name: str, *command: str, keep: tuple[int, ...] = (), patience: float = 10.0) -> Child:
        """Run one of our own programs as a watched child."""

        def start(log: IO[bytes]) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=BASE,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=keep,
                start_new_session=True,
                preexec_fn=following(os.getpid(), signal.SIGTERM),
            )

        return self.supervisor.add(Child(name, start, self.log(name), patience=patience))

    def once(self, name: str, *command: str, show: bool = False) -> None:
        """Run one of our own programs to its end. Raises DemoError with the end of its log if it fails."""
        path = self.log(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=BASE,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if show else log,
                stderr=log,
                start_new_session=True,
                preexec_fn=following(os.getpid(), signal.SIGTERM),
            )
            try:
                while process.poll() is None:
                    if self.supervisor.stopping:
                        raise Stopped
                    self.supervisor.look_after()
                    time.sleep(0.05)
                if show and process.stdout is not None:
                    if shown := process.stdout.read().decode(errors="replace").rstrip():
                        say(shown)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait(10)
        if process.returncode != 0:
            raise DemoError("\n    ".join([f"{name} failed. The end of {path}:", *last_lines(path, 20)]))

    # --- the start, in order --------------------------------------------------------------------

    def database(self) -> None:
        """The database that DATABASE_URL names, or an embedded one under the folder."""
        if self.environment.get("DATABASE_URL"):
            return
        postgres = Postgres(self.home)
        postgres.prepare()
        self.servers.append(postgres)
        if (self.home / "pg").is_symlink():
            say(f"The database's files are in {postgres.data.parent}: its user cannot reach {self.home}.")
        child = Child("postgres", postgres.start, self.log("postgres"), ends_on=signal.SIGINT, patience=60)
        self.supervisor.add(child)
        if not self.supervisor.wait_for(postgres.answers, 60):
            self.give_up("PostgreSQL did not start.", child.log)
        postgres.create(DATABASE)
        self.tell(DATABASE_URL=postgres.url(DATABASE))

    def broker(self) -> None:
        """The broker that CELERY_BROKER_URL names, or an embedded Valkey."""
        if self.environment.get("CELERY_BROKER_URL"):
            return
        valkey = Valkey(self.home / "valkey")
        valkey.prepare()
        self.servers.append(valkey)
        child = self.supervisor.add(Child("valkey", valkey.start, self.log("valkey"), patience=5))
        if not self.supervisor.wait_for(valkey.answers, 20):
            self.give_up("Valkey did not start.", child.log)
        self.tell(CELERY_BROKER_URL=valkey.url())

    def tell(self, **found: str) -> None:
        """Hand an address to our children, and to commands in other terminals."""
        self.environment.update(found)
        self.found.update(found)
        path = self.home / "demo.env"
        fresh = path.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text("".join(f"{name}={value}\n" for name, value in self.found.items()))
        fresh.replace(path)

    def give_up(self, why: str, log: Path) -> None:
        """Raise Stopped if we were told to stop, else DemoError with the end of a log."""
        if self.supervisor.stopping:
            raise Stopped
        raise DemoError("\n    ".join([f"{why} The end of {log}:", *last_lines(log, 20)]))

    def web(self) -> str:
        """Start web server, worker and beat; returns the address once its login page has answered."""
        # Kept open by us, so that the port stays ours while the web server is started again.
        self.listening = bound = listener(self.host, self.port)
        bound.set_inheritable(True)
        number, port = bound.fileno(), bound.getsockname()[1]
        reach = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        address = f"http://[{reach}]:{port}/" if ":" in reach else f"http://{reach}:{port}/"
        if not self.environment.get("INQUEST_DRILL_URL"):
            self.tell(INQUEST_DRILL_URL=address)
        gunicorn = ["-m", "gunicorn", "-c", "python:attribution_site.gunicorn_conf", "--preload"]
        child = self.child("web", *gunicorn, "--bind", f"fd://{number}", "attribution_site.wsgi", keep=(number,))
        self.child(
            "worker", *CELERY, "worker", "--concurrency", "2", "-Q", "inquest,inquest-collect,inquest-recovery",
            "--without-mingle", "--without-gossip",
        )  # fmt: skip
        if not self.supervisor.wait_for(lambda: answers(reach, port), 90):
            self.give_up("The web server does not answer.", child.log)
        self.supervisor.wait_for(self.worked_off, 30)
        # Last, since the first page does not need it and two cores are soon full.
        self.child("beat", *CELERY, "beat")
        return address

    def worked_off(self) -> bool:
        """Whether no attribution is waiting: the first page shall show the samples' verdicts."""
        with psycopg.connect(self.environment["DATABASE_URL"], connect_timeout=5) as connection:
            return connection.execute(OPEN_REQUESTS).fetchone() is None

    def run(self) -> None:
        """Start everything, say where it is, and keep it running."""
        self.supervisor.listen()
        try:
            say(f"Starting Inquest in {self.home} …")
            self.database()
            self.broker()
            self.once("prepare", "-m", "django", "prepare_demo", show=True)
            address = self.web()
            say(f"Logs are in {self.home / 'log'}. Ctrl-C ends everything; what was stored stays.")
            say(f"Inquest answers at {address}")
            self.supervisor.watch()
        except Stopped:
            say("Stopped while starting.")
        finally:
            self.stop()

    def new_passwords(self) -> None:
        """Give the accounts new passwords, with only the database started."""
        self.supervisor.listen()
        try:
            self.database()
            self.once("prepare", "-m", "django", "prepare_demo", "--new-passwords", show=True)
        except Stopped:
            say("Stopped before any password was changed.")
        finally:
            self.stop()

    def stop(self) -> None:
        """End all children, those that use a server before the server."""
        say("Ending …")
        (self.home / "demo.env").unlink(missing_ok=True)
        names = {child.name for child in self.supervisor.children}
        self.supervisor.end(*(names - {"postgres", "valkey"} or {""}))
        self.supervisor.end()
        for server in self.servers:
            server.release()
        say("Everything has ended; what was stored is kept.")


CELERY = ("-m", "celery", "-A", "attribution_site.celery", "--quiet")


def answers(host: str, port: int) -> bool:
    """Whether the login page is there."""
    connection = http.client.HTTPConnection(host, port, timeout=20)
    try:
        connection.request("GET", "/accounts/login/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def running(home: Path) -> str:
    """What the demo that holds the folder's lock says of itself."""
    return (home / "demo.lock").read_text().strip()


def main() -> None:
    """Parse the command line, take the folder's lock, and run."""
    parser = argparse.ArgumentParser(prog="python -m attribution_site.demo", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; the next free one if it is taken")
    parser.add_argument("--new-passwords", action="store_true", help="only give the accounts new passwords")
    parser.add_argument("--with-parent", action="store_true", help="end when the starting process ends")
    options = parser.parse_args()
    home = Path(os.environ.get("INQUEST_DATA_DIR") or BASE / "var").resolve()
    home.mkdir(parents=True, exist_ok=True)
    if options.with_parent:
        follow_parent(signal.SIGTERM)
    adopt_orphans()
    demo = Demo(home, options.host, options.port)
    with ExitStack() as stack:
        lock = stack.enter_context((home / "demo.lock").open("a+"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not options.new_passwords:
                sys.exit(f"A demo is already running in {home}.")
            command = [sys.executable, "-m", "django", "prepare_demo", "--new-passwords"]
            sys.exit(subprocess.run(command, cwd=BASE, env=demo.environment, check=False).returncode)
        try:
            demo.new_passwords() if options.new_passwords else demo.run()
        except (DemoError, EmbeddedError) as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
