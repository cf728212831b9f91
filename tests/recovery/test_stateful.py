"""Random histories over a scheduler that may apply and then time out, with crashes, expiries, vetoes and clock jumps.

Never an action after rejection, expiry, veto or supersession; never two effects; caps never exceeded; release never
blocked; no job left held. INQUEST_HISTORIES asks for more of them. Hypothesis finds the shortest history that shows
a fault; plain chance goes through many more of them in the same time.
"""

import os
import random
from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.recovery.simulated import Story

MANY = int(os.environ.get("INQUEST_HISTORIES", "1500"))
STEPS = 60
EVENTS = [name for name, weight in Story.WEIGHTS.items() for _ in range(weight)]


def by_chance(seed: int) -> Counter[str]:
    """One history by its seed; what happened in it."""
    chance = random.Random(seed)
    story = Story(chance.choice)
    for name in chance.choices(EVENTS, k=STEPS):
        getattr(story, name)()
        story.check()
    story.end()
    return story.told


def test_many_histories_by_chance_keep_every_promise() -> None:
    told: Counter[str] = Counter()
    for seed in range(MANY):
        try:
            told += by_chance(seed)
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
    # Histories in which nothing happens would promise nothing.
    assert told["requeue"] > MANY / 2 and told["exclude"] > MANY / 5 and told["killed"] > MANY / 8, told


class Histories(RuleBasedStateMachine):
    """The same events, chosen by Hypothesis."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Story(lambda _: None)

    @rule(data=st.data(), name=st.sampled_from(EVENTS))
    def something_happens(self, data: st.DataObject, name: str) -> None:
        self.story.pick = lambda values: data.draw(st.sampled_from(list(values)))
        getattr(self.story, name)()

    @invariant()
    def all_promises_hold(self) -> None:
        self.story.check()

    def teardown(self) -> None:
        self.story.end()


Histories.TestCase.settings = settings(
    max_examples=40, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
TestHistories = Histories.TestCase
