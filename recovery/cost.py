"""What acting and waiting would cost, in GPU-hours, each figure with what it rests on; unknown is said, not guessed."""

from collections.abc import Sequence

import msgspec

HOUR = 3600.0


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number and where it comes from; without a number `rests_on` says what is missing."""

    gpu_hours: float | None
    rests_on: str


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected of acting now and of waiting for one more hour, and the parts of acting."""

    acting: Figure
    waiting: Figure
    parts: dict[str, Figure] = {}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a plan is made; None where it is not.

    `restarts` and `queues` are seconds that restarts of this workload (else of the cluster) took before, from their
    start to progress and from the request to their start. `since_checkpoint` is the training that is done again.
    """

    gpus: int | None = None
    gpus_from: str = ""
    restarts: Sequence[float] = ()
    restarts_of: str = "this workload"
    queues: Sequence[float] = ()
    since_checkpoint: float | None = None
    still_running: bool = False
    whole_run: float | None = None


def median(values: Sequence[float]) -> float:
    """The middle value: one restart that hung must not speak for the others."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def of_restart(seen: Seen) -> Cost:
    """The cost of restarting a job, and of leaving it as it is for an hour.

    Queueing holds no GPUs of the job, so what it costs is the training that is not done in that time. Waiting costs
    that too; a job that still runs without moving holds its GPUs as well, so both come to its GPUs times the hours.
    """
    parts = {
        "restart": _figure(
            seen, _middle(seen.restarts), f"median of {len(seen.restarts)} restarts of {seen.restarts_of}"
        )
        if seen.restarts
        else _unknown("no restart has been seen before"),
        "queue": _figure(seen, _middle(seen.queues), f"median of {len(seen.queues)} waits in the queue")
        if seen.queues
        else _unknown("no wait in the queue has been seen before"),
        "replay": _replay(seen),
    }
    known = [part.gpu_hours for part in parts.values() if part.gpu_hours is not None]
    missing = [name for name, part in parts.items() if part.gpu_hours is None]
    if missing:
        said = f"unknown: {', '.join(missing)}" + (f"; the rest comes to {round(sum(known), 1)}" if known else "")
        acting = Figure(gpu_hours=None, rests_on=said)
    else:
        acting = Figure(gpu_hours=round(sum(known), 1), rests_on="restart, queue and replay together")
    return Cost(acting=acting, waiting=_waiting(seen), parts=parts)


def of_giving_back(seen: Seen) -> Cost:
    """Giving a node back stops nothing that runs."""
    free = Figure(gpu_hours=0.0, rests_on="nothing that runs is stopped")
    return Cost(acting=free, waiting=_figure(seen, HOUR, "an hour in which it is not used"))


def of_stopping(seen: Seen) -> Cost:
    """Stopping loses what was trained since the last checkpoint, and nothing more is done."""
    replay = _replay(seen)
    return Cost(acting=replay, waiting=_waiting(seen), parts={"replay": replay})


def _middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _waiting(seen: Seen) -> Figure:
    if seen.still_running:
        return _figure(seen, HOUR, "an hour in which it holds its GPUs and does not move")
    return _figure(seen, HOUR, "an hour in which it does not train")


def _replay(seen: Seen) -> Figure:
    if seen.since_checkpoint is not None:
        return _figure(seen, seen.since_checkpoint, "the time since its last checkpoint")
    if seen.whole_run is not None:
        hours = f"; at most {round(seen.gpus * seen.whole_run / HOUR, 1)}, the whole run" if seen.gpus else ""
        return _unknown(f"when it last wrote a checkpoint is not known{hours}")
    return _unknown("when it last wrote a checkpoint is not known")


def _figure(seen: Seen, seconds: float | None, rests_on: str) -> Figure:
    if seen.gpus is None:
        return _unknown("how many GPUs the job had is not known")
    if seconds is None:
        return _unknown(rests_on)
    counted = f" ({seen.gpus} GPUs, {seen.gpus_from})" if seen.gpus_from else f" ({seen.gpus} GPUs)"
    return Figure(gpu_hours=round(seen.gpus * seconds / HOUR, 1), rests_on=rests_on + counted)


def _unknown(why: str) -> Figure:
    return Figure(gpu_hours=None, rests_on=f"unknown: {why}")
