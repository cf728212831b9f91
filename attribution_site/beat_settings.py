"""What beat does when, out of the environment. The schedule is this table; docs/settings.md has the variables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import environ
from celery.schedules import crontab

#: What asks other systems, by the workers that may.
COLLECT = "inquest-collect"


def read(env: environ.Env) -> dict[str, Any]:
    """The schedule of each task by its name. A message that nobody took is worth nothing by the time of the next."""
    sweep = env.int("INQUEST_SWEEP_SECONDS", default=5)
    table = {
        "verdicts.sweep": _every(sweep, expires=60),
        "verdicts.check_sources": _every(env.int("INQUEST_CHECK_SECONDS", default=300), expires=240, queue=COLLECT),
        "verdicts.tell": _every(env.int("INQUEST_TELL_SECONDS", default=30), expires=120),
        "recovery.take_in": _every(env.int("INQUEST_LEDGER_INTAKE_SECONDS", default=10), expires=60),
        "recovery.checkpoint": _every(env.int("INQUEST_LEDGER_CHECKPOINT_SECONDS", default=600), expires=600),
        "recovery.watch": _every(env.int("INQUEST_WATCH_SECONDS", default=15), expires=60),
        "recovery.read_progress": _every(
            env.int("INQUEST_READ_PROGRESS_SECONDS", default=15), expires=60, queue=COLLECT
        ),
        "recovery.sweep": _every(sweep, expires=60),
        "recovery.sweep_exports": _every(15, expires=60),
        "recovery.sweep_replays": _every(sweep, expires=60),
        "recovery.sweep_policies": _every(300, expires=240),
        "recovery.expire": _every(env.int("INQUEST_EXPIRE_SECONDS", default=600), expires=540),
        "recovery.verify": _every(env.int("INQUEST_VERIFY_SECONDS", default=10), expires=30),
        # Whether a drill is due is looked at often: an interval of a week would start anew whenever beat does.
        "recovery.drill": _every(600, expires=540),
        # At a time, not at an interval: an interval starts anew whenever beat does.
        "verdicts.fold_tally": _at(crontab(minute="41"), expires=1800),
        "verdicts.drift": _at(crontab(minute="17", hour="5"), expires=12 * 3600),
    }
    return {name: {"task": name, **entry} for name, entry in table.items()}


def _every(seconds: int, *, expires: int, queue: str = "") -> dict[str, Any]:
    return _at(timedelta(seconds=seconds), expires=expires, queue=queue)


def _at(when: timedelta | crontab, *, expires: int, queue: str = "") -> dict[str, Any]:
    return {"schedule": when, "options": {"expires": expires} | ({"queue": queue} if queue else {})}
