"""The verdict list and the overview in a real browser: filters, keys, bulk, views, coming back, on any width."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import SCHEMES, Visit
from tests.browser.test_console import back, background, too_wide_at
from tests.verdicts.page_bodies import (
    a_verdict,
    ambiguous_body,
    an_attempt,
    body,
    no_failure_body,
    nvlink_attempt,
    nvlink_body,
)
from verdicts.models import AttributionRequest, Preference, Review, SavedView

DOMAINS = ("storage", "facility", "scheduler", "application_code")


def many_verdicts(number: int = 60) -> None:
    """Enough attempts for three pages, the latest first."""
    end = datetime(2026, 11, 20, tzinfo=UTC)
    for index in range(number):
        attempt = an_attempt(str(9000 - index), workload="filler", end=(end - timedelta(hours=index)).isoformat())
        a_verdict(attempt, body(attributed_domain=DOMAINS[index % 4], strength="weak", headline=f"Number {index}."))


def rows(page: Page) -> int:
    """The rows of the list."""
    return page.locator(".list-table tbody tr").count()


def standing(page: Page) -> str:
    """The headline that has the focus."""
    return str(page.evaluate("document.activeElement === document.body ? '' : document.activeElement.textContent"))


def test_filter_sort_and_page_without_reload_and_back_again(visit: Visit, site: str) -> None:
    many_verdicts()
    page = visit(group="viewer")
    page.evaluate("window.sameDocument = true")

    page.get_by_role("checkbox", name="Storage").check()
    expect(page).to_have_url(f"{site}/verdicts/?domain=storage")
    expect(page.get_by_role("status").filter(has_text="15 match")).to_be_visible()
    page.get_by_role("checkbox", name="Facility").check()
    expect(page).to_have_url(f"{site}/verdicts/?domain=storage&domain=facility")
    expect(page.get_by_role("checkbox", name="Facility")).to_be_focused()
    expect(page.get_by_role("checkbox", name="Scheduler")).to_be_visible()

    page.get_by_role("link", name="Verdict", exact=True).click()
    expect(page).to_have_url(f"{site}/verdicts/?domain=storage&domain=facility&order=domain")
    expect(page.locator('th[aria-sort="ascending"]')).to_contain_text("Verdict")
    page.get_by_role("link", name="Next").click()
    expect(page).to_have_url(re.compile(r"domain=storage&domain=facility&order=domain&cursor=\w+"))
    expect(page.get_by_text("26 to 30 shown")).to_be_visible()
    assert page.evaluate("window.sameDocument")

    # Sorting is kept when a filter changes, the place in the list is not.
    page.get_by_label("Text").fill("number 5")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"\?text=number(\+|%20)5&domain=storage&domain=facility&order=domain$"))
    assert rows(page) < 25

    back(page)
    expect(page.get_by_text("26 to 30 shown")).to_be_visible()
    expect(page.get_by_label("Text")).to_have_value("")
    back(page)
    expect(page.get_by_text("1 to 25 shown")).to_be_visible()
    back(page)
    expect(page.locator('th[aria-sort="descending"]')).to_have_text("Ended")
    expect(page).to_have_url(f"{site}/verdicts/?domain=storage&domain=facility")
    back(page)
    expect(page).to_have_url(f"{site}/verdicts/?domain=storage")
    expect(page.get_by_role("status").filter(has_text="15 match")).to_be_visible()
    expect(page.get_by_role("checkbox", name="Storage")).to_be_checked()


def test_back_from_a_verdict_finds_the_list_where_it_was_and_what_was_chosen(visit: Visit) -> None:
    many_verdicts()
    page = visit(group="reviewer")
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("26 to 50 shown")).to_be_visible()
    page.locator("tr", has_text="Number 44.").get_by_role("checkbox").check()
    link = page.get_by_role("link", name="Number 45.")
    link.scroll_into_view_if_needed()
    at = page.evaluate("scrollY")
    assert at > 0
    link.click()
    expect(page.get_by_role("heading", name="Number 45.")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("26 to 50 shown")).to_be_visible()
    page.wait_for_function("at => Math.abs(scrollY - at) < 60", arg=at)
    expect(page.locator("tr", has_text="Number 44.").get_by_role("checkbox")).to_be_checked()
    expect(page.get_by_text("1 chosen")).to_be_visible()
    expect(page.locator("tr.at")).to_contain_text("Number 45.")


def test_a_page_far_down_is_a_link_that_somebody_else_can_open(visit: Visit) -> None:
    many_verdicts()
    page = visit(group="viewer")
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("26 to 50 shown")).to_be_visible()
    other = visit(page.url, group="operator")
    expect(other.get_by_text("26 to 50 shown")).to_be_visible()
    other.get_by_role("link", name="First").click()
    expect(other.get_by_text("1 to 25 shown")).to_be_visible()


def test_nothing_matches_and_the_way_out(visit: Visit, site: str) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    page = visit(group="viewer")
    page.get_by_text("Node, workload, job or rule by name").click()
    page.get_by_label("Node", exact=True).fill("gpu-999")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No verdict matches")).to_be_visible()
    expect(page).to_have_url(f"{site}/verdicts/?node=gpu-999")
    page.get_by_role("link", name="clear all filters").click()
    assert rows(page) == 1


def test_keys_move_open_and_choose_and_can_be_switched_off_for_good(visit: Visit, site: str) -> None:
    many_verdicts(5)
    page = visit(group="reviewer")
    page.keyboard.press("j")
    assert standing(page) == "Number 0."
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert standing(page) == "Number 1."
    page.keyboard.press("x")
    expect(page.locator("tr", has_text="Number 1.").get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("/")
    expect(page.get_by_label("Text")).to_be_focused()
    page.keyboard.type("jx?")
    expect(page.get_by_label("Text")).to_have_value("jx?")
    page.get_by_label("Text").fill("")
    page.get_by_role("heading", name="Verdicts").click()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("next and previous row")
    dialog.get_by_role("button", name="Switch the keys off").click()
    expect(dialog.get_by_role("button", name="Switch the keys on")).to_be_visible()
    assert not Preference.objects.get().shortcuts
    dialog.get_by_role("button", name="Close").click()
    page.reload()
    page.keyboard.press("j")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert "Number" not in standing(page)
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Switch the keys on").click()
    expect(page.get_by_role("button", name="Switch the keys off")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("body").press("j")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Number")


def test_many_rows_are_labelled_and_the_ones_that_cannot_be_are_named(visit: Visit) -> None:
    many_verdicts(3)
    an_attempt("70001")
    page = visit(group="reviewer")
    page.get_by_label("Choose all rows").check()
    expect(page.get_by_text("4 chosen")).to_be_visible()
    page.get_by_label("What to do with the rows chosen").select_option("wrong")
    page.get_by_label("What it really was").select_option("facility")
    page.get_by_label("Note").fill("A power cut at noon.")
    page.get_by_role("button", name="Apply").click()
    outcome = page.locator("#bulk-outcome")
    expect(outcome).to_contain_text("3 of 4 rows: labelled.")
    expect(outcome).to_contain_text("job 70001: it has no verdict yet")
    assert {(review.label, review.note) for review in Review.objects.all()} == {("wrong", "A power cut at noon.")}
    assert page.locator("option", has_text="Attribute again").is_disabled()


def test_a_row_that_can_change_is_looked_at_again_and_one_can_stop_that(visit: Visit) -> None:
    attempt = an_attempt("70001")
    many_verdicts(2)
    page = visit("/verdicts/?job=70001", group="viewer")
    page.clock.install()
    page.reload()
    expect(page.get_by_text("1 row may still change")).to_be_visible()
    page.get_by_role("button", name="Pause updates").click()
    a_verdict(attempt, no_failure_body())
    page.clock.run_for(25_000)
    expect(page.get_by_text("Not analysed", exact=True).first).to_be_visible()
    page.get_by_role("button", name="Go on").click()
    page.clock.run_for(11_000)
    expect(page.locator(".list-table")).to_contain_text("The attempt ended well")
    expect(page.locator("[data-live-note]")).to_be_hidden()


def test_a_view_is_saved_shared_opened_and_deleted(visit: Visit, site: str) -> None:
    many_verdicts(8)
    page = visit("/verdicts/?domain=storage", group="reviewer")
    page.get_by_role("checkbox", name="Facility").check()
    expect(page).to_have_url(re.compile("facility"))
    page.locator("summary", has_text="Views").click()
    page.get_by_label("Save this list as").fill("Buildings")
    page.get_by_label("Show it to everybody").check()
    page.get_by_role("button", name="Save view").click()
    expect(page.get_by_text("The view “Buildings” is saved.")).to_be_visible()
    assert SavedView.objects.get().query == "domain=storage&domain=facility"
    other = visit(group="viewer")
    other.locator("summary", has_text="Views").click()
    other.get_by_role("link", name="Buildings", exact=True).click()
    expect(other).to_have_url(f"{site}/verdicts/?domain=storage&domain=facility")
    page.locator("summary", has_text="Views").click()
    page.get_by_role("button", name="Delete the view Buildings").click()
    expect(page.get_by_text("The view is deleted.")).to_be_visible()
    assert not SavedView.objects.exists()


def test_an_export_is_a_file_named_by_the_time(visit: Visit) -> None:
    many_verdicts(8)
    page = visit("/verdicts/?domain=storage", group="viewer")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert re.fullmatch(r"inquest-verdicts-\d{8}T\d{6}Z\.csv", download.value.suggested_filename)


def test_without_scripts_one_can_filter_sort_page_choose_and_save(visit: Visit) -> None:
    many_verdicts(30)
    a_verdict(nvlink_attempt(), nvlink_body())
    page = visit(group="lead", java_script_enabled=False)
    page.get_by_role("checkbox", name="NVLink fabric").check()
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("1 matches")).to_be_visible()
    page.get_by_role("link", name="Clear all").click()
    page.get_by_role("link", name="State").click()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("26 to 31 shown")).to_be_visible()
    page.locator(".list-table input[name=row]").first.check()
    page.get_by_label("What to do with the rows chosen").select_option("right")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("1 of 1 row: labelled.")).to_be_visible()
    page.get_by_role("link", name="Back to the list").click()
    expect(page.get_by_text("26 to 31 shown")).to_be_visible()
    page.locator("summary", has_text="Views").click()
    page.get_by_label("Save this list as").fill("By state")
    page.get_by_role("button", name="Save view").click()
    expect(page.get_by_text("The view “By state” is saved.")).to_be_visible()


def test_the_keyboard_reaches_filters_and_shows_where_it_is(visit: Visit) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    a_verdict(an_attempt("2"), ambiguous_body())
    page = visit(group="viewer")

    def focused(name: str) -> Any:
        return page.evaluate(f"document.activeElement.{name}")

    page.keyboard.press("Tab")
    assert focused("textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert focused("id") == "main"
    for _ in range(12):
        page.keyboard.press("Tab")
        if focused("value") == "nvlink_fabric":
            break
    page.keyboard.press("Space")
    expect(page.get_by_role("status").filter(has_text="1 matches")).to_be_visible()
    assert focused("value") == "nvlink_fabric"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_list_and_overview_fit_any_width_and_theme(visit: Visit) -> None:
    many_verdicts(30)
    long = "x" * 250
    affected = [{"name": f"{index}{'n' * 200}", "gpus": [], "ranks": [], "links": []} for index in range(5)]
    now = datetime.now(UTC)
    wide = an_attempt("j" * 200, workload="w" * 250, cluster="c" * 250, user=long, end=now.isoformat())
    a_verdict(wide, body(headline=long, attributed_domain="network_fabric", strength="weak", affected_nodes=affected))
    a_verdict(nvlink_attempt(end=now.isoformat()), nvlink_body())
    AttributionRequest.objects.create(attempt=an_attempt("7"), mode="slow")
    page = visit(group="lead")
    addresses = (
        "/verdicts/",
        "/verdicts/?domain=storage&text=number",
        "/verdicts/?node=gone",
        "/verdicts/?x=1",
        "/",
    )
    for scheme, address in product(SCHEMES, addresses):
        page.emulate_media(color_scheme=scheme)
        assert too_wide_at(page, address, 320, 1280, unfolded=True) == [], (address, scheme)
        assert (background(page) == "rgb(14, 19, 25)") is (scheme == "dark")


def test_a_number_of_the_overview_leads_to_its_list(visit: Visit, site: str) -> None:
    end = datetime.now(UTC) - timedelta(hours=3)
    for number in range(3):
        a_verdict(nvlink_attempt(job_id=str(number), end=end.isoformat()), nvlink_body())
    page = visit("/", group="viewer")
    expect(page.locator("[data-chart] .main-svg").first).to_be_visible()
    page.get_by_role("row", name="NVLink fabric").first.get_by_role("link", name="3").click()
    expect(page).to_have_url(re.compile(r"/verdicts/\?state=failed.*domain=nvlink_fabric"))
    expect(page.get_by_role("status").filter(has_text="3 match")).to_be_visible()
    assert rows(page) == 3
