"""A dispatcher as a process of its own that kills itself where a file says so: `python -m tests.real.dying_dispatcher DIR`.

Each is forked off by one that has loaded everything and does nothing else; it writes how many have died into DIR/deaths.
The wrapper is here and not in the product. A file JOB.STEP.before or JOB.STEP.after ends this process by SIGKILL
before or after that step is sent, once; JOB.STEP.freeze holds a process number, which is stopped before the step
is sent.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

django.setup()

from attribution_site.embedded import follow_parent  # noqa: E402
from recovery.acting import dispatch as act  # noqa: E402
from recovery.acting import sites, verify, watchdog  # noqa: E402
from recovery.actuators.base import Aim, Look  # noqa: E402
from verdicts import limits  # noqa: E402

# A killed dispatcher's rows are free again soon.
limits.LEASE, limits.RENEW_EVERY = timedelta(seconds=3), timedelta(seconds=1)
FOLDER = Path(sys.argv[1])


class Dying:
    """An actuator that ends its process."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def do(self, step: str, aim: Aim, seen: Look) -> None:
        freeze = FOLDER / f"{aim.job_id}.{step}.freeze"
        if freeze.exists():
            os.kill(int(freeze.read_text()), signal.SIGSTOP)
            freeze.unlink()
        self._die(f"{aim.job_id}.{step}.before")
        self._real.do(step, aim, seen)
        self._die(f"{aim.job_id}.{step}.after")

    def _die(self, name: str) -> None:
        if (FOLDER / name).exists():
            (FOLDER / name).unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def work_for_ever() -> None:
    """What a worker does when it is woken all the time."""
    real = sites.actuator
    sites.actuator = lambda cluster: Dying(real(cluster))  # type: ignore[assignment]
    sites.tell()
    while True:
        act.work()
        watchdog.sweep()
        verify.work()
        time.sleep(0.2)


deaths = 0
while True:
    if (child := os.fork()) == 0:
        follow_parent(signal.SIGKILL)
        work_for_ever()
    _, status = os.waitpid(child, 0)
    if os.WTERMSIG(status) != signal.SIGKILL:
        sys.exit(f"a dispatcher ended by itself: {status}")
    deaths += 1
    (FOLDER / "deaths").write_text(str(deaths))
