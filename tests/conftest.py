"""What all tests share: a PostgreSQL of their own where none is given, and a clean cache."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

from attribution_site.embedded import Postgres
from verdicts.clusters import cluster_row


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """DATABASE_URL, or that of an embedded PostgreSQL which lives as long as the test run."""
    if url := os.environ.get("DATABASE_URL"):
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="inquest-pg-") as folder:
        Path(folder).chmod(0o755)
        postgres = Postgres(Path(folder), durable=False)
        postgres.prepare()
        with open(Path(folder) / "postgres.log", "wb") as log:
            server = postgres.start(log)
            try:
                deadline = time.monotonic() + 60
                while not postgres.answers():
                    assert server.poll() is None, (Path(folder) / "postgres.log").read_text()
                    assert time.monotonic() < deadline, "PostgreSQL is not up after a minute"
                    time.sleep(0.02)
                yield postgres.url("postgres")
            finally:
                server.send_signal(signal.SIGINT)
                server.wait(30)
                postgres.release()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_url: str) -> None:
    """Point Django at that server, before pytest-django makes the test database."""
    parts = conninfo_to_dict(postgres_url)
    settings = connections["default"].settings_dict
    settings["HOST"] = str(parts.get("host") or "")
    settings["PORT"] = str(parts.get("port") or "")
    settings["USER"] = str(parts.get("user") or "")
    settings["PASSWORD"] = str(parts.get("password") or "")
    settings["NAME"] = str(parts.get("dbname") or settings["NAME"])
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    settings["TEST"]["NAME"] = "_".join(filter(None, ["test_inquest", worker]))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: pytest.DjangoDbBlocker) -> None:
    """Tests that commit are cleaned up by TRUNCATE, which the ledger refuses: here alone it does not."""
    with django_db_blocker.unblock(), connections["default"].cursor() as cursor:
        for table in ("ledgerentry", "ledgerlink", "ledgercheckpoint", "ledgercontent"):
            cursor.execute(f"ALTER TABLE recovery_{table} DISABLE TRIGGER never_truncated")


@pytest.fixture(autouse=True)
def _clean_cache() -> Iterator[None]:
    """Counters of throttles and wrong passwords start at nought in each test; no row is remembered that went with it."""
    yield
    cache.clear()
    cluster_row.cache_clear()
