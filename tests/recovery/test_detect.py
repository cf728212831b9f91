"""Crashes, hangs, stragglers and blindness as pure functions of evidence."""

from __future__ import annotations

import random

from recovery.progress import blind, detect
from recovery.progress.blind import Heard, Way
from recovery.progress.detect import FatalLine, Limits, RankState
from rules.words import Role

LIMITS = Limits()


def steady(
    pause: float = 60.0, *, moves: int = 30, step: int = 10, noise: float = 0.0, seed: int = 1
) -> list[tuple[float, int]]:
    """Samples of an attempt that moves every `pause` seconds, beginning at 0."""
    dice = random.Random(seed)
    at, out = 0.0, [(0.0, 0)]
    for number in range(1, moves + 1):
        at += pause * (1 + dice.uniform(-noise, noise))
        out.append((at, number * step))
    return out


def ranks(number: int, *, step: int = 300, moved: float = 1_800.0, **more: object) -> list[RankState]:
    return [
        RankState(rank=rank, node=f"n{rank // 4}", step=step, moved_at=moved, heard_at=moved, **more)  # type: ignore[arg-type]
        for rank in range(number)
    ]


def test_a_hang_is_a_multiple_of_the_attempts_own_pace_and_never_below_the_floor() -> None:
    quick, slow = steady(60), steady(600)
    assert detect.hang(ranks(8), quick, 1_800 + 299, LIMITS) is None
    found = detect.hang(ranks(8), quick, 1_800 + 301, LIMITS)
    assert found is not None and found.figures["allowed_seconds"] == 300
    assert found.figures["pace"]["usual_seconds"] == 60 and found.event_at == 1_800
    moved = slow[-1][0]
    assert detect.hang(ranks(8, moved=moved), slow, moved + 2_900, LIMITS) is None
    late = detect.hang(ranks(8, moved=moved), slow, moved + 3_001, LIMITS)
    assert late is not None and "5 times its usual pause of 10 min" in late.said


def test_single_slow_pauses_do_not_make_the_pace_and_what_was_recovered_from_counts_as_usual() -> None:
    samples = steady(60)
    checkpoint = [(at + (900 if step > 150 else 0), step) for at, step in samples]
    pace = detect.pace(checkpoint)
    assert pace is not None and pace.usual == 60 and pace.longest == 960
    moved = checkpoint[-1][0]
    assert detect.hang(ranks(2, moved=moved), checkpoint, moved + 1_100, LIMITS) is None
    found = detect.hang(ranks(2, moved=moved), checkpoint, moved + 1_201, LIMITS)
    assert found is not None and "recovered from before" in found.said


def test_a_checkpoint_phase_is_waited_for() -> None:
    standing = ranks(2, phase="checkpointing")
    assert detect.hang(standing, steady(60), 1_800 + 1_700, LIMITS) is None
    found = detect.hang(standing, steady(60), 1_800 + 1_801, LIMITS)
    assert found is not None and "'checkpointing'" in found.said


def test_without_a_pace_of_its_own_an_attempt_is_given_time_and_unknown_progress_is_no_hang() -> None:
    assert detect.hang(ranks(2), steady(60, moves=2), 1_800 + 3_599, LIMITS) is None
    assert detect.hang(ranks(2), steady(60, moves=2), 1_800 + 3_601, LIMITS) is not None
    silent = [RankState(rank=0, heard_at=5.0)]
    assert detect.hang(silent, [], 1e9, LIMITS) is None
    by_log = detect.hang([], [], 10_000, LIMITS, wrote_at=5_000.0)
    assert by_log is not None and by_log.figures["movement"] == "log"


def test_the_ranks_that_are_behind_are_named_by_collective_before_step() -> None:
    standing = [
        RankState(rank=r, node=f"n{r // 4}", step=300, collective=9_000 - (r == 5), moved_at=1_800.0) for r in range(8)
    ]
    found = detect.hang(standing, steady(60), 1_800 + 400, LIMITS)
    assert found is not None and found.ranks == (5,) and found.nodes == ("n1",)
    assert "Behind by collective: rank 5 on n1" in found.said
    level = detect.hang(ranks(8), steady(60), 1_800 + 400, LIMITS)
    assert level is not None and level.ranks == () and "No rank is behind" in level.said


def test_one_rank_that_ran_ahead_does_not_make_all_others_the_culprits() -> None:
    standing = [RankState(rank=r, collective=100 + (r == 0) - (r == 3), moved_at=0.0) for r in range(8)]
    late, how = detect.behind(standing)
    assert [one.rank for one in late] == [3] and how == "collective"


def test_a_restart_inside_the_attempt_is_no_pause() -> None:
    samples = [(0.0, 0), (60.0, 10), (120.0, 20), (900.0, 10), (960.0, 20), (1_020.0, 30), (1_080.0, 40)]
    pace = detect.pace(samples)
    assert pace is not None and pace.longest == 60 and pace.moves == 5


def paced(number: int, slow: dict[int, float], *, node: int = 8, at: float = 1_000.0) -> list[RankState]:
    dice = random.Random(7)
    return [
        RankState(
            rank=rank,
            node=f"n{rank // node}",
            gpu=str(rank % node),
            paces=tuple((at - 60 * k, slow.get(rank, 2.0) * (1 + dice.uniform(-0.01, 0.01))) for k in range(6, 0, -1)),
        )
        for rank in range(number)
    ]


def test_a_straggler_is_a_rank_a_gpu_or_a_node_slower_than_its_peers() -> None:
    one = detect.straggler(paced(32, {9: 2.6}), 1_000, LIMITS)
    assert one is not None and one.ranks == (9,) and one.nodes == ("n1",) and one.figures["where"] == "gpu"
    whole = detect.straggler(paced(32, dict.fromkeys(range(8, 16), 2.6)), 1_000, LIMITS)
    assert whole is not None and whole.nodes == ("n1",) and whole.figures["where"] == "node"
    assert "Every rank of n1" in whole.said
    assert detect.straggler(paced(32, {}), 1_000, LIMITS) is None


def test_no_straggler_without_enough_peers_enough_steps_or_when_most_are_slow() -> None:
    assert detect.straggler(paced(4, {1: 9.0}), 1_000, LIMITS) is None
    assert detect.straggler(paced(32, {9: 9.0}), 1_000 + 5_000, LIMITS) is None  # long ago
    single = [RankState(rank=r, paces=((999.0, 9.0 if r == 3 else 2.0),)) for r in range(32)]
    assert detect.straggler(single, 1_000, LIMITS) is None
    half = detect.straggler(paced(8, dict.fromkeys(range(4), 4.0)), 1_000, LIMITS)
    assert half is None


def test_a_crash_is_an_end_that_is_no_success_and_no_cancelling() -> None:
    found = detect.crash("NODE_FAIL", 100.0, 130.0)
    assert found is not None and found.event_at == 100 and found.observed_at == 130
    for state in ("COMPLETED", "CANCELLED by 1001", "PREEMPTED", "", "odd"):
        assert detect.crash(state, 100.0, 130.0) is None


def test_fatal_text_counts_before_the_process_exits_where_nothing_moved_since() -> None:
    line = FatalLine("gpu.off-the-bus", "gpu_off_bus", Role.CAUSE, at=100.0, seen_at=110.0, node="n3", rank=4)
    found = detect.crash("RUNNING", None, 150.0, [line], moved_at=90.0)
    assert found is not None and found.nodes == ("n3",) and found.event_at == 100 and found.observed_at == 110
    assert detect.crash("RUNNING", None, 150.0, [line], moved_at=120.0) is None
    assert detect.crash("RUNNING", None, 115.0, [line], moved_at=90.0) is None
    only = FatalLine("pytorch.x", "nccl_timeout", Role.SYMPTOM, at=100.0, seen_at=110.0)
    assert detect.crash("RUNNING", None, 150.0, [only], moved_at=90.0) is None


def test_all_jobs_silent_at_once_is_the_transport_and_one_by_one_is_not() -> None:
    now = 10_000.0
    together = [Heard(str(n), 9_000.0 + n, 300.0) for n in range(5)]
    assert blind.transport_ended(together, now, LIMITS) == 9_004
    one_by_one = [Heard(str(n), 9_000.0 - 700 * n, 300.0) for n in range(5)]
    assert blind.transport_ended(one_by_one, now, LIMITS) is None
    assert blind.transport_ended([*together, Heard("x", 9_990.0, 300.0)], now, LIMITS) is None
    assert blind.transport_ended(together[:2], now, LIMITS) is None


def test_blindness_says_why_and_one_way_that_works_is_enough() -> None:
    now = 10_000.0
    nothing = blind.blindness([], now, LIMITS)
    assert nothing is not None and nothing.endswith("Hang detection is blind for this job.")
    unread = Way("logs", "log", read_until=now - 10, lines=400)
    said = blind.blindness([unread], now, LIMITS)
    assert said is not None and "400 lines) and none says a step" in said
    assert blind.blindness([unread, Way("posts", "post", signs=3)], now, LIMITS) is None
    ended = blind.blindness([Way("posts", "post", signs=3, silent_since=now - 600)], now, LIMITS)
    assert ended is not None and "delivers nothing for any job since 10 min" in ended
    stale = blind.blindness([Way("logs", "log", read_until=now - 4_000, signs=9, said="refused")], now, LIMITS)
    assert stale is not None and "67 min ago: refused" in stale
