"""Whether a symptom that came again speaks against the exclusion before it."""

from datetime import timedelta

import pytest

from recovery.recurrence import CHANCE, by_chance, too_many

HOUR = timedelta(hours=1)


def test_in_a_small_job_or_a_quiet_cluster_it_speaks_against_it() -> None:
    assert by_chance(1, alike=0, nodes=2048, of=10_000, ran=HOUR) == 0
    assert by_chance(1, alike=3, nodes=16, of=1_000, ran=HOUR) < CHANCE


def test_a_large_job_meets_another_fault_of_the_kind_by_itself_and_hardly_ever_three_in_a_row() -> None:
    assert by_chance(1, alike=150, nodes=2048, of=10_000, ran=HOUR) == pytest.approx(0.042, abs=0.001)
    assert by_chance(3, alike=150, nodes=2048, of=10_000, ran=HOUR) < CHANCE


def test_what_is_not_known_explains_nothing() -> None:
    assert by_chance(1, alike=10, nodes=0, of=0, ran=HOUR) == 0
    assert by_chance(1, alike=10, nodes=5, of=9, ran=-HOUR) == 0


@pytest.mark.parametrize(("wrong", "made", "wanted"), [(1, 1, False), (2, 2, True), (2, 20, False), (3, 29, True)])
def test_wrong_ones_speak_for_all_from_two_on_and_from_a_tenth(wrong: int, made: int, wanted: bool) -> None:
    assert too_many(wrong, made) is wanted
