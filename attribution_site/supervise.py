"""Child processes that are watched, restarted, and ended with all that they started.

Each child leads a session of its own, so that a Ctrl-C or a closed terminal reaches the supervisor alone and
the children end in order. The kernel tells them when the supervisor is gone (see embedded.following).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
# A child that ran this long had started well: its next restart is quick again.
SETTLED = 60.0
LOG_LIMIT = 10 * 1024 * 1024


def say(text: str) -> None:
    """Print a line; a terminal that is gone must not keep us from ending the children."""
    with contextlib.suppress(OSError, ValueError):
        print(text, flush=True)


def last_lines(path: Path, count: int = 8) -> list[str]:
    """The end of a log file."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 16_384))
        return file.read().decode(errors="replace").splitlines()[-count:]


@dataclass
class Child:
    """One process to keep running."""

    name: str
    start: Callable[[IO[bytes]], subprocess.Popen[bytes]]
    log: Path
    ends_on: int = signal.SIGTERM
    patience: float = 10.0
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = FIRST_PAUSE
    due: float = 0.0

    def run(self) -> None:
        """Start it, its output appended to its log."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as log:
            self.process = self.start(log)
        self.started = time.monotonic()

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self.process is not None and self.process.poll() is None

    def signal_all(self, number: int) -> None:
        """Send a signal to the process and everything in its session's group, if anything is left of it."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)


@dataclass
class Supervisor:
    """Keeps children running until it is told to stop."""

    children: list[Child] = field(default_factory=list)
    stop_signal: int = 0
    hurried: bool = False

    def listen(self) -> None:
        """Take the signals that mean stop. A SIGHUP that was ignored on purpose (nohup) stays ignored."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._told)

    def _told(self, number: int, _frame: object) -> None:
        # A second Ctrl-C: no more patience. A terminal that closes may send several signals, which is none.
        self.hurried = self.hurried or (number == signal.SIGINT == self.stop_signal)
        self.stop_signal = self.stop_signal or number

    @property
    def stopping(self) -> bool:
        """Whether a signal to stop has come."""
        return self.stop_signal != 0

    def add(self, child: Child) -> Child:
        """Start a child and watch it from now on."""
        self.children.append(child)
        child.run()
        return child

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition, watching the children meanwhile; False if time ran out or we are stopping."""
        deadline = time.monotonic() + seconds
        while not self.stopping and time.monotonic() < deadline:
            if condition():
                return True
            self.look_after()
            time.sleep(0.05)
        return False

    def watch(self) -> None:
        """Look after the children until told to stop."""
        while not self.stopping:
            self.look_after()
            time.sleep(0.2)

    def look_after(self) -> None:
        """Restart what has died and is due; reap what our children left to us."""
        for orphan in self._ended_orphans():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, os.WNOHANG)
        now = time.monotonic()
        for child in self.children:
            if child.running:
                continue
            if child.process is not None:
                self._report(child, now)
            if child.process is None and now >= child.due:
                child.run()

    def _report(self, child: Child, now: float) -> None:
        assert child.process is not None
        child.signal_all(signal.SIGKILL)
        status = child.process.returncode
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        if now - child.started > SETTLED:
            child.pause = FIRST_PAUSE
        say(f"{child.name} ended {how}; starting it again in {child.pause:.0f} s. The end of {child.log}:")
        for line in last_lines(child.log):
            say(f"    {line}")
        child.process = None
        child.due = now + child.pause
        child.pause = min(child.pause * 2, LONGEST_PAUSE)

    def _ended_orphans(self) -> Iterator[int]:
        ours = {child.process.pid for child in self.children if child.process is not None}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid in ours:
                return
            yield ended.si_pid

    def end(self, *names: str) -> None:
        """End the named children (or all), the last started first; what does not end in time is killed."""
        chosen = [child for child in reversed(self.children) if not names or child.name in names]
        for child in chosen:
            if child.running and child.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    child.process.send_signal(child.ends_on)
        # All were told at once: one that is slow takes none of the others' time, and the whole waits for the slowest.
        told = time.monotonic()
        for child in chosen:
            while child.running and time.monotonic() < told + child.patience and not self.hurried:
                time.sleep(0.02)
            child.signal_all(signal.SIGKILL)
            if child.process is not None:
                child.process.wait()
            self.children.remove(child)
