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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from psycopg.conninfo import conninfo_to_dict

from recovery.actuators.slurm import Slurm
from recovery.actuators.slurm_ways import Ways
from recovery.actuators.stepper import Turn
from recovery.models import Action, Exclusion, LedgerEntry, Milestone, Proposal
from recovery.policies import find as policy_find
from recovery.policies import promote
from recovery.policies import record as policies
from recovery.progress import record as progress
from recovery.progress.record import Sign
from recovery.words import ActionKind, EntryKind, PolicyMode, Via
from rules.words import Domain
from tests.real.running import Site, a_site
from tests.real.slurm_cluster import SlurmCluster, eventually, slurm_cluster
from tests.recovery.test_stepper import Run, an_aim
from tests.verdicts.builders import a_user
from verdicts.collectors.server import Server
from verdicts.collectors.slurm_commands import Commands
from verdicts.models import Attempt

STEPS = ("requeue_hold", "mark", "exclude", "release")
#: Fails at once, and runs on when it is started again.
FAILS_FIRST = '[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || exit 1; sleep 600'


CLUSTERS = """
[[cluster]]
name = "alpha"
settle = 1
deadline = 40
[[cluster.discovery]]
kind = "slurm"
name = "slurm"
every = 1
first_look = 60
commands = {{ conf = "{conf}" }}
[[cluster.source]]
kind = "files"
name = "kernel"
source = "syslog"
lag = 0
root = "{logs}"
paths = ["{{node}}.log"]
[[cluster.source]]
kind = "files"
name = "output"
source = "applog"
lag = 0
root = "{jobs}"
paths = ["slurm-{{job_id}}.out"]
"""


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
        clusters = made.home / "clusters.toml"
        logs = made.home / "kernel"
        logs.mkdir()
        clusters.write_text(CLUSTERS.format(conf=slurm.conf, logs=logs, jobs=slurm.home / "jobs"))
        made.settings = {
            "INQUEST_RECOVERY_FILE": str(file),
            "INQUEST_CLUSTERS_FILE": str(clusters),
            "INQUEST_VERIFY_SECONDS": "1",
            "INQUEST_WATCH_SECONDS": "1",
        }
        yield made


@pytest.fixture
def inside(site: Site, django_db_blocker: Any) -> Iterator[None]:
    """Have this process's own Django at the site's database: what people do is done here, through the same code."""
    parts = conninfo_to_dict(site.postgres.url("inquest"))
    settings, before = connection.settings_dict, dict(connection.settings_dict)
    connection.close()
    settings |= {"NAME": parts["dbname"], "USER": parts.get("user", ""), "HOST": parts.get("host", "")}
    settings |= {"PASSWORD": parts.get("password") or "", "PORT": str(parts.get("port") or "")}
    with django_db_blocker.unblock():
        yield
        connection.close()
    settings |= before


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


# The whole way

#: A training: it fails a moment after it began; started again it goes on until it is told to end, and ends well.
TRAINING = """
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then
    while [ ! -e {done} ]; do sleep 0.2; done
    exit 0
fi
sleep 4
echo "RuntimeError: CUDA error: unspecified launch failure"
exit 1
"""
LOST = (
    "{at} {node} kernel: NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)


def train_and_lose_a_gpu(slurm: SlurmCluster, site: Site, name: str) -> tuple[str, str]:
    """A job that fails just after its node's kernel said why; the job and the node."""
    script = TRAINING.format(done=slurm.home / "jobs" / f"{name}.done")
    job = slurm.submit(script, "--requeue", "-J", name, "--mem=50", "-x", "gpu-04")
    slurm.in_state(job, "RUNNING")
    node = shown(slurm, job)["nodes"]
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    (site.home / "kernel" / f"{node}.log").write_text(LOST.format(at=at, node=node) + "\n")
    slurm.in_state(job, "FAILED")
    return job, node


def proposed(job: str, state: str) -> Proposal | None:
    return Proposal.objects.filter(attempt__job_id=job, state=state).select_related("attempt").first()


def test_from_a_planted_kernel_log_to_a_completed_training_each_step_with_its_own_time(
    slurm: SlurmCluster, site: Site, inside: None
) -> None:
    author, lead, operator = a_user("author", "policy admin"), a_user("lea", "lead"), a_user("op", "operator")
    body = {
        "match": {"domains": ["gpu_hardware"], "strengths": ["strong", "moderate"]},
        "action": "restart_excluding",
        "caps": {"cooldown_minutes": 1},
    }

    def told() -> str:
        rows = site.ask("SELECT job_id, restart_count, state, ended_at FROM verdicts_attempt ORDER BY created_at")
        rows += site.ask("SELECT headline, strength, created_at FROM verdicts_verdict ORDER BY created_at")
        rows += site.ask("SELECT at, said FROM recovery_consideration ORDER BY at")
        rows += site.ask("SELECT mark, outcome, why, calls FROM recovery_action ORDER BY created_at")
        rows += site.ask("SELECT name, notes, error FROM verdicts_discovery")
        return "\n".join(map(str, rows)) + site.logs()

    policy = policies.create("without-the-gpu", body, by=author, reason="to see it work")
    site.start_celery(
        "worker", "worker", "-P", "threads", "--concurrency", "6", "-Q", "inquest,inquest-collect,inquest-recovery",
        "--without-mingle", "--without-gossip",
    )  # fmt: skip
    site.start_beat()
    eventually(lambda: site.ask("SELECT 1 FROM verdicts_discovery WHERE succeeded_at IS NOT NULL"), 120, told)

    # It observes: what it would do is recorded, and Slurm hears nothing of it.
    job, node = train_and_lose_a_gpu(slurm, site, "observed")
    seen = eventually(lambda: proposed(job, "observed"), 90, told)
    assert seen.nodes == [node] and seen.mode == PolicyMode.OBSERVE
    assert shown(slurm, job)["restart_cnt"] == 0
    calls = [line for line in slurm.log.read_text().splitlines() if f"JobId={job} " in line or f"JobId={job}:" in line]
    assert not [line for line in calls if "requeue" in line.lower() or "_update_job" in line], calls
    assert not Action.objects.filter(proposal__attempt__job_id=job).exists()

    # It advises: a person approves what was shown, who is not the one who wrote it.
    scope = policies.scope_for(policy_find.present(policy), "alpha", Domain.GPU_HARDWARE.value)
    promote.ask_promotion(scope.pk, PolicyMode.ADVISORY, by=lead, reason="it was right so far")
    job, node = train_and_lose_a_gpu(slurm, site, "advised")
    waiting = eventually(lambda: proposed(job, "open"), 90, told)
    assert waiting.nodes == [node]
    assert shown(slurm, job)["restart_cnt"] == 0, "nothing is done before somebody decides"
    first = waiting.attempt
    progress.post(first, [Sign(rank=0, step=120, checkpoint_step=100)], Via.POST)

    def decided(by: Any) -> int:
        client = Client()
        client.force_login(by)
        said = {"decision": "approve", "seen": waiting.plan_sha256}
        address = f"/api/v1/recovery/proposals/{waiting.pk}/decision"
        answer = client.post(address, json.dumps(said), content_type="application/json", HTTP_HOST="localhost")
        return answer.status_code

    assert decided(a_user("vie", "viewer")) == 403
    assert decided(operator) == 200
    # The broker of this process is not the site's: its dispatcher is woken by the sweep.
    Action.objects.update(sent_at=None)
    action = eventually(lambda: Action.objects.filter(proposal=waiting, outcome="converged").first(), 60, told)
    exclusion = Exclusion.objects.get(proposal=waiting)
    assert (exclusion.node, exclusion.kind, exclusion.state) == (node, "job", "standing")

    def milestones() -> dict[str, Milestone]:
        return {one.kind: one for one in Milestone.objects.filter(action=action)}

    eventually(lambda: "allocation_restarted" in milestones(), 60, told)
    after = milestones()["allocation_restarted"].attempt
    assert after is not None and after.restart_count == 1
    assert node not in set(after.nodes.values_list("name", flat=True))
    assert shown(slurm, job)["nodes"] not in (node, "gpu-04"), "what the user left out stays left out"
    progress.post(after, [Sign(rank=0, step=100)], Via.POST)
    progress.post(after, [Sign(rank=0, step=101, at=datetime.now(UTC).isoformat())], Via.POST)
    eventually(lambda: "progress_restored" in milestones(), 60, told)
    (slurm.home / "jobs" / "advised.done").touch()
    eventually(lambda: "completed" in milestones(), 60, told)

    times = [milestones()[name] for name in ("action_done", "allocation_restarted", "progress_restored", "completed")]
    # Slurm's times are whole seconds.
    happened = [one.at.replace(microsecond=0) for one in times]
    assert happened == sorted(happened) and len({one.at for one in times}) == 4
    assert all(one.observed_at >= one.at.replace(microsecond=0) for one in times)
    kinds = set(LedgerEntry.objects.filter(attempt=first.pk).values_list("kind", flat=True))
    assert kinds >= {
        EntryKind.EXCLUSION_MADE,
        EntryKind.PROPOSAL_MADE, EntryKind.PROPOSAL_APPROVED, EntryKind.ACTION_INTENDED, EntryKind.ACTION_SENT,
        EntryKind.ACTION_OBSERVED, EntryKind.PROPOSAL_CLOSED, EntryKind.MILESTONE,
    }  # fmt: skip
    assert Attempt.objects.filter(job_id=job).count() == 2
    # What follows has a dispatcher of its own.
    site.kill("worker")
    site.kill("beat")


# Whatever dies


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

    eventually(ended, 120, lambda: f"not ended: {outcomes(site)}\n{site.logs()}")
    assert dispatcher.deaths == len(places), "it died at each step"
    assert {outcomes(site)[mark] for mark in marks.values()} == {"converged"}, site.logs()
    for job, mark in marks.items():
        restarted(slurm, job, mark)
        assert shown(slurm, job)["comment"] == '{"run": "a"}', "the user's own comment stays"
    exclusions = site.ask(
        "SELECT count(*), count(DISTINCT proposal_id) FROM recovery_exclusion JOIN recovery_action"
        " USING (proposal_id) WHERE mark = ANY(%s)",
        list(marks.values()),
    )
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
            eventually(unknown, 60, site.logs)
            assert outcomes(site)[mark] in ("unknown", "sent")
        finally:
            # It takes the call only now, long after its sender has given up waiting.
            os.kill(controller, signal.SIGCONT)

    def ended() -> bool:
        return outcomes(site)[mark] == "converged"

    eventually(ended, 60, site.logs)
    restarted(slurm, job, mark)
    assert [call["step"] for call in calls()] == ["requeue_hold", "mark", "exclude", "release"], "nothing was repeated"
    slurm.run("scancel", job)


# By slurmrestd, and on nodes


def to_the_end(run: Run) -> str:
    """Turn by turn until it ends; how it ended."""
    last: list[Any] = []

    def ended() -> bool:
        last.append(run.turn())
        return last[-1] is not None and last[-1].turn is Turn.END

    eventually(ended, 60, lambda: f"{last[-3:]} {run.calls}")
    return str(last[-1].outcome)


def test_slurmrestd_is_asked_and_cancels_and_a_node_is_drained_when_no_job_runs_there(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(slurm.token())
    ways = Ways(Server(url=slurm.rest_url, token_file=str(token)), Commands(conf=str(slurm.conf)))
    way = Slurm(ways, can=frozenset(ActionKind), partitions=frozenset({"train"}), settle=30, deadline=300)
    job = slurm.submit("sleep 600", "--mem=50")
    slurm.in_state(job, "RUNNING")
    seen, node = shown(slurm, job), shown(slurm, job)["nodes"]
    assert way.probe().startswith("Slurm 2")
    by_rest, by_commands = ways.job(job), Ways(None, ways.commands).job(job)
    assert by_rest == by_commands and by_rest is not None and by_rest.batch and not by_rest.held
    assert ways.job("99999") is None
    four = frozenset(f"gpu-0{number}" for number in range(1, 5))
    assert ways.partitions() == Ways(None, ways.commands).partitions() == {"train": four, "urgent": four}

    about = {"job_id": job, "submitted": datetime.fromtimestamp(seen["submit_time"], UTC), "mark": "inquest-real-1"}
    drain = Run(way=way, aim=an_aim(ActionKind.DRAIN, **about, nodes=(node,), reason="gpu.off-the-bus"))
    assert f"jobs run on {node}" in drain.turn().why  # type: ignore[union-attr]
    assert to_the_end(Run(way=way, aim=an_aim(ActionKind.STOP, **about))) == "converged"
    assert "REQUEST_KILL_JOB" in slurm.log.read_text() and slurm.state(job) in ("CANCELLED", "COMPLETING")
    assert to_the_end(drain) == "converged"
    assert "inquest-real-1 gpu.off-the-bus" in slurm.run("scontrol", "show", "node", node)
    other = {**about, "mark": "inquest-real-2", "nodes": (node,)}
    theirs = Run(way=way, aim=an_aim(ActionKind.UNDRAIN, **other, undoes=frozenset({"inquest-other"})))
    assert to_the_end(theirs) == "already_so", "what is not ours is not undrained"
    ours = Run(way=way, aim=an_aim(ActionKind.UNDRAIN, **other, undoes=frozenset({"inquest-real-1"})))
    assert to_the_end(ours) == "converged"
    assert "DRAIN" not in slurm.run("sinfo", "-h", "-n", node, "-o", "%T").upper()
