"""Slurm by its commands: fixed arguments, no shell, bounded in time and size, in an environment of their own."""

import contextlib
import os
import re
import secrets
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from rules.redact import redact
from verdicts.collectors import slurm_text
from verdicts.collectors.ask import Budget, BudgetSpent, SourceError, Unreachable
from verdicts.collectors.slurm_json import controller_jobs
from verdicts.collectors.slurm_records import Job, NodeState
from verdicts.collectors.slurm_values import LARGEST, words

SEARCHED = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/opt/slurm/bin:/usr/lib/slurm/bin"
#: Of what a command says when it fails so much is read, and so much shown.
MAX_ERROR, SHOWN_ERROR = 65_536, 300
#: Ids and nodes in one command: no kernel lets a command line grow without end.
CHUNK = 500
#: How long a topology is remembered.
REMEMBERED = 600.0
#: Before any Slurm; it takes no time that is nearer to 1970.
FOREVER = 366 * 86_400
#: Words of a daemon that does not answer, as against a question that is wrong.
_AWAY = re.compile(
    r"Connection refused|Unable to contact|Problem talking to the database|Unable to connect|Connection timed out"
    r"|communication|Zero Bytes|No route to host|backup|not (?:running|responding)|Protocol authentication|Munge",
    re.IGNORECASE,
)


class Commands(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where Slurm's commands are and which configuration they read; "" is where they are usually, and their own.

    They run as whoever Inquest runs as, see `docs/collectors.md` for what that account needs.
    """

    folder: str = ""
    conf: str = ""
    seconds: float = 20.0

    def check(self) -> None:
        """Raises ValueError naming the key."""
        if self.folder and not Path(self.folder).is_dir():
            raise ValueError(f"commands.folder: {self.folder} is no folder")
        if self.conf and not os.access(self.conf, os.R_OK):
            raise ValueError(f"commands.conf: {self.conf} cannot be read")

    def run(self, program: str, *arguments: str, budget: Budget) -> bytes:
        """What a command says. Raises Unreachable, BudgetSpent, SourceError with the command's own words."""
        path = shutil.which(program, path=self.folder or SEARCHED)
        if path is None:
            raise SourceError(
                f"{program} is not in {self.folder or SEARCHED}: install Slurm's client or set commands.folder"
            )
        environment = {"PATH": SEARCHED, "LC_ALL": "C.UTF-8", "TZ": "UTC0", "SLURM_TIME_FORMAT": "%s"}
        if self.conf:
            environment["SLURM_CONF"] = self.conf
        process = subprocess.Popen(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
        try:
            said, complained = _read(process, program, budget, self.seconds)
        finally:
            _end(process)
        if process.returncode:
            raise refusal(program, process.returncode, complained)
        return said

    # What is asked

    def jobs(self, budget: Budget) -> list[Job]:
        """All jobs that the controller has, pending and just ended ones too."""
        try:
            return controller_jobs(self.run("squeue", "--all", "--states=all", "--json", budget=budget))
        except (Unreachable, BudgetSpent):
            raise
        except SourceError:
            # Before 21.08, or built without JSON.
            return self._in_columns(budget)

    def job(self, name: str, budget: Budget) -> list[Job]:
        """What the controller has of one job, nothing where it has forgotten it."""
        try:
            return self._in_columns(budget, f"--jobs={name}")
        except Unreachable:
            raise
        except SourceError as error:
            if "Invalid job id" in str(error):
                return []
            raise

    def _in_columns(self, budget: Budget, *which: str) -> list[Job]:
        """Jobs as `squeue` prints them, texts and numbers by themselves."""
        between = _delimiter()
        asked = ("--all", "--states=all", "--noheader", *which)
        # Every field ends with the delimiter, so that a line end in a name ends nothing.
        form = "".join(letter + between for letter in slurm_text.COLUMNS.values())
        jobs = slurm_text.jobs_in_columns(self.run("squeue", *asked, f"--format={form}", budget=budget), between)
        try:
            numbers = self.run("squeue", *asked, f"--Format={slurm_text.NUMBERS}", budget=budget)
        except (Unreachable, BudgetSpent):
            raise
        except SourceError:
            # It may have ended in between, or this `squeue` knows no such columns: accounting tells the rest.
            return jobs
        return slurm_text.with_numbers(jobs, numbers)

    def ended_since(self, begin: int, end: int, budget: Budget, *, cluster: str = "") -> list[Job]:
        """The jobs that ran in a window, by accounting: every submission, without steps."""
        window = ("--allusers", "--allocations", f"--starttime={_local(begin)}", f"--endtime={_local(end)}")
        return self._accounting(window, budget, cluster)

    def history(self, ids: Sequence[str], budget: Budget, *, cluster: str = "", steps: bool = False) -> list[Job]:
        """All submissions of jobs, by accounting."""
        found: list[Job] = []
        for begin in range(0, len(ids), CHUNK):
            which = ("--allusers", f"--starttime={_local(FOREVER)}", f"--jobs={','.join(ids[begin : begin + CHUNK])}")
            found += self._accounting(which if steps else (*which, "--allocations"), budget, cluster)
        return found

    def _accounting(self, which: Iterable[str], budget: Budget, cluster: str) -> list[Job]:
        between = _delimiter()
        fields = self._fields(budget)
        arguments = [
            "--duplicates",
            "--noheader",
            "--parsable",
            f"--delimiter={between}",
            f"--format={','.join(fields)}",
        ]
        arguments += [f"--clusters={cluster}"] if cluster else []
        return slurm_text.jobs_in_rows(self.run("sacct", *which, *arguments, budget=budget), between, fields)

    def _fields(self, budget: Budget) -> list[str]:
        """The fields that this `sacct` has, asked once in a process."""
        if self not in _fields:
            known = self.run("sacct", "--helpformat", budget=budget).decode("utf-8", "replace").split()
            _fields[self] = [field for field in slurm_text.FIELDS if field not in slurm_text.NEWER or field in known]
        return _fields[self]

    def nodes(self, names: Sequence[str], budget: Budget) -> list[NodeState]:
        """The controller's records of these nodes; of all where no names are given."""
        found: list[NodeState] = []
        for chunk in [names[at : at + CHUNK] for at in range(0, len(names), CHUNK)] or [()]:
            try:
                raw = self.run(
                    "scontrol", "--oneliner", "show", "node", *chunk[:1] and [",".join(chunk)], budget=budget
                )
            except (Unreachable, BudgetSpent):
                raise
            except SourceError:
                # One of them is no node any more, for which the others are not told either.
                raw = self.run("scontrol", "--oneliner", "show", "node", budget=budget)
            found += [node for node in slurm_text.nodes(raw) if not chunk or node.name in set(chunk)]
        return found

    def events(self, names: Sequence[str], begin: int, end: int, budget: Budget) -> list[NodeState]:
        """When nodes were down or drained, by accounting."""
        found: list[NodeState] = []
        for at in range(0, len(names), CHUNK):
            which = f"nodes={','.join(names[at : at + CHUNK])}"
            window = (f"start={_local(begin)}", f"end={_local(end)}", slurm_text.EVENT)
            found += slurm_text.events(self.run("sacctmgr", "-Pnr", "show", "event", which, *window, budget=budget))
        return found

    def switches(self, budget: Budget) -> dict[str, frozenset[str]]:
        """The nodes below each leaf switch, asked now and then; none where the cluster has no such topology."""
        known = _switches.get(self)
        if known is None or known[0] < time.monotonic():
            found = slurm_text.switches(self.run("scontrol", "show", "topology", budget=budget))
            known = _switches[self] = (time.monotonic() + REMEMBERED, found)
        return known[1]

    def partitions(self, budget: Budget) -> dict[str, frozenset[str]]:
        """The nodes of each partition, hidden ones too."""
        try:
            return slurm_text.partitions(self.run("sinfo", "--all", "--noheader", "--format=%R|%N", budget=budget))
        except ValueError as error:
            raise SourceError(f"sinfo: a list of nodes that cannot be read: {error}") from error

    def version(self, budget: Budget) -> str:
        """Slurm's version, as the client has it."""
        return (
            words(self.run("sinfo", "--version", budget=budget).decode("utf-8", "replace"))
            .removeprefix("slurm-wlm ")
            .removeprefix("slurm ")
        )

    def clock(self, budget: Budget) -> int:
        """The controller's clock."""
        said = self.run("scontrol", "show", "config", budget=budget)[:400].decode("utf-8", "replace")
        found = re.search(r"data as of (\d+)", said)
        return int(found[1]) if found else 0


def refusal(program: str, code: int, complained: bytes) -> SourceError:
    """What a command that failed means: Unreachable where a daemon did not answer it."""
    told = " ".join(complained.decode("utf-8", "replace").replace(f"{program}: error: ", "").split())
    told = redact(told)[:SHOWN_ERROR] or "without a word"
    kind = Unreachable if _AWAY.search(told) else SourceError
    return kind(f"{program} ended with {code}: {told}")


#: The fields that each `sacct` was found to have, and the topology that each `scontrol` told, until when.
_fields: dict[Commands, list[str]] = {}
_switches: dict[Commands, tuple[float, dict[str, frozenset[str]]]] = {}


def _local(moment: int) -> str:
    """A time as commands take it, in the zone that we give them."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _delimiter() -> str:
    """What no job's name can contain, for nobody knew it when the job was named."""
    return f"\x1f{secrets.token_hex(6)}\x1f"


def _read(process: subprocess.Popen[bytes], program: str, budget: Budget, seconds: float) -> tuple[bytes, bytes]:
    """Both outputs to their ends. Raises Unreachable when it takes too long, BudgetSpent when it says too much."""
    assert process.stdout is not None
    assert process.stderr is not None
    said, complained = bytearray(), bytearray()
    deadline = time.monotonic() + min(seconds, budget.left())
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, said)
        selector.register(process.stderr, selectors.EVENT_READ, complained)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise Unreachable(f"{program}: no answer within {min(seconds, budget.seconds):.0f} s")
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.data is said:
                    budget.take(len(piece))
                    said += piece
                    if len(said) > LARGEST:
                        raise SourceError(f"{program}: an answer of more than {LARGEST >> 20} MiB")
                elif len(complained) < MAX_ERROR:
                    complained += piece
    try:
        process.wait(max(0.0, deadline - time.monotonic()) + 1)
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"{program}: does not end") from error
    return bytes(said), bytes(complained)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command that still runs, with all that it started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
