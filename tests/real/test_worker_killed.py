"""Workers, database and broker killed at the worst moment: one standing verdict in the end, and soon.

Everything runs for real, each test with servers of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.real.running import SAMPLES, Site, a_site, eventually

#: A killed worker's lease, a sweep and a start: far below the hour a broker would take.
SOON = 90


@pytest.fixture
def site() -> Iterator[Site]:
    with a_site() as made:
        yield made


def test_a_worker_killed_before_it_writes_is_replaced_by_the_next(site: Site) -> None:
    [attempt] = site.ingest("xid149")
    with site.held(attempt):
        site.start_worker()
        site.start_beat()
        eventually(site.writing, SOON, f"no worker took it\n{site.logs()}")
        site.kill("worker")
    assert site.verdicts() == []
    site.start_worker()
    eventually(site.settled, SOON, f"it was not taken up again\n{site.logs()}")
    assert site.verdicts() == [(1, True)]
    assert site.ask("SELECT tries, fence FROM verdicts_attributionrequest") == [(2, 2)]


def test_a_killed_child_of_a_worker_is_made_up_for(site: Site) -> None:
    [attempt] = site.ingest("host-oom")
    with site.held(attempt):
        site.start_worker()
        site.start_beat()
        eventually(site.writing, SOON, f"no worker took it\n{site.logs()}")
        [(owner,)] = site.ask("SELECT lease_owner FROM verdicts_attributionrequest")
        os.kill(int(owner.split(":")[1]), signal.SIGKILL)
    eventually(site.settled, SOON, f"it was not taken up again\n{site.logs()}")
    assert site.verdicts() == [(1, True)]


def test_a_database_killed_while_a_verdict_is_written_loses_and_doubles_nothing(site: Site) -> None:
    [attempt, *_] = site.ingest("two-causes", "clean-success")
    with contextlib.suppress(psycopg.OperationalError), site.held(attempt):
        site.start_worker()
        site.start_beat()
        eventually(site.writing, SOON, f"no worker took it\n{site.logs()}")
        site.kill("postgres")
    site.start_postgres()
    eventually(site.settled, SOON, f"it was not taken up again\n{site.logs()}")
    assert site.verdicts() == [(1, True), (1, True)]


def test_a_broker_that_is_away_neither_fails_nor_loses_an_ingest(site: Site) -> None:
    site.kill("valkey")
    began = time.monotonic()
    site.ingest("clean-success")
    assert time.monotonic() - began < 30
    assert site.states() == ["pending"]
    site.start_valkey()
    site.start_worker()
    site.start_beat()
    eventually(site.settled, SOON, f"it was not taken up\n{site.logs()}")
    assert site.verdicts() == [(1, True)]


def test_two_workers_and_two_beats_make_each_verdict_once(site: Site) -> None:
    names = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
    for number in (1, 2):
        site.start_worker(f"worker{number}")
        site.start_beat(f"beat{number}")
    site.ingest(*names)
    site.ingest(*names)
    eventually(site.settled, SOON, f"not all were done\n{site.logs()}")
    assert site.verdicts() == [(1, True)] * len(names)
