"""A whole Slurm in a temporary folder: munge, MariaDB, slurmdbd, slurmctld, several slurmd and slurmrestd.

Nothing of the system's own Slurm is read or changed: ports, sockets, keys and the database are fresh each time. Every
process carries a mark in its environment, which `srun` and `sbatch` hand on to jobs, so that all can be ended,
`slurmstepd` too, which outlives its slurmd.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from attribution_site.embedded import follow_parent
from tests.real.running import free_ports

PROGRAMS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "slurmrestd", "sbatch")
PACKAGES = (
    "slurm-wlm slurmctld slurmd slurmdbd slurmrestd slurm-wlm-jwt-plugin slurm-wlm-mysql-plugin munge mariadb-server"
)
MARK = "INQUEST_TEST_SLURM"
PREFIX = "inquest-slurm-"
#: On a node's slurmd, and so on its slurmstepd.
NODE_MARK = "INQUEST_TEST_SLURM_NODE"
#: The people here: one who submits, one who only reads, and an account for slurmrestd, neither root's nor Slurm's.
SUBMITTER, READER, REST_USER = "games", "bin", "daemon"
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

SLURM_CONF = """
ClusterName=ml
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits until its credential has expired.
AuthInfo=socket={home}/munge/socket,cred_expire=5
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={home}/etc/jwt.key
CredType=cred/munge
StateSaveLocation={home}/controller
SlurmdSpoolDir={home}/spool/%n
SlurmctldPidFile={home}/pid/slurmctld
SlurmdPidFile={home}/pid/slurmd.%n
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdLogFile={home}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
TopologyPlugin=topology/tree
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,nohold_on_prolog_fail
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
ReturnToService=2
MailProg=/bin/true
GresTypes=gpu
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={accounting}
AccountingStoragePass={home}/munge/socket
AccountingStoreFlags=job_comment
AccountingStorageTRES=gres/gpu
JobRequeue=1
KillWait=1
SlurmdTimeout=6
InactiveLimit=0
MinJobAge=300
OverTimeLimit=0
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000 Gres=gpu:h100:8\n"
PARTITIONS = """
PartitionName=train Nodes={nodes} Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes={nodes} MaxTime=INFINITE State=UP PriorityTier=10
"""
SLURMDBD_CONF = """
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={home}/etc/jwt.key
DbdHost=localhost
DbdPort={accounting}
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
LogFile={home}/log/slurmdbd.log
PidFile={home}/pid/slurmdbd
"""


def eventually(condition: Callable[[], Any], seconds: float, what: str | Callable[[], str]) -> Any:
    """Wait for a condition and return what it said; fail with `what` when the time is over."""
    deadline = time.monotonic() + seconds
    while not (said := condition()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.1)
    return said


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _marks() -> dict[int, str]:
    """The processes of such clusters, each with the mark in its environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for entry in (folder / "environ").read_bytes().split(b"\0"):
                if entry.startswith(f"{MARK}=".encode()):
                    found[int(folder.name)] = entry.decode().partition("=")[2]
    found.pop(os.getpid(), None)
    return found


def _marked(mark: str) -> list[int]:
    """The processes with this mark."""
    return [pid for pid, found in _marks().items() if found == mark]


def _end_leftovers() -> None:
    """End what a run that was itself killed has left: its jobs, and the slurmstepd that watch them."""
    for mark in set(_marks().values()):
        owner, _, home = mark.partition(":")
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            _end_marked(mark)
            if Path(home).name.startswith(PREFIX):
                shutil.rmtree(home, ignore_errors=True)


def _end_marked(mark: str) -> None:
    def killed() -> bool:
        left = _marked(mark)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    eventually(killed, 20, lambda: f"these do not end: {_marked(mark)}")


class SlurmCluster:
    """A Slurm with four nodes of eight pretended GPUs each. `start()` it, `end()` it; parts can be ended between."""

    nodes = tuple(f"gpu-{number:02d}" for number in range(1, 5))

    def __init__(self, home: Path) -> None:
        self.home = home
        #: Whose processes they are: ours as long as we live.
        self.mark = f"{os.getpid()}:{home}"
        self.host = socket.gethostname().split(".")[0]
        ports = free_ports(3 + len(self.nodes))
        self.controller_port, self.accounting_port, self.rest_port = ports[:3]
        self.node_ports = dict(zip(self.nodes, ports[3:], strict=True))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.conf = home / "etc" / "slurm.conf"
        self.rest_socket = home / "rest" / "socket"
        self.rest_url = f"http://127.0.0.1:{self.rest_port}"
        self.token_file = home / "etc" / "token"
        self.log = home / "log" / "slurmctld.log"

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": SEARCHED, "SLURM_CONF": str(self.conf), MARK: self.mark, "LC_ALL": "C.UTF-8"}

    # Preparing

    def prepare(self) -> None:
        """Write the configuration and the keys."""
        folders = ("etc", "log", "controller", "spool", "pid", "munge", "db", "dev", "jobs", "rest")
        for folder in folders:
            (self.home / folder).mkdir()
        for node in self.nodes:
            (self.home / "spool" / node).mkdir()
        for index in range(8):
            os.mknod(self.home / "dev" / f"gpu{index}", 0o20666, os.makedev(1, 3))
        (self.home / "munge" / "key").write_bytes(os.urandom(128))
        (self.home / "etc" / "jwt.key").write_bytes(os.urandom(32))
        values = {"home": self.home, "host": self.host, "nodes": ",".join(self.nodes)}
        values |= {"controller": self.controller_port, "accounting": self.accounting_port}
        nodes = (NODE.format(name=name, host=self.host, port=port) for name, port in self.node_ports.items())
        self.conf.write_text(SLURM_CONF.format(**values) + "".join(nodes) + PARTITIONS.format(**values))
        (self.home / "etc" / "slurmdbd.conf").write_text(SLURMDBD_CONF.format(**values))
        leaves = "SwitchName=leaf1 Nodes=gpu-[01-02]\nSwitchName=leaf2 Nodes=gpu-[03-04]\n"
        (self.home / "etc" / "topology.conf").write_text(leaves + "SwitchName=spine Switches=leaf[1-2]\n")
        gpus = f"NodeName={','.join(self.nodes)} Name=gpu Type=h100 File={self.home}/dev/gpu[0-7] AutoDetect=off\n"
        (self.home / "etc" / "gres.conf").write_text(gpus)
        for name, owner, mode in (
            ("munge/key", "munge", 0o400),
            ("munge", "munge", 0o755),
            ("db", "mysql", 0o755),
            ("etc/jwt.key", "slurm", 0o600),
            ("etc/slurmdbd.conf", "slurm", 0o600),
            ("controller", "slurm", 0o755),
            ("log", "slurm", 0o755),
            ("pid", "slurm", 0o755),
            ("rest", REST_USER, 0o755),
            ("jobs", SUBMITTER, 0o755),
        ):
            shutil.chown(self.home / name, owner, owner)
            (self.home / name).chmod(mode)

    def _start(self, name: str, *command: str, user: str = "root", env: Mapping[str, str] | None = None) -> None:
        entry = pwd.getpwnam(user)
        with (self.home / f"{name}.out").open("ab") as output:
            self.running[name] = subprocess.Popen(
                command,
                cwd="/",
                env={**self.environment, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                user=entry.pw_uid,
                group=entry.pw_gid,
                extra_groups=[],
                preexec_fn=lambda: follow_parent(signal.SIGKILL),
            )

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """End one of the parts, by its name."""
        process = self.running.pop(name)
        process.send_signal(number)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    # Starting and ending the parts

    def start(self) -> None:
        self.prepare()
        munge = self.home / "munge"
        options = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        arguments = [f"--{option}={munge / name}" for option, name in options.items()]
        self._start("munged", "munged", "--foreground", *arguments, user="munge")
        database = ["--no-defaults", "--user=mysql", f"--datadir={self.home / 'db'}"]
        install = ["mariadb-install-db", *database, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(install, check=True, capture_output=True, env=self.environment, timeout=60)
        self.start_database()
        make = (
            "create database slurm_acct_db; create user slurm@localhost identified by 'x';"
            "grant all on slurm_acct_db.* to slurm@localhost"
        )
        self.run("mariadb", f"--socket={self.home / 'db' / 'sock'}", "-uroot", "-e", make)
        self.start_accounting()
        self.run("sacctmgr", "-i", "add", "cluster", "ml")
        self.run("sacctmgr", "-i", "add", "account", "research")
        self.run("sacctmgr", "-i", "add", "user", f"root,{SUBMITTER}", "account=research")
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        eventually(self.idle, 30, self.logs)
        self.token_file.write_text(self.token(READER))
        self.start_rest()

    def start_database(self) -> None:
        sock = self.home / "db" / "sock"
        files = [f"--datadir={self.home / 'db'}", f"--socket={sock}", f"--pid-file={self.home / 'db' / 'pid'}"]
        sizes = [
            "--innodb-buffer-pool-size=64M",
            "--innodb-lock-wait-timeout=900",
            "--innodb-flush-log-at-trx-commit=0",
        ]
        self._start("mariadb", "mariadbd", "--no-defaults", "--user=mysql", *files, "--skip-networking", *sizes)
        ping = ("mariadb-admin", f"--socket={sock}", "-uroot", "ping")
        eventually(lambda: self.tried(*ping).returncode == 0, 30, self.logs)

    def start_accounting(self) -> None:
        self._start("slurmdbd", "slurmdbd", "-D", user="slurm", env={"MYSQL_UNIX_PORT": str(self.home / "db" / "sock")})
        eventually(lambda: _listens(self.accounting_port), 30, self.logs)

    def start_controller(self) -> None:
        self._start("slurmctld", "slurmctld", "-D", "-i", user="slurm")
        eventually(lambda: self.tried("scontrol", "ping").returncode == 0, 30, self.logs)

    def start_node(self, node: str) -> None:
        self._start(node, "slurmd", "-D", "-N", node, env={NODE_MARK: node})

    def start_rest(self) -> None:
        """One slurmrestd for tokens, and one on a unix socket for those who are root or its own user."""
        command = ("slurmrestd", "-f", str(self.conf), "-s", "openapi/v0.0.38,openapi/dbv0.0.38", "-a")
        token = {"SLURM_JWT": "daemon"}
        self._start("slurmrestd", *command, "rest_auth/jwt", f"127.0.0.1:{self.rest_port}", user=REST_USER, env=token)
        self._start("slurmrestd-local", *command, "rest_auth/local", f"unix:{self.rest_socket}", user=REST_USER)
        eventually(lambda: _listens(self.rest_port) and self.rest_socket.exists(), 30, self.logs)

    def stop_rest(self) -> None:
        for name in ("slurmrestd", "slurmrestd-local"):
            self.stop(name)
        self.rest_socket.unlink(missing_ok=True)

    def kill_node(self, node: str) -> None:
        """Lose a node as by a power cut: its slurmd and its slurmstepd at once, and then what they had started."""
        self.stop(node, signal.SIGKILL)
        for wanted in (f"{NODE_MARK}={node}", f"SLURMD_NODENAME={node}"):
            for pid in _marked(self.mark):
                with contextlib.suppress(OSError):
                    if wanted.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                        os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        """End everything, with no regard."""
        for process in reversed(self.running.values()):
            process.kill()
        for process in self.running.values():
            process.wait(20)
        self.running.clear()
        _end_marked(self.mark)

    # Using it

    def tried(
        self, *command: str, user: str = "root", input_text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as somebody, to its end."""
        entry = pwd.getpwnam(user)
        return subprocess.run(
            command,
            cwd=self.home / "jobs",
            env=self.environment,
            input=input_text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=[],
        )

    def run(self, *command: str, user: str = "root", input_text: str | None = None) -> str:
        """Run a command that must succeed; what it said."""
        done = self.tried(*command, user=user, input_text=input_text)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, script: str, *options: str, user: str = SUBMITTER) -> str:
        """Submit a batch script; the job's id."""
        said = self.run("sbatch", "--parsable", *options, user=user, input_text=f"#!/bin/bash\n{script}\n")
        return said.strip().split(";")[0]

    def token(self, user: str = "root", seconds: int = 3600) -> str:
        """A JWT of somebody."""
        return self.run("scontrol", "token", f"username={user}", f"lifespan={seconds}").strip().split("=", 1)[1]

    def idle(self) -> bool:
        """Whether all nodes are there and have nothing to do."""
        return self.run("sinfo", "-h", "-p", "train", "-o", "%D %T").strip() == f"{len(self.nodes)} idle"

    def state(self, job: str) -> str:
        """A job's state as the controller has it, "" when it does not know it."""
        return self.tried("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").stdout.strip()

    def in_state(self, job: str, *states: str, seconds: float = 60) -> None:
        """Wait until a job is in one of some states."""
        eventually(lambda: self.state(job) in states, seconds, lambda: f"{job} is {self.state(job)}\n{self.logs()}")

    def quiet(self) -> None:
        """End all jobs and wait for idle nodes: between tests."""
        self.tried("scancel", "--user", f"root,{SUBMITTER}")
        for user in ("root", SUBMITTER):
            self.tried("scancel", "--user", user)
        for name, start in (("slurmdbd", self.start_accounting), ("slurmctld", self.start_controller)):
            if name not in self.running:
                start()
        for node in self.nodes:
            if node not in self.running:
                self.start_node(node)
        self.tried("scontrol", "update", f"nodename={','.join(self.nodes)}", "state=resume")
        eventually(lambda: not self.run("squeue", "-h") and self.idle(), 60, self.logs)
        if "slurmrestd" not in self.running:
            self.start_rest()

    def logs(self) -> str:
        """The ends of all logs, for a failure's message."""
        files: Sequence[Path] = [*self.home.glob("*.out"), *(self.home / "log").glob("*.log")]
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-2000:]}" for file in files)


def _missing() -> str:
    if os.geteuid() != 0:
        return "a Slurm of our own needs root: its daemons run as several users"
    lacking = [name for name in PROGRAMS if shutil.which(name, path=SEARCHED) is None]
    return f"no {', '.join(lacking)}: apt-get install --no-install-recommends {PACKAGES}" if lacking else ""


@contextlib.contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """A running cluster, or a skipped test where none can be had."""
    if lacking := _missing():
        pytest.skip(lacking)
    _end_leftovers()
    home = Path(tempfile.mkdtemp(prefix=PREFIX))
    home.chmod(0o755)
    cluster = SlurmCluster(home)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(home, ignore_errors=True)
