"""The tests' database: migrated once for all that run tests here, and put back to that after a test that commits.

Migrations take a quarter of a minute. Their outcome is kept as the files of a server that was ended well, and each
run starts with a copy.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection, transaction

from attribution_site.embedded import Postgres

BASE = Path(__file__).resolve().parent.parent
#: What is kept, one folder for each outcome of migrations; only the newest stays.
KEPT = BASE / "var" / "test-database"
NAME = "inquest"
#: What migrations make hangs on these, and on nothing else.
_DECIDES = (
    "*/migrations/*.py",
    "*/models/*.py",
    "requirements/*.lock",
    "attribution_site/embedded.py",
    "attribution_site/settings.py",
    "tests/database.py",
)


def copy_migrated(to: Path) -> None:
    """Copy the data of a server whose database `NAME` is migrated, making them first where nobody has."""
    KEPT.mkdir(parents=True, exist_ok=True)
    wanted = hashlib.sha256()
    for path in sorted(path for pattern in _DECIDES for path in BASE.glob(pattern)):
        wanted.update(f"{path.relative_to(BASE)}\0".encode() + path.read_bytes() + b"\0")
    kept = KEPT / wanted.hexdigest()[:16]
    # Whoever comes while another makes them waits for that, and nobody's copy is removed while it is read.
    with (KEPT.parent / "test-database.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            for old in KEPT.iterdir():
                shutil.rmtree(old)
            _make(kept)
        _copy(kept, to)


def _make(kept: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="inquest-pg-") as folder:
        with started(Path(folder)) as postgres:
            postgres.create(NAME)
            environment = os.environ | {
                "DATABASE_URL": postgres.url(NAME),
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "PYTHONPATH": str(BASE),
            }
            subprocess.run(
                [sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=BASE, env=environment, check=True
            )
        unfinished = kept.with_name(f"{kept.name}.new")
        _copy(postgres.data, unfinished)
        unfinished.rename(kept)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)


@contextmanager
def started(home: Path) -> Iterator[Postgres]:
    """A PostgreSQL that need not survive a power cut, in a folder of its own, ended well."""
    home.chmod(0o755)
    postgres = Postgres(home, durable=False)
    postgres.prepare()
    said = home / "postgres.log"
    with said.open("wb") as log:
        server = postgres.start(log)
        try:
            deadline = time.monotonic() + 60
            while not postgres.answers():
                assert server.poll() is None, said.read_text()
                assert time.monotonic() < deadline, "PostgreSQL is not up after a minute"
                time.sleep(0.02)
            yield postgres
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
            postgres.release()


class AsMigrated:
    """The database as migrations left it, to be put back to that.

    Django's own way empties all hundred tables, with the roles that migrations made. Here only those lose their rows
    that have some, and what migrations put there stays as it was.
    """

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT format('%I', relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
                " AND relkind = 'r' AND relname <> 'django_migrations' ORDER BY 1"
            )
            self.tables = [str(table) for (table,) in cursor.fetchall()]
            # What refuses to lose rows one by one, whoever asks.
            cursor.execute("SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger WHERE tgenabled = 'A'")
            self.guarded = {str(table) for (table,) in cursor.fetchall()}
            cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
            self.superuser = cursor.fetchone() == (True,)
            cursor.execute("CREATE SCHEMA IF NOT EXISTS as_migrated")
            self.kept = self._with_rows()
            for table in self.kept:
                cursor.execute(f"CREATE TABLE IF NOT EXISTS as_migrated.{table} AS TABLE public.{table}")

    def _with_rows(self) -> list[str]:
        asked = " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in self.tables)  # noqa: S608
        with connection.cursor() as cursor:
            cursor.execute(asked)
            return [table for (table,) in cursor.fetchall()]

    def put_back(self) -> None:
        """Empty what has rows, and put back those of migrations."""
        with transaction.atomic(), connection.cursor() as cursor:
            # Who still writes ends first.
            cursor.execute(f"LOCK TABLE {', '.join(self.tables)} IN EXCLUSIVE MODE")
            found = self._with_rows()
            if self.superuser:
                # Without triggers, so without foreign keys: far cheaper than TRUNCATE, which goes on to all that refer.
                cursor.execute("SET LOCAL session_replication_role = replica")
            whole = [table for table in found if table in self.guarded or not self.superuser]
            if whole:
                cursor.execute(f"TRUNCATE {', '.join(whole)} CASCADE")
            for table in found:
                if table not in whole:
                    cursor.execute(f"DELETE FROM {table}")  # noqa: S608
            for table in self.kept:
                cursor.execute(f"INSERT INTO {table} TABLE as_migrated.{table}")
