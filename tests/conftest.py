"""What all tests share: a PostgreSQL of their own where none is given, and a clean cache."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connections
from django.test import TransactionTestCase
from psycopg.conninfo import conninfo_to_dict

from tests.database import NAME, AsMigrated, copy_migrated, started
from verdicts.clusters import cluster_row


def pytest_configure() -> None:
    """Who ends a run, as CI does with lanes, ends it like Ctrl-C: servers are ended and folders removed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """DATABASE_URL, or that of an embedded PostgreSQL which lives as long as the test run and is migrated already."""
    if url := os.environ.get("DATABASE_URL"):
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="inquest-pg-") as folder:
        copy_migrated(Path(folder) / "pg")
        with started(Path(folder)) as postgres:
            yield postgres.url(NAME)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_url: str) -> None:
    """Point Django at that server, before a test database is made there."""
    parts = conninfo_to_dict(postgres_url)
    settings = connections["default"].settings_dict
    settings["HOST"] = str(parts.get("host") or "")
    settings["PORT"] = str(parts.get("port") or "")
    settings["USER"] = str(parts.get("user") or "")
    settings["PASSWORD"] = str(parts.get("password") or "")
    settings["NAME"] = str(parts.get("dbname") or settings["NAME"])
    settings["TEST"]["NAME"] = "test_inquest"


@pytest.fixture(scope="session")
def django_db_setup(
    request: pytest.FixtureRequest,
    django_test_environment: None,
    django_db_modify_db_settings: None,
    django_db_blocker: pytest.DjangoDbBlocker,
) -> Iterator[None]:
    """Make a test database on a server that was given; our own has one. Tests that commit leave it as it was made."""
    if os.environ.get("DATABASE_URL"):
        request.getfixturevalue("django_db_setup")
    with pytest.MonkeyPatch.context() as patched:
        with django_db_blocker.unblock():
            with connections["default"].cursor() as cursor:
                # The ledger refuses to be emptied: here alone it does not.
                for table in ("ledgerentry", "ledgerlink", "ledgercheckpoint", "ledgercontent"):
                    cursor.execute(f"ALTER TABLE recovery_{table} DISABLE TRIGGER never_truncated")
            as_migrated = AsMigrated()
        patched.setattr(TransactionTestCase, "_fixture_teardown", lambda _: as_migrated.put_back())
        yield
    with django_db_blocker.unblock():
        connections.close_all()


@pytest.fixture(autouse=True)
def _clean_cache() -> Iterator[None]:
    """Counters of throttles and wrong passwords start at nought in each test; no row is remembered that went with it."""
    yield
    cache.clear()
    cluster_row.cache_clear()
