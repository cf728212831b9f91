"""Times as logs print them, and what can be said of their order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.stamp import MICRO, Interval, Order, civil, duration, order, parse_stamp, place


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-03T02:11:04.123456+00:00",
        "2026-11-03T02:11:04",
        "--02-29T20:18:08",
        "boot:74785.660366",
    ],
)
def test_a_canonical_stamp_reads_back_as_it_was_written(text: str) -> None:
    assert str(parse_stamp(text)) == text


def test_an_offset_is_taken_into_account() -> None:
    assert parse_stamp("2026-11-03T03:11:04+01:00") == parse_stamp("2026-11-03T02:11:04Z")


@pytest.mark.parametrize("text", ["2026-06-31T00:00:00", "2026-11-03T25:00:00", "yesterday", "", "boot:x"])
def test_a_text_that_names_no_moment_is_no_stamp(text: str) -> None:
    assert parse_stamp(text) is None


def test_overlapping_intervals_are_unordered() -> None:
    assert order(Interval("utc", 0, 10), Interval("utc", 10, 20)) is Order.UNKNOWN
    assert order(Interval("utc", 0, 9), Interval("utc", 10, 20)) is Order.BEFORE


def test_stamps_of_different_clocks_are_unordered() -> None:
    assert order(Interval("utc", 0, 1), Interval("local", 10, 20)) is Order.UNKNOWN


@pytest.mark.parametrize(
    ("month", "day", "near", "year"),
    [
        (12, 31, "2027-01-01T00:10:00Z", 2026),
        (1, 1, "2026-12-31T23:50:00Z", 2027),
        (11, 3, "2026-11-03T02:00:00Z", 2026),
    ],
)
def test_a_date_without_a_year_takes_the_one_next_to_the_attempt(month: int, day: int, near: str, year: int) -> None:
    stamp = civil(None, month, day, 23, 59, 0)
    moment = parse_stamp(near)
    assert stamp and moment
    assert str(place(stamp, near=moment.micros, utc_offset="")).startswith(str(year))


def test_a_date_without_a_year_keeps_its_doubt_without_a_window() -> None:
    stamp = civil(None, 6, 17, 20, 18, 8)
    assert stamp and place(stamp, near=None, utc_offset="Z").clock == "yearless"


@given(st.integers(0, 10**15))
def test_placing_never_moves_a_stamp_that_has_a_zone(micros: int) -> None:
    stamp = parse_stamp("2026-11-03T02:11:04Z")
    assert stamp and place(stamp, near=micros, utc_offset="+05:30") == stamp


def test_durations() -> None:
    assert [duration(t) for t in ("500ms", "30s", "2h")] == [MICRO // 2, 30 * MICRO, 7200 * MICRO]
    with pytest.raises(ValueError, match="not a duration"):
        duration("soon")
