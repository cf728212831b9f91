"""The evidence meter: figures that can be looked up, and the chance of an error that it promises."""

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.policies import meter
from recovery.policies.meter import Labelled

NOW = datetime(2026, 11, 3, tzinfo=UTC)
WEEKS = timedelta(days=14)


def a_case(number: int, right: bool | None = True, **more: Any) -> Labelled:
    """The case of so many hours after the year began."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    said: dict[str, Any] = {"incident": f"i{number}", "at": at, "due": at + WEEKS}
    said["known_at"] = None if right is None else at + timedelta(hours=1)
    return Labelled(key=f"c{number}", right=right, **(said | more))


def cases(right: int, wrong: int = 0) -> list[Labelled]:
    return [a_case(number, right=number >= wrong) for number in range(right + wrong)]


@pytest.mark.parametrize(("wrong", "n"), [(0, 299), (1, 473), (2, 628), (3, 773)])
def test_the_exact_bound_reaches_one_percent_at_the_published_numbers(wrong: int, n: int) -> None:
    assert meter.upper_bound(wrong, n) <= 0.01 < meter.upper_bound(wrong, n - 1)


def test_a_right_case_multiplies_by_10081_and_a_wrong_one_by_a_fifth() -> None:
    gain, loss = meter.factors()
    assert round(gain, 4) == 1.0081
    assert loss == pytest.approx(0.2)


def test_a_clean_record_is_enough_after_373_incidents_and_a_wrong_one_costs_200() -> None:
    assert not meter.read(cases(372), now=NOW).promotable
    reading = meter.read(cases(373), now=NOW)
    assert reading.promotable and reading.wealth >= 20 and reading.n == 373
    assert meter.needed(373, 1) == 200


def test_cases_of_one_incident_count_once_and_wrong_if_any_is() -> None:
    twelve = [a_case(number, incident="switch", right=number != 5) for number in range(12)]
    reading = meter.read([*twelve, a_case(20)], now=NOW)
    assert (reading.n, reading.wrong, reading.cases) == (2, 1, 13)
    assert reading.design_effect == pytest.approx((144 + 1) / 13)


def test_a_label_that_is_missing_when_due_counts_as_wrong() -> None:
    reading = meter.read([a_case(1), a_case(2, right=None)], now=NOW)
    assert (reading.n, reading.wrong, reading.missing) == (2, 1, 1)


def test_a_case_that_waits_holds_up_the_right_ones_after_it_but_no_wrong_one() -> None:
    waits = a_case(2, right=None, due=NOW + WEEKS)
    reading = meter.read([a_case(1), waits, a_case(3), a_case(4, right=False)], now=NOW)
    assert (reading.n, reading.wrong, reading.waiting, reading.held_up) == (2, 1, 1, 1)


def test_planted_faults_are_counted_apart() -> None:
    planted = [a_case(number, injected=True) for number in range(400)]
    assert meter.read(planted, now=NOW).n == 0
    assert meter.apart([*planted, a_case(500)])["right"] == 400


def test_how_long_it_will_take_at_the_rate_of_the_last_thirty_days() -> None:
    start = NOW - timedelta(days=30)
    said = [a_case(n, at=start + timedelta(hours=12 * n, minutes=1), due=NOW + WEEKS) for n in range(60)]
    reading = meter.read(said, now=NOW)
    assert reading.a_day == pytest.approx(2, rel=0.02)
    assert reading.days_to_go == pytest.approx(reading.needed / 2, rel=0.02)
    assert meter.read([], now=NOW).days_to_go is None


def test_a_policy_at_the_limit_is_promoted_in_at_most_one_of_twenty_histories() -> None:
    gain, loss = (math.log(factor) for factor in meter.factors())
    chance, promoted, runs = random.Random(1710), 0, 1000
    for _ in range(runs):
        total = 0.0
        for _ in range(2000):
            total += loss if chance.random() < meter.P0 else gain
            if total >= math.log(meter.ENOUGH):
                promoted += 1
                break
    # 5 % are allowed; three standard deviations of 1,000 histories are 2 %.
    assert 0 < promoted / runs <= 0.05 + 0.02


def test_a_policy_that_is_wrong_once_in_a_thousand_is_promoted_within_a_thousand_incidents() -> None:
    gain, loss = (math.log(factor) for factor in meter.factors())
    chance, promoted = random.Random(7), 0
    for _ in range(200):
        total = highest = 0.0
        for _ in range(1000):
            total += loss if chance.random() < 0.001 else gain
            highest = max(highest, total)
        promoted += highest >= math.log(meter.ENOUGH)
    assert promoted >= 190


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from([True, False, None]), st.booleans()), max_size=40))
def test_a_worse_record_never_has_more_wealth(said: list[tuple[int, bool | None, bool]]) -> None:
    record = [
        a_case(number, right=right, incident=f"i{incident}", injected=injected)
        for number, (incident, right, injected) in enumerate(said)
    ]
    before = meter.read(record, now=NOW)
    for place, case in enumerate(record):
        worse = [*record[:place], a_case(place, right=False, incident=case.incident, injected=case.injected)]
        assert meter.read([*worse, *record[place + 1 :]], now=NOW).wealth <= before.wealth * (1 + 1e-9)


def test_two_wrong_actions_within_a_week_end_automatic() -> None:
    since = datetime(2025, 12, 31, tzinfo=UTC)
    far = [a_case(1, right=False), a_case(24 * 9, right=False)]
    near = [a_case(1, right=False), a_case(24 * 6, right=False)]
    assert meter.why_demote(far, since=since, now=NOW) == ""
    assert "2 wrong actions within 7 days" in meter.why_demote(near, since=since, now=NOW)
    assert meter.why_demote(near, since=NOW, now=NOW) == ""


def test_the_watch_is_alarmed_by_a_bad_rate_and_hardly_ever_by_a_good_one() -> None:
    def alarmed(rate: float, length: int, seed: int) -> bool:
        chance = random.Random(seed)
        return max(meter.cusum(chance.random() < rate for _ in range(length))) >= meter.ALARM

    assert sum(alarmed(0.10, 200, seed) for seed in range(100)) >= 90
    assert sum(alarmed(0.005, 1000, seed) for seed in range(100)) <= 3


def test_wrong_ones_far_apart_end_automatic_when_they_are_too_many() -> None:
    since = datetime(2025, 12, 31, tzinfo=UTC)
    spread = [a_case(24 * 8 * number, right=False) for number in range(5)]
    assert "3% rather than 1%" in meter.why_demote(spread, since=since, now=NOW)
