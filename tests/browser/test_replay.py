"""Replays in a real browser: begun, followed without a click, judged, readable on a phone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from recovery.models import Replay
from recovery.replay import begin, rulesets, work
from tests.recovery.replaying import FAN, a_rule, concluded, in_force, rules


def test_a_replay_is_begun_followed_and_judged(visit: Callable[..., Page], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begin.waking, "wake_task", lambda *_, **__: True)
    in_force(monkeypatch, rules())
    concluded("71", FAN)
    tried = rulesets.keep(rules(fan=a_rule("fan", "fan [0-9]+ stands quite still")))
    page = visit("/recovery/replays/", group="lead")
    page.get_by_role("link", name="New replay").click()
    page.get_by_label("Which attempts").fill("http://localhost/verdicts/?domain=host_hardware&order=-job")
    page.get_by_label("Ruleset").select_option(tried.digest)
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("0 of 1 attempts")).to_be_visible()
    work.run(60, alone=True)
    # The page asks for how far it is by itself, and stops when it is done.
    expect(page.get_by_text("1 of 1 attempts")).to_be_visible()
    expect(page.locator("#progress[hx-trigger]")).to_have_count(0)
    page.get_by_role("link", name="Host hardware → Unattributed").click()
    page.get_by_label("Choose job 71").check()
    page.get_by_label("Why").fill("it was moved by hand")
    page.get_by_role("button", name="Accept").click()
    expect(page.get_by_text("it was moved by hand")).to_be_visible()
    row = Replay.objects.get()
    assert row.items.get().judged == "accepted"
    for address in ("/recovery/replays/", "/recovery/replays/+new/", f"/recovery/replays/{row.pk}/"):
        page.set_viewport_size({"width": 360, "height": 800})
        page.goto(address)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{address} is {wide} px too wide"
