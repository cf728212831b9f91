"""Policies and labels in a real browser: written, previewed without losing what was typed, readable on a phone."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from recovery.policies import record as policies
from recovery.words import CaseLabel, PolicyMode
from tests.recovery.policy_builders import a_policy, a_scope, label, many_right, proposed
from tests.verdicts.builders import a_user


def test_a_policy_is_written_promoted_and_its_cases_are_labelled(visit: Callable[..., Page]) -> None:
    page = visit("/recovery/policies/", group="administrator")
    page.get_by_role("link", name="New policy").click()
    page.get_by_label("Name").fill("leave-out-gpus-two")
    page.get_by_label("Why").fill("GPUs that fell off the bus")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Preview: nothing is written yet")).to_be_visible()
    assert page.get_by_label("Why").input_value() == "GPUs that fell off the bus"
    page.get_by_role("button", name="Write the policy").click()
    expect(page.get_by_role("heading", name="leave-out-gpus-two")).to_be_visible()
    scope = a_scope(a_policy(a_user("author", "policy admin")))
    many_right(scope, 40)
    label([proposed(scope, 7, must_label=True)], CaseLabel.WRONG)
    case = proposed(scope, 9, must_label=True)
    policies.ask_promotion(scope.pk, PolicyMode.ADVISORY, by=a_user("ada", "lead"), reason="it observed well")
    page.goto("/recovery/policies/leave-out-gpus/")
    expect(page.get_by_text("right incidents in a row")).to_have_count(2)
    expect(page.get_by_role("button", name="Ask for automatic")).to_be_disabled()
    page.goto("/recovery/labels/")
    page.get_by_role("link", name="Restart without nodes: job 9").click()
    page.get_by_label("Right cause").check()
    page.get_by_label("It rests on").select_option("vendor")
    page.get_by_label("What was found, and by whom").fill("RMA 4711")
    page.get_by_role("button", name="Keep the label").click()
    expect(page.get_by_text("No case waits for a label")).to_be_visible()
    assert case.labels.count() == 1


def test_the_pages_fit_a_phone(visit: Callable[..., Page]) -> None:
    scope = a_scope(a_policy(a_user("author", "policy admin")))
    proposed(scope, 9, must_label=True)
    page = visit("/recovery/policies/", group="administrator", width=360)
    addresses = ("policies/", "policies/leave-out-gpus/", "policies/leave-out-gpus/change/", "labels/")
    for address in addresses:
        page.goto(f"/recovery/{address}")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{address} is {wide} px too wide"
