"""Against a real Slurm: jobs that end in every way become attempts and verdicts, by slurmrestd and by the commands.

`make test-real ARGS=tests/real/test_slurm.py` runs this suite alone; it needs root and Debian's packages.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from rules.attempt import Attempt, CollectorReport
from rules.engine import attribute
from rules.observation import Observation
from rules.ruleset import load_ruleset
from rules.words import ReportStatus, Source
from tests.real.running import Site, a_site, eventually
from tests.real.slurm_cluster import SUBMITTER, SlurmCluster, slurm_cluster
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.server import Server
from verdicts.collectors.sink import Sink
from verdicts.collectors.slurm import SlurmDiscovery, SlurmRecords
from verdicts.collectors.slurm_commands import Commands

#: No commands: what is read then came through slurmrestd.
NOWHERE = Commands(folder="/nonexistent")
PLAIN = ("-x", "gpu-03,gpu-04")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster() as running:
        yield running


@pytest.fixture
def slurm(cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster, with nothing running and everything up."""
    cluster.quiet()
    yield cluster
    cluster.quiet()


@dataclasses.dataclass
class Looks:
    """Looks by one way, one after another, and all that they told of each attempt, later words over earlier ones."""

    discovery: SlurmDiscovery
    cursor: dict[str, Any] = dataclasses.field(default_factory=dict)
    told: dict[tuple[str, str | None, int], Attempt] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    listed: frozenset[str] | None = None

    def look(self, seconds: float = 60) -> int:
        """One look; how many attempts there was something to tell of. Raises SourceError."""
        found = self.discovery.discover(self.cursor, datetime.now(UTC), Budget.of(seconds=seconds, megabytes=64))
        self.cursor = msgspec.json.decode(msgspec.json.encode(found.cursor))
        self.notes, self.listed = list(found.notes), found.listed
        for attempt in found.attempts:
            key = (attempt.job_id, attempt.submit_time, attempt.restart_count)
            before = self.told.get(key)
            said = (before.described() if before else {}) | attempt.described()
            self.told[key] = msgspec.convert(said, Attempt)
        return len(found.attempts)

    def of(self, job: str) -> list[Attempt]:
        """The attempts of a job in their order."""
        mine = [attempt for (name, _, _), attempt in self.told.items() if name == job]
        return sorted(mine, key=lambda attempt: attempt.restart_count)

    def over(self, *jobs: str) -> bool:
        """Whether, after another look, the last attempt of each job has ended."""
        self.look()
        return all((mine := self.of(job)) and mine[-1].end for job in jobs)


def by_commands(slurm: SlurmCluster) -> SlurmDiscovery:
    return SlurmDiscovery(name="slurm", commands=Commands(conf=str(slurm.conf)))


def by_token(slurm: SlurmCluster, commands: Commands = NOWHERE) -> SlurmDiscovery:
    server = Server(url=slurm.rest_url, token_file=str(slurm.token_file))
    return SlurmDiscovery(name="slurm", server=server, commands=commands)


def by_socket(slurm: SlurmCluster) -> SlurmDiscovery:
    server = Server(url="http://localhost", socket=str(slurm.rest_socket))
    return SlurmDiscovery(name="slurm", server=server, commands=NOWHERE)


WAYS = [by_commands, by_token, by_socket]


@dataclasses.dataclass
class Submitted:
    """Jobs that end in every way, by a name for the way."""

    jobs: dict[str, str]

    def __getitem__(self, way: str) -> str:
        return self.jobs[way]


def submit_all(slurm: SlurmCluster) -> Submitted:
    """Ten jobs and more, each with its own end; what has to be done to them from outside is done."""
    submit = slurm.submit
    jobs = {
        "preempted": submit("sleep 600", "-J", "preempted", "-N1", "--exclusive", "-w", "gpu-02"),
        "lost": submit("srun -N2 sleep 600", "-J", "lost", "-N2", "--exclusive", "-w", "gpu-03,gpu-04", "--no-requeue"),
        "requeued": submit("sleep 600", "-J", "requeued", "--requeue", "-w", "gpu-01"),
        "cancelled": submit("sleep 600", "-J", "cancelled", "-w", "gpu-01"),
        "limit": submit("sleep 600", "-J", "limit", "-t", "1", *PLAIN),
        "well": submit("true", "-J", "well", *PLAIN),
        "failed": submit("exit 13", "-J", "failed", "--comment", '{"run": "a"}', *PLAIN),
        "killed": submit("exit 137", "-J", "killed", *PLAIN),
        "crashed": submit("kill -SEGV $$", "-J", "crashed", *PLAIN),
        "memory": submit("perl -e '$x = \"a\" x (400 << 20); sleep 600'", "-J", "memory", "--mem=100", *PLAIN),
        "array": submit("exit $((SLURM_ARRAY_TASK_ID - 1))", "-J", "array", "--array=1-2", *PLAIN),
        "het": submit("srun --het-group=0,1 true; exit 5", "-J", "het", *PLAIN, "-n1", ":", *PLAIN, "-n1"),
    }
    for way in ("preempted", "lost", "requeued", "cancelled"):
        slurm.in_state(jobs[way], "RUNNING")
    jobs["urgent"] = submit("true", "-J", "urgent", "-p", "urgent", "-N1", "--exclusive", "-w", "gpu-02")
    slurm.run("scancel", jobs["cancelled"], user=SUBMITTER)
    slurm.kill_node("gpu-04")
    for restarts in (1, 2):
        slurm.run("scontrol", "requeue", jobs["requeued"])
        eventually(
            lambda restarts=restarts: (
                f"Restarts={restarts} " in slurm.run("scontrol", "show", "job", jobs["requeued"])
                and slurm.state(jobs["requeued"]) == "RUNNING"
            ),
            60,
            f"{jobs['requeued']} did not start again",
        )
    slurm.run("scancel", jobs["requeued"])
    return Submitted(jobs)


@dataclasses.dataclass
class Ended:
    """Jobs that ended, and the looks that were begun before they were submitted."""

    submitted: Submitted
    looks: dict[str, Looks]


#: The way a job ended: the scheduler's word, exit code, nodes. None where it may be one or the other node.
ENDS: dict[str, tuple[str, str, list[str] | None]] = {
    "well": ("COMPLETED", "0:0", None),
    "failed": ("FAILED", "13:0", None),
    "killed": ("FAILED", "137:0", None),
    "crashed": ("FAILED", "0:11", None),
    "limit": ("TIMEOUT", "", None),
    "cancelled": ("CANCELLED", "", ["gpu-01"]),
    "memory": ("FAILED", "0:9", None),
    "lost": ("NODE_FAIL", "", ["gpu-03", "gpu-04"]),
    "preempted": ("PREEMPTED", "", ["gpu-02"]),
    "urgent": ("COMPLETED", "0:0", ["gpu-02"]),
    "het": ("FAILED", "5:0", None),
}


def check_ends(submitted: Submitted, looks: Looks) -> None:
    """Each job has one attempt that ended as it did; the requeued one three, the array one for each task."""
    for way, (state, code, nodes) in ENDS.items():
        [attempt] = looks.of(submitted[way])
        assert attempt.state.partition(" ")[0] == state, (way, attempt)
        assert not code or attempt.exit_code == code, (way, attempt)
        assert nodes is None or attempt.nodes == nodes, (way, attempt)
        assert attempt.nodes and attempt.workload == way and attempt.user == SUBMITTER
    requeued = looks.of(submitted["requeued"])
    assert [(a.restart_count, a.state.partition(" ")[0]) for a in requeued] == [
        (0, "REQUEUED"),
        (1, "REQUEUED"),
        (2, "CANCELLED"),
    ]
    assert len({a.submit_time for a in requeued}) == 3
    assert [a.exit_code for task in (1, 2) for a in looks.of(f"{submitted['array']}_{task}")] == ["0:0", "1:0"]
    assert "by 5" in looks.of(submitted["cancelled"])[0].state


def collected(slurm: SlurmCluster, attempt: Attempt, **settings: Any) -> tuple[list[Observation], CollectorReport]:
    """The scheduler's evidence of an attempt."""
    source = SlurmRecords(name="slurm", timezone="", **settings)
    out = Sink(collector="slurm", source=Source.SCHEDULER, ruleset=load_ruleset())
    begin, end = datetime.fromisoformat(str(attempt.start)), datetime.fromisoformat(str(attempt.end))
    ask = Ask(
        cluster="ml",
        attempt=attempt,
        begin=begin - timedelta(minutes=5),
        end=end + timedelta(minutes=2),
        nodes=tuple(attempt.nodes),
        budget=Budget.of(seconds=30, megabytes=64),
        ruleset=out.ruleset,
    )
    try:
        source.collect(ask, out)
    except SourceError as error:
        return out.close(error)
    return out.close()


CLUSTERS = """
[[cluster]]
name = "ml"
settle = 1
deadline = 40

[[cluster.discovery]]
kind = "slurm"
name = "slurm"
every = 1
overlap = 60
first_look = 0
server = {{ url = "{rest}", token_file = "{token}" }}
commands = {{ conf = "{conf}" }}

[[cluster.source]]
kind = "slurm"
name = "scheduler"
lag = 0
server = {{ url = "{rest}", token_file = "{token}" }}
commands = {{ conf = "{conf}" }}
controller_log = "{log}"

[[cluster.source]]
kind = "files"
name = "output"
source = "applog"
lag = 0
root = "{jobs}"
paths = ["slurm-{{job_id}}.out"]
"""

#: The terminal state of the verdict. Slurm calls a memory kill by its own watch FAILED; the job's output says more.
VERDICTS = {
    "well": "succeeded",
    "failed": "failed",
    "killed": "failed",
    "crashed": "failed",
    "limit": "timed_out",
    "cancelled": "cancelled",
    "memory": "out_of_memory",
    "lost": "node_failed",
    "preempted": "preempted",
    "urgent": "succeeded",
    "het": "failed",
}
CURRENT = """
SELECT a.job_id, a.restart_count, v.state, v.domain,
       (SELECT coalesce(array_agg(n.name ORDER BY n.name), '{}')
          FROM verdicts_attempt_nodes l JOIN verdicts_node n ON n.id = l.node_id WHERE l.attempt_id = a.id)
  FROM verdicts_attempt a LEFT JOIN verdicts_verdict v ON v.attempt_id = a.id AND v.is_current
 WHERE a.ended_at IS NOT NULL ORDER BY a.job_id, a.restart_count
"""


@pytest.fixture(scope="module")
def site(cluster: SlurmCluster) -> Iterator[Site]:
    """A site that watches the cluster."""
    with a_site() as made:
        config = made.home / "clusters.toml"
        told = {"rest": cluster.rest_url, "token": cluster.token_file, "conf": cluster.conf, "log": cluster.log}
        config.write_text(CLUSTERS.format(**told, jobs=cluster.home / "jobs"))
        made.settings["INQUEST_CLUSTERS_FILE"] = str(config)
        made.start_collector()
        made.start_worker()
        made.start_beat()
        eventually(lambda: made.ask("SELECT 1 FROM verdicts_discovery WHERE succeeded_at IS NOT NULL"), 120, "no look")
        yield made


@pytest.fixture(scope="module")
def ended(cluster: SlurmCluster, site: Site) -> Ended:
    """Jobs that ended in every way while the site watched, and so did looks by each way to Slurm."""
    every = {way.__name__: Looks(way(cluster)) for way in WAYS}
    for looks in every.values():
        looks.look()
    submitted = submit_all(cluster)
    eventually(lambda: not cluster.run("squeue", "-h"), 150, cluster.logs())
    return Ended(submitted, every)


def concluded(site: Site) -> dict[tuple[str, int], tuple[str, str, list[str]]]:
    """The standing verdict of each attempt that has ended and has one; one attempt for each restart of a job."""
    rows = site.ask(CURRENT)
    keys = [(job, restart) for job, restart, *_ in rows]
    assert len(keys) == len(set(keys)), f"doubled: {keys}"
    return {(job, restart): (state, domain, nodes) for job, restart, state, domain, nodes in rows if state}


def test_jobs_that_end_in_every_way_have_each_one_attempt_and_one_verdict_within_a_minute(
    site: Site, ended: Ended
) -> None:
    submitted = ended.submitted
    requeued, array = submitted["requeued"], submitted["array"]
    expected = {(submitted[way], 0): state for way, state in VERDICTS.items()}
    expected |= {(f"{array}_1", 0): "succeeded", (f"{array}_2", 0): "failed"}
    expected |= {(requeued, 0): "preempted", (requeued, 1): "preempted", (requeued, 2): "cancelled"}
    # From the end of the last job on; the others have theirs by then.
    eventually(
        lambda: concluded(site).keys() >= expected.keys(),
        60,
        f"missing: {expected.keys() - concluded(site).keys()}\n{site.logs()}",
    )
    found = concluded(site)
    assert {key: found[key][0] for key in expected} == expected
    assert found[submitted["lost"], 0][2] == ["gpu-03", "gpu-04"]
    assert found[submitted["preempted"], 0][2] == ["gpu-02"]
    assert {found[requeued, restart][2][0] for restart in range(3)} == {"gpu-01"}
    jobs = {job for job, _ in expected}
    assert {key for key in found if key[0] in jobs} == expected.keys()
    slow = site.ask(
        "SELECT a.job_id, min(v.created_at) - a.ended_at FROM verdicts_attempt a JOIN verdicts_verdict v"
        " ON v.attempt_id = a.id GROUP BY a.id HAVING min(v.created_at) - a.ended_at > interval '60 s'"
    )
    assert not [row for row in slow if row[0] in jobs]
    [(status,)] = site.ask(
        "SELECT DISTINCT r.status FROM verdicts_collectorreport r JOIN verdicts_attempt a ON a.id = r.attempt_id"
        " WHERE r.source = 'scheduler' AND a.job_id = %s",
        submitted["lost"],
    )
    assert status in {"ok", "partial"}


def test_jobs_that_end_in_every_way_are_told_alike_by_every_way(cluster: SlurmCluster, ended: Ended) -> None:
    slurm, submitted, every = cluster, ended.submitted, ended.looks
    last = [job for way, job in submitted.jobs.items() if way != "array"]
    for name, looks in every.items():
        eventually(lambda looks=looks: looks.over(*last), 150, f"{name}: not all have ended\n{slurm.logs()}")
        check_ends(submitted, looks)
        assert looks.look() == 0, "what was told is not told again"
    assert len({frozenset(looks.told) for looks in every.values()}) == 1, "the same identities by every way"

    looks = every["by_commands"]
    commands, log = Commands(conf=str(slurm.conf)), str(slurm.log)
    [lost] = looks.of(submitted["lost"])
    assert lost.topology == {"switch": {"leaf2": ["gpu-03", "gpu-04"]}}
    observations, report = collected(slurm, lost, commands=commands, controller_log=log)
    said = "\n".join(observation.body for observation in observations)
    assert "JobState=NODE_FAIL" in said and "Reason=Not responding" in said
    assert "on failed node gpu-04" in said and "Nodes gpu-04 not responding, setting DOWN" in said
    assert {o.node for o in observations if "NodeName=gpu-04" in o.body} == {"gpu-04"}
    for attempt in looks.of(submitted["requeued"]):
        observations, _ = collected(slurm, attempt, commands=commands, controller_log=log)
        killed = "REQUEST_KILL_JOB" in "\n".join(o.body for o in observations)
        assert killed == (attempt.restart_count == 2), "only the last attempt was cancelled"
    server = Server(url=slurm.rest_url, token_file=str(slurm.token_file))
    for way, wanted in (("limit", "JobState=TIMEOUT"), ("cancelled", "CANCELLED by 5"), ("failed", "ExitCode=13:0")):
        for settings in ({"commands": commands}, {"server": server, "commands": NOWHERE}):
            observations, report = collected(slurm, looks.of(submitted[way])[0], **settings)
            assert wanted in "\n".join(o.body for o in observations), (way, settings)
            assert report.status is ReportStatus.OK, report.reason


def test_slurm_away_for_a_while_loses_and_doubles_no_verdict(slurm: SlurmCluster, site: Site) -> None:
    first = slurm.submit("sleep 600", *PLAIN)
    slurm.in_state(first, "RUNNING")
    eventually(lambda: site.ask("SELECT 1 FROM verdicts_attempt WHERE job_id = %s", first), 60, site.logs())

    slurm.stop_rest()
    second = slurm.submit("exit 3", *PLAIN)
    eventually(lambda: (second, 0) in concluded(site), 60, site.logs())
    [(notes,)] = site.ask("SELECT notes FROM verdicts_discovery")
    assert "asked Slurm's commands instead" in " ".join(notes)

    slurm.stop("slurmdbd")
    third = slurm.submit("exit 4", *PLAIN)
    eventually(lambda: (third, 0) in concluded(site), 60, site.logs())
    slurm.stop("slurmctld")
    eventually(lambda: site.ask("SELECT error FROM verdicts_discovery WHERE failures > 0"), 90, site.logs())
    assert not site.ask("SELECT 1 FROM verdicts_attempt WHERE job_id = %s AND ended_at IS NOT NULL", first)

    slurm.start_accounting()
    slurm.start_controller()
    slurm.start_rest()
    slurm.run("scancel", first, user=SUBMITTER)
    eventually(lambda: (first, 0) in concluded(site), 90, site.logs())
    found = concluded(site)
    assert {job: found[job, 0][0] for job in (first, second, third)} == {
        first: "cancelled",
        second: "failed",
        third: "failed",
    }
    assert site.ask("SELECT count(*) FROM verdicts_attempt WHERE job_id IN (%s, %s, %s)", first, second, third) == [
        (3,)
    ]
    eventually(
        lambda: site.ask("SELECT 1 FROM verdicts_discovery WHERE failures = 0 AND notes = '[]'"), 90, site.logs()
    )


def test_slurmrestd_off_falls_back_to_the_commands_and_says_so(slurm: SlurmCluster) -> None:
    looks = Looks(by_token(slurm, Commands(conf=str(slurm.conf))))
    looks.look()
    assert not looks.notes
    job = slurm.submit("sleep 600")
    slurm.in_state(job, "RUNNING")
    slurm.stop_rest()
    looks.look()
    assert [attempt.state for attempt in looks.of(job)] == ["RUNNING"]
    [said] = looks.notes
    assert "slurmrestd did not answer" in said and "asked Slurm's commands instead" in said
    slurm.start_rest()
    assert looks.look() == 0
    assert not looks.notes


def test_a_wrong_token_falls_back_and_is_told_without_it(slurm: SlurmCluster, tmp_path: Any) -> None:
    file = tmp_path / "token"
    file.write_text(slurm.token()[:-6] + "AAAAAA")
    server = Server(url=slurm.rest_url, token_file=str(file))
    looks = Looks(SlurmDiscovery(name="slurm", server=server, commands=Commands(conf=str(slurm.conf))))
    looks.look()
    assert looks.listed == frozenset()
    assert looks.notes and file.read_text() not in " ".join(looks.notes)


def test_an_output_file_that_cannot_be_written_is_told_by_every_way(slurm: SlurmCluster) -> None:
    ways = (by_commands, by_token)
    looks = {way.__name__: Looks(way(slurm)) for way in ways}
    for look in looks.values():
        look.look()
    nowhere = slurm.submit("true", "-J", "nowhere", "-o", "/proc/nowhere/%j.out", *PLAIN)
    for look in looks.values():
        eventually(lambda look=look: look.over(nowhere), 60, slurm.logs())
        [attempt] = look.of(nowhere)
        settings = {"server": look.discovery.server, "commands": look.discovery.commands}
        observations, report = collected(slurm, attempt, **{k: v for k, v in settings.items() if v})
        verdict = attribute(attempt, observations, [report], load_ruleset())
        assert attempt.exit_code == "0:53", (attempt, observations)
        assert [cause.rule for cause in verdict.causes] == ["slurm.output-unopenable"], verdict.headline


def test_accounting_and_then_all_of_slurm_away_for_a_while_loses_and_doubles_nothing(slurm: SlurmCluster) -> None:
    looks = Looks(by_commands(slurm))
    before = slurm.submit("sleep 600", *PLAIN)
    slurm.in_state(before, "RUNNING")
    looks.look()

    slurm.stop("slurmdbd")
    during = slurm.submit("exit 3", *PLAIN)
    slurm.in_state(during, "FAILED")
    requeued = slurm.submit("sleep 600", "--requeue", *PLAIN)
    slurm.in_state(requeued, "RUNNING")
    looks.look()
    assert "Slurm's accounting did not answer" in " ".join(looks.notes)
    assert [(a.state, a.exit_code) for a in looks.of(during)] == [("FAILED", "3:0")]
    slurm.run("scontrol", "requeue", requeued)
    slurm.in_state(requeued, "RUNNING")
    looks.look()
    assert [(a.restart_count, bool(a.end)) for a in looks.of(requeued)] == [(0, True), (1, False)]

    slurm.stop("slurmctld")
    cursor = looks.cursor
    with pytest.raises(SourceError):
        looks.look()
    assert looks.cursor == cursor

    slurm.start_accounting()
    slurm.start_controller()
    slurm.run("scancel", before)
    eventually(lambda: looks.over(before), 60, "the first job's end is not told")
    # What the controller had kept for accounting has arrived when that knows how the requeued attempt ended.
    eventually(lambda: looks.look() >= 0 and looks.of(requeued)[0].state == "REQUEUED", 60, f"{looks.of(requeued)}")
    assert [a.state.partition(" ")[0] for a in looks.of(before)] == ["CANCELLED"]
    assert [(a.restart_count, a.state) for a in looks.of(requeued)] == [(0, "REQUEUED"), (1, "RUNNING")]
    assert [(a.state, a.exit_code) for a in looks.of(during)] == [("FAILED", "3:0")]
    assert len(looks.told) == len({(a.job_id, a.restart_count) for a in looks.told.values()}), "nothing is doubled"


def test_each_requeue_is_counted_whenever_a_look_falls(slurm: SlurmCluster) -> None:
    """Looks one upon another, also while nodes are cleaned up between two attempts."""
    looks = Looks(by_commands(slurm))
    left = {slurm.submit("sleep 600", "--requeue", *PLAIN): 2 for _ in range(4)}
    deadline = time.monotonic() + 120
    while any(left.values()):
        assert time.monotonic() < deadline, slurm.logs()
        for job in [job for job, number in left.items() if number and slurm.state(job) == "RUNNING"]:
            slurm.run("scontrol", "requeue", job)
            left[job] -= 1
            looks.look()
        looks.look()
    slurm.run("scancel", *left)
    eventually(lambda: looks.over(*left) and not looks.listed, 60, slurm.logs())
    for job in left:
        # The third may have been cancelled before it began.
        counts = [attempt.restart_count for attempt in looks.of(job)]
        assert counts in ([0, 1], [0, 1, 2]), (job, counts)


def forget(slurm: SlurmCluster) -> None:
    """Lose the controller's state: it begins to count jobs at 1 again."""
    slurm.stop("slurmctld")
    shutil.rmtree(slurm.home / "controller")
    (slurm.home / "controller").mkdir(mode=0o755)
    shutil.chown(slurm.home / "controller", "slurm", "slurm")
    slurm.start_controller()
    eventually(slurm.idle, 60, slurm.logs())


def test_a_reused_job_id_is_a_new_attempt(slurm: SlurmCluster) -> None:
    looks = Looks(by_commands(slurm))
    forget(slurm)
    first = slurm.submit("exit 1", "-J", "first", *PLAIN)
    eventually(lambda: looks.over(first) and looks.of(first)[-1].workload == "first", 60, slurm.logs())
    forget(slurm)
    again = slurm.submit("exit 2", "-J", "second", *PLAIN)
    assert again == first
    eventually(
        lambda: looks.look() and any(a.workload == "second" and a.end for a in looks.of(first)), 60, slurm.logs()
    )
    told = {attempt.workload: (attempt.exit_code, attempt.restart_count) for attempt in looks.of(first)}
    assert told["first"] == ("1:0", 0) and told["second"] == ("2:0", 0)
