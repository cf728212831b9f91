"""Everything killed at random while hundreds of attempts are found, collected and attributed: one standing verdict each.

Every run of CI does it with two hundred, so as to be done in time. What the product promises was measured with five
hundred: `INQUEST_KILLED_ATTEMPTS=500 make test-real ARGS="-k survive_random_kills"`.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.bench.pipeline import a_kernel_loki, a_loki, configure, write_attempts
from tests.real.running import Site, a_site, eventually

ATTEMPTS = int(os.environ.get("INQUEST_KILLED_ATTEMPTS", "200"))
NODES = 2
#: Kills while each hundred of them comes in: counted, not timed, or a slow machine would see fewer.
KILLS = 6
#: A killed worker's lease, a sweep and the work itself.
MOST_SECONDS = 300

DONE = "SELECT count(*) FROM verdicts_verdict WHERE is_current"
OPEN = """
SELECT (SELECT count(*) FROM verdicts_collection WHERE finished_at IS NULL)
     + (SELECT count(*) FROM verdicts_attributionrequest WHERE state IN ('pending', 'running'))
"""


def _finished(site: Site) -> bool:
    _start_workers(site)
    return bool(site.ask(DONE)[0][0] == ATTEMPTS and site.ask(OPEN)[0][0] == 0)


def _start_workers(site: Site) -> None:
    """Start what does not run, as a service manager does."""
    for name in [name for name, process in site.running.items() if process.poll() is not None]:
        del site.running[name]
    for name, start in (("collector", site.start_collector), ("worker", site.start_worker)):
        for number in (1, 2):
            if f"{name}{number}" not in site.running:
                start(f"{name}{number}")
    for name in ("beat1", "beat2"):
        if name not in site.running:
            site.start_beat(name)


@pytest.mark.parametrize("seed", [2])
def test_hundreds_of_attempts_survive_random_kills_of_workers_broker_and_database(seed: int) -> None:
    chance = random.Random(seed)
    with a_loki(NODES, 200) as app, a_kernel_loki(NODES, 200) as kernel, a_site() as site:
        folder = configure(site, app.url, kernel.url)
        _start_workers(site)
        killed: list[str] = []
        deadline = time.monotonic() + MOST_SECONDS
        for first in range(0, ATTEMPTS, 100):
            write_attempts(folder, first, 100, NODES)
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.5, 2.5))
                victim = chance.choice(
                    ["collector1", "collector2", "worker1", "worker2", "beat1", "valkey", "postgres"]
                )
                site.kill(victim)
                killed.append(victim)
                if victim == "postgres":
                    site.start_postgres()
                elif victim == "valkey":
                    site.start_valkey()
                _start_workers(site)
        eventually(lambda: _finished(site), deadline - time.monotonic(), f"not finished after {killed}\n{site.logs()}")
        rows = site.ask("SELECT attempt_id, count(*) FROM verdicts_verdict WHERE is_current GROUP BY 1")
        assert len(rows) == ATTEMPTS
        assert {number for _, number in rows} == {1}
        assert site.ask("SELECT count(*) FROM verdicts_attempt")[0][0] == ATTEMPTS
        # No source answered short: every attempt has the same evidence, however often its collection began anew.
        kept = site.ask("SELECT DISTINCT count(*) FROM verdicts_observation GROUP BY attempt_id")
        told = site.ask("SELECT DISTINCT source, status FROM verdicts_collectorreport ORDER BY 1")
        assert [status for _, status in told] == ["ok", "ok"], told
        assert len(kept) == 1, kept
        assert {"collector1", "worker1"} & set(killed)
