"""Exact intervals, against published values and against their own definition."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdicts.intervals import share


@pytest.mark.parametrize(
    ("count", "whole", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (5, 10, 0.1871, 0.8129),
        (9, 10, 0.5550, 0.9975),
        (10, 10, 0.6915, 1.0),
        (45, 50, 0.7819, 0.9667),
        (3, 300, 0.0021, 0.0289),
        (0, 299, 0.0, 0.0123),
    ],
)
def test_as_published(count: int, whole: int, low: float, high: float) -> None:
    found = share(count, whole)
    assert found.low == pytest.approx(low, abs=6e-5)
    assert found.high == pytest.approx(high, abs=6e-5)


def test_the_bound_of_a_clean_run_is_the_closed_form() -> None:
    """None false in n, one-sided 95 %: 1 - 0.05^(1/n)."""
    for whole in (1, 59, 299, 5000):
        assert share(0, whole, confidence=0.90).high == pytest.approx(1 - 0.05 ** (1 / whole), rel=1e-9)


def test_of_nothing_everything_is_possible() -> None:
    found = share(0, 0)
    assert (found.value, found.low, found.high) == (None, 0.0, 1.0)


def test_more_than_all_is_no_share() -> None:
    with pytest.raises(ValueError, match="no share"):
        share(3, 2)


@given(st.integers(1, 400), st.data())
def test_each_bound_is_where_the_binomial_tail_is_what_it_should_be(whole: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, whole))
    found = share(count, whole)

    def at_most(k: int, p: float) -> float:
        return math.fsum(math.comb(whole, i) * p**i * (1 - p) ** (whole - i) for i in range(k + 1))

    assert 0 <= found.low <= count / whole <= found.high <= 1
    if count:
        assert 1 - at_most(count - 1, found.low) == pytest.approx(0.025, abs=1e-6)
    if count < whole:
        assert at_most(count, found.high) == pytest.approx(0.025, abs=1e-6)


def test_a_million_is_no_trouble() -> None:
    found = share(500_000, 1_000_000)
    assert found.low == pytest.approx(0.49902, abs=1e-5)
