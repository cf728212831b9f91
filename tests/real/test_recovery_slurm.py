"""Recovery on a real Slurm: one effect whatever dies or times out, and nothing left held.

`make test-real ARGS=tests/real/test_recovery_slurm.py` runs this suite alone; it needs root and Debian's packages.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.running import Site, a_site, eventually
from tests.real.slurm_cluster import SlurmCluster, slurm_cluster

STEPS = ("requeue_hold", "mark", "exclude", "release")
#: Fails at once, and runs on when it is started again.
FAILS_FIRST = '[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || exit 1; sleep 600'


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with slurm_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def site(slurm: SlurmCluster) -> Iterator[Site]:
    """A site whose dispatcher may act on that Slurm."""
    with a_site() as made:
        file = made.home / "recovery.toml"
        file.write_text(
            f"""
            [[cluster]]
            name = "alpha"
            [cluster.actuator]
            kind = "slurm"
            settle = 6
            commands.conf = "{slurm.conf}"
            commands.seconds = 4
            """
        )
        made.settings = {"INQUEST_RECOVERY_FILE": str(file), "LOG_LEVEL": "INFO"}
        yield made


class Dispatcher:
    """The dispatcher's process, of which another takes the place whenever it has died."""

    def __init__(self, site: Site) -> None:
        self.folder = site.home / "dies"
        self.folder.mkdir()
        with (site.home / "dispatcher.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.real.dying_dispatcher", str(self.folder)],
                cwd=site.home,
                env=site.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def deaths(self) -> int:
        file = self.folder / "deaths"
        return int(file.read_text()) if file.exists() else 0

    def end(self) -> None:
        self.process.kill()
        self.process.wait(20)
        shutil.rmtree(self.folder)


@pytest.fixture
def dispatcher(site: Site) -> Iterator[Dispatcher]:
    made = Dispatcher(site)
    yield made
    made.end()


def shown(slurm: SlurmCluster, job: str) -> dict[str, Any]:
    """A job as the controller has it."""
    jobs = json.loads(slurm.run("squeue", "--all", "--states=all", "--json"))["jobs"]
    return next(one for one in jobs if str(one["job_id"]) == job)


def begin(site: Site, slurm: SlurmCluster, node: str, *jobs: str) -> dict[str, str]:
    """Begin a restart of each job without the node; the mark of each."""
    named = [f"{job}@{shown(slurm, job)['submit_time']}" for job in jobs]
    said = site.run(sys.executable, "-m", "tests.real.begin_actions", node, *named)
    return dict(zip(jobs, said.split(), strict=True))


def outcomes(site: Site) -> dict[str, str]:
    return dict(site.ask("SELECT mark, outcome FROM recovery_action"))


def restarted(slurm: SlurmCluster, job: str, mark: str) -> None:
    """It was requeued once, runs, not on the node, with our mark, held by nobody."""
    slurm.in_state(job, "RUNNING")
    seen = shown(slurm, job)
    assert seen["restart_cnt"] == 1, seen
    assert seen["excluded_nodes"] == "gpu-01" and seen["nodes"] != "gpu-01", seen
    assert seen["priority"] > 0 and seen["admin_comment"].split() == [mark], seen


def test_a_dispatcher_killed_at_each_labelled_step_requeues_and_excludes_once(
    slurm: SlurmCluster, site: Site, dispatcher: Dispatcher
) -> None:
    places = [(step, when) for step in STEPS for when in ("before", "after")]
    # Jobs that have failed and jobs that still run are requeued alike.
    scripts = [FAILS_FIRST if number % 2 else "sleep 600" for number in range(len(places))]
    jobs = [slurm.submit(script, "--requeue", "--comment", '{"run": "a"}', "--mem=50") for script in scripts]
    for job, script in zip(jobs, scripts, strict=True):
        slurm.in_state(job, "FAILED" if script is FAILS_FIRST else "RUNNING")
    for job, (step, when) in zip(jobs, places, strict=True):
        (dispatcher.folder / f"{job}.{step}.{when}").touch()
    marks = begin(site, slurm, "gpu-01", *jobs)

    def ended() -> bool:
        return all(outcomes(site)[mark] in ("converged", "failed", "abandoned") for mark in marks.values())

    eventually(ended, 120, f"not ended: {outcomes(site)}\n{site.logs()}")
    assert dispatcher.deaths == len(places), "it died at each step"
    assert {outcomes(site)[mark] for mark in marks.values()} == {"converged"}, site.logs()
    for job, mark in marks.items():
        restarted(slurm, job, mark)
        assert shown(slurm, job)["comment"] == '{"run": "a"}', "the user's own comment stays"
    exclusions = site.ask("SELECT count(*), count(DISTINCT proposal_id) FROM recovery_exclusion")
    assert exclusions == [(len(jobs), len(jobs))]
    slurm.run("scancel", *jobs)


def test_a_controller_that_answers_too_late_has_requeued_once(
    slurm: SlurmCluster, site: Site, dispatcher: Dispatcher
) -> None:
    job = slurm.submit("sleep 600", "--requeue", "--mem=50")
    slurm.in_state(job, "RUNNING")
    controller = slurm.running["slurmctld"].pid
    for step in ("requeue_hold", "release"):
        (dispatcher.folder / f"{job}.{step}.freeze").write_text(str(controller))
    mark = begin(site, slurm, "gpu-01", job)[job]

    def calls() -> list[dict[str, Any]]:
        [(said,)] = site.ask("SELECT calls FROM recovery_action WHERE mark = %s", mark)
        return list(said)

    for step in ("requeue_hold", "release"):

        def unknown(step: str = step) -> bool:
            return any(call["step"] == step and call["answer"] == "maybe" for call in calls())

        try:
            eventually(unknown, 60, site.logs())
            assert outcomes(site)[mark] in ("unknown", "sent")
        finally:
            # It takes the call only now, long after its sender has given up waiting.
            os.kill(controller, signal.SIGCONT)

    def ended() -> bool:
        return outcomes(site)[mark] == "converged"

    eventually(ended, 60, site.logs())
    restarted(slurm, job, mark)
    assert [call["step"] for call in calls()] == ["requeue_hold", "mark", "exclude", "release"], "nothing was repeated"
    slurm.run("scancel", job)
