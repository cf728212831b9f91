"""What evidence of progress says: a crash, a hang, a straggler.

Pure functions over plain data; times are seconds since 1970. Unknown progress is not zero progress: where the evidence
does not carry an answer the answer is None, and `blind.py` says why. Every finding has the figures that it rests on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rules.terminal import scheduler_state
from rules.words import Role, State

#: Scales a median absolute deviation to a standard deviation.
MAD_SCALE = 1.4826
#: Phases in which a workload takes no steps and is well. Compared by how they begin, in lower case.
PAUSES = ("checkpoint", "save", "saving", "eval", "valid", "test", "load", "init", "compil", "warm", "restor", "setup")
#: Ends that are no crash.
PEACEFUL = frozenset({State.SUCCEEDED, State.CANCELLED, State.PREEMPTED, State.TIMED_OUT, State.RUNNING, State.UNKNOWN})
#: Ranks that are named in a sentence.
NAMED = 8


@dataclass(frozen=True)
class Limits:
    """How patient detection is. Seconds and ratios.

    A step is late after `multiple` of the usual pause between two signs of movement, never before `floor`; what it
    once recovered from counts as usual up to `ceiling`. Without a pace of its own an attempt has `start` from when it
    was last seen to move, in a known pause (a checkpoint, an evaluation) at least `pause`.
    """

    multiple: float = 5.0
    floor: float = 300.0
    ceiling: float = 2_700.0
    start: float = 3_600.0
    pause: float = 1_800.0
    #: Fewer pauses between movements than this are no pace.
    least_moves: int = 4
    #: A straggler is slower than its peers by this ratio and by so many deviations, over the window.
    slower: float = 1.15
    deviations: float = 6.0
    window: float = 900.0
    least_peers: int = 4
    least_paces: int = 3
    #: How long a fatal line must have stood with nothing moving.
    quiet: float = 30.0
    #: How far apart the last signs of several jobs may be for it to be the transport that ended.
    together: float = 120.0
    least_jobs: int = 3


@dataclass(frozen=True)
class RankState:
    """The newest that is known of a rank; `rank` is None where the sign is the whole job's."""

    rank: int | None
    node: str = ""
    gpu: str = ""
    via: str = ""
    step: int | None = None
    collective: int | None = None
    phase: str = ""
    moved_at: float | None = None
    heard_at: float | None = None
    #: When its newest sign was, by its own clock.
    at: float | None = None
    #: (when we learned of it, seconds a step)
    paces: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Pace:
    """How an attempt moves: the pauses between two signs of movement, by their median and deviation."""

    moves: int
    usual: float
    deviation: float
    longest: float
    step_seconds: float | None


@dataclass(frozen=True)
class Finding:
    """What was found, with its figures. `event_at` is when it happened, as far as can be told."""

    said: str
    event_at: float | None
    observed_at: float
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FatalLine:
    """A sighting of a rule in the log of an attempt that still runs."""

    rule: str
    symptom: str
    role: Role
    at: float | None
    seen_at: float
    node: str = ""
    rank: int | None = None


def pace(samples: Sequence[tuple[float, int]]) -> Pace | None:
    """The pace of an attempt from (when, least step) in the order of time; None where it hardly moved yet.

    Steps that go back are a restart: the pause before it is no pause between two steps.
    """
    pauses: list[float] = []
    each: list[float] = []
    at, step = None, 0
    for when, now in samples:
        if at is not None and now == step:
            continue
        if at is not None and now > step and when > at:
            pauses.append(when - at)
            each.append((when - at) / (now - step))
        at, step = when, now
    if not pauses:
        return None
    usual = median(pauses)
    return Pace(len(pauses), usual, deviation(pauses, usual), max(pauses), median(each))


def deviation(values: Sequence[float], middle: float) -> float:
    """The standard deviation as the median absolute deviation tells it: single outliers do not move it."""
    return MAD_SCALE * median(abs(value - middle) for value in values)


def patience(found: Pace | None, phase: str, limits: Limits) -> tuple[float, str]:
    """How long an attempt may stand still before it hangs, and why so long."""
    if found is None or found.moves < limits.least_moves:
        moves = found.moves if found else 0
        usual, why = limits.start, f"its own pace is not known yet: it was seen to move {moves} times"
    else:
        by_pace = max(limits.multiple * found.usual, found.usual + limits.deviations * found.deviation)
        by_record = min(1.25 * found.longest, limits.ceiling)
        usual = max(limits.floor, by_pace, by_record)
        why = {
            limits.floor: "the floor",
            by_pace: f"{limits.multiple:g} times its usual pause of {seconds(found.usual)}",
            by_record: f"a quarter longer than the {seconds(found.longest)} that it recovered from before",
        }[usual]
    if paused(phase) and usual < limits.pause:
        return limits.pause, f"it says that it is in {phase!r}"
    return usual, why


def paused(phase: str) -> bool:
    """Whether a phase is one without steps."""
    return phase.lower().startswith(PAUSES)


def hang(
    ranks: Sequence[RankState],
    samples: Sequence[tuple[float, int]],
    known_until: float,
    limits: Limits,
    *,
    wrote_at: float | None = None,
) -> Finding | None:
    """Whether an attempt stands still for longer than its pace allows; None where it moves or nothing can be said.

    `known_until` is how far the evidence reaches: where the collector stopped, the clock of silence stops too.
    `wrote_at` is when its log last had a line, whatever it said: where no step is known, that is its only movement.
    """
    steps = [one for one in ranks if one.moved_at is not None]
    moved = max((one.moved_at for one in steps if one.moved_at is not None), default=None)
    by = "step"
    if moved is None:
        if wrote_at is None:
            return None
        moved, by = wrote_at, "log"
    phase = _phase(ranks)
    found = pace(samples)
    allowed, why = patience(found, phase, limits)
    still = known_until - moved
    if still <= allowed:
        return None
    late, how = behind(ranks)
    nodes = tuple(sorted({one.node for one in late if one.node}))
    named = tuple(sorted(one.rank for one in late if one.rank is not None))
    heard = max((one.heard_at for one in ranks if one.heard_at is not None), default=None)
    # By its own clock it stopped a little sooner; a sign after the last movement says nothing of that.
    own = max((one.at for one in ranks if one.at is not None and one.at <= moved), default=moved)
    alive = heard is not None and heard - moved > limits.together
    figures = {
        "still_seconds": round(still, 1),
        "allowed_seconds": round(allowed, 1),
        "allowed_because": why,
        "known_until": round(known_until, 1),
        "moved_at": round(moved, 1),
        "movement": by,
        "phase": phase,
        "step_min": min((one.step for one in ranks if one.step is not None), default=None),
        "step_max": max((one.step for one in ranks if one.step is not None), default=None),
        "collective_min": min((one.collective for one in ranks if one.collective is not None), default=None),
        "collective_max": max((one.collective for one in ranks if one.collective is not None), default=None),
        "ranks_known": sum(one.rank is not None for one in ranks),
        "still_speaks": alive,
        "log_wrote_at": wrote_at,
        "behind_by": how,
        "pace": None
        if found is None
        else {
            "moves": found.moves,
            "usual_seconds": round(found.usual, 1),
            "deviation_seconds": round(found.deviation, 1),
            "longest_seconds": round(found.longest, 1),
            "step_seconds": round(found.step_seconds, 4) if found.step_seconds else None,
        },
    }
    what = "No step and no collective" if by == "step" else "No line in its log"
    said = f"{what} for {seconds(still)}; {seconds(allowed)} are allowed: {why}."
    if named:
        said += f" Behind by {how}: {_ranks(named)}{_on(nodes)}."
    elif by == "step" and len(ranks) > 1:
        said += " No rank is behind the others by what is known."
    if alive:
        said += " It still sends signs, so the way to us is open."
    return Finding(said, event_at=own, observed_at=moved + allowed, nodes=nodes, ranks=named, figures=figures)


def behind(ranks: Sequence[RankState]) -> tuple[list[RankState], str]:
    """The ranks that are behind the others, and by what: collectives first, for they are counted more finely.

    Where all are level, or nothing is known of two of them, none is behind.
    """
    for how in ("collective", "step"):
        known = [(value, one) for one in ranks if one.rank is not None and (value := getattr(one, how)) is not None]
        if len(known) < 2:
            continue
        most = max(value for value, _ in known)
        late = [one for value, one in known if value < most]
        # Where most are behind one that ran ahead, the least far are the ones that the others wait for.
        if len(late) > len(known) / 2:
            least = min(value for value, _ in known)
            late = [one for value, one in known if value == least]
        if late and len(late) < len(known):
            return late, how
    return [], ""


def straggler(ranks: Sequence[RankState], now: float, limits: Limits) -> Finding | None:
    """Whether ranks are slower than their peers over the window; says the node where its ranks share it.

    A rank counts by the median of its step times within the window, and only with several of them: one slow step is
    none. Too few peers, or times that all are the same, say nothing.
    """
    paced: dict[int, tuple[RankState, float, int]] = {}
    for one in ranks:
        window = [took for at, took in one.paces if now - limits.window <= at <= now]
        if one.rank is not None and len(window) >= limits.least_paces:
            paced[one.rank] = (one, median(window), len(window))
    if len(paced) <= limits.least_peers:
        return None
    times = [took for _, took, _ in paced.values()]
    middle = median(times)
    spread = deviation(times, middle)
    bound = max(middle * limits.slower, middle + limits.deviations * spread)
    slow = {rank: took for rank, (_, took, _) in paced.items() if took > bound}
    if not slow or len(slow) > len(paced) // 2:
        return None
    nodes, where = _where(paced, slow)
    worst = max(slow, key=lambda rank: (slow[rank], -rank))
    gpus = sorted({f"{paced[rank][0].node} {paced[rank][0].gpu}".strip() for rank in slow if paced[rank][0].gpu})
    figures = {
        "where": where,
        "gpus": gpus[:NAMED],
        "peers": len(paced) - len(slow),
        "usual_seconds": round(middle, 4),
        "deviation_seconds": round(spread, 4),
        "bound_seconds": round(bound, 4),
        "window_seconds": limits.window,
        "slow": {str(rank): round(took, 4) for rank, took in sorted(slow.items())[:64]},
        "least_paces": min(number for rank, (_, _, number) in paced.items() if rank in slow),
    }
    if where == "node":
        who = f"Every rank of {', '.join(nodes)} is"
    elif where == "gpu" and gpus:
        who = f"Rank {worst} (GPU {gpus[0]}) is"
    else:
        who = f"{_ranks(sorted(slow)).capitalize()} {'is' if len(slow) == 1 else 'are'}"
    said = (
        f"{who} slower than {len(paced) - len(slow)} peers: {slow[worst]:.3g} s a step against {middle:.3g} s"
        f" ({slow[worst] / middle - 1:.0%} more, over {limits.window / 60:g} min)."
    )
    begin = min(at for rank in slow for at, _ in paced[rank][0].paces)
    return Finding(said, begin, now, nodes=nodes, ranks=tuple(sorted(slow)), figures=figures)


def _where(paced: Mapping[int, tuple[RankState, float, int]], slow: Mapping[int, float]) -> tuple[tuple[str, ...], str]:
    """The nodes of the slow ranks, and whether it is whole nodes, single GPUs or ranks that are slow."""
    of_node: dict[str, list[int]] = {}
    for rank, (one, _, _) in paced.items():
        if one.node:
            of_node.setdefault(one.node, []).append(rank)
    nodes = tuple(sorted({paced[rank][0].node for rank in slow if paced[rank][0].node}))
    whole = [node for node in nodes if len(of_node[node]) > 1 and all(rank in slow for rank in of_node[node])]
    if nodes and len(whole) == len(nodes):
        return nodes, "node"
    return nodes, "gpu" if len(slow) == 1 and any(paced[rank][0].gpu for rank in slow) else "rank"


def crash(
    state: str,
    ended_at: float | None,
    seen_at: float,
    fatal: Iterable[FatalLine] = (),
    *,
    moved_at: float | None = None,
    limits: Limits = Limits(),
) -> Finding | None:
    """Whether an attempt crashed: by how it ended, or by text that means its end before its process is gone.

    A success, a cancelling and a preemption are no crash. While it runs, only a line counts whose rule can be the cause
    of a failure, and only where nothing moved since and the line has stood for a while: programs catch what
    they log.
    """
    lines = sorted(fatal, key=lambda line: (line.at or line.seen_at, line.rule))
    if ended_at is not None:
        known = scheduler_state(state)
        if known is None or known in PEACEFUL:
            return None
        figures: dict[str, Any] = {"state": state, "terminal_state": known.value, "running": False}
        nodes, ranks = _blamed(lines)
        figures["fatal"] = sorted({line.rule for line in lines})[:NAMED]
        return Finding(f"It ended as {state}.", ended_at, max(seen_at, ended_at), nodes, ranks, figures)
    deadly = [line for line in lines if line.role in (Role.CAUSE, Role.EITHER)]
    deadly = [line for line in deadly if moved_at is None or (line.at or line.seen_at) > moved_at]
    if not deadly or seen_at - (deadly[0].at or deadly[0].seen_at) < limits.quiet:
        return None
    first = deadly[0]
    nodes, ranks = _blamed(deadly)
    figures = {
        "state": state,
        "running": True,
        "symptom": first.symptom,
        "fatal": sorted({line.rule for line in deadly})[:NAMED],
        "lines": len(deadly),
        "moved_at": moved_at,
    }
    said = f"Its log says {first.symptom.replace('_', ' ')}{_on(nodes)}, and nothing moved since; it still runs."
    return Finding(said, first.at, first.seen_at, nodes, ranks, figures)


def _blamed(lines: Sequence[FatalLine]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The nodes and ranks that lines come from."""
    nodes = tuple(sorted({line.node for line in lines if line.node}))
    return nodes, tuple(sorted({line.rank for line in lines if line.rank is not None}))


def seconds(value: float) -> str:
    """A time in words that are short: "45 s", "12 min", "3.5 h"."""
    if value < 120:
        return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"
    return f"{value / 60:.0f} min" if value < 7_200 else f"{value / 3600:.1f} h"


def _phase(ranks: Sequence[RankState]) -> str:
    """The phase that matters: a known pause of any rank, else what the first says."""
    phases = sorted({one.phase for one in ranks if one.phase})
    return next((phase for phase in phases if paused(phase)), phases[0] if phases else "")


def _ranks(ranks: Sequence[int]) -> str:
    """Ranks in words."""
    named = ", ".join(map(str, ranks[:NAMED]))
    more = f" and {len(ranks) - NAMED} more" if len(ranks) > NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {named}{more}"


def _on(nodes: Sequence[str]) -> str:
    if not nodes:
        return ""
    more = f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else ""
    return f" on {', '.join(nodes[:NAMED])}{more}"
