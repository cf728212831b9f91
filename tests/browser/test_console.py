"""The console as a person uses it: with mouse, keyboard, back button, on a telephone and without scripts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, log_in
from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import (
    a_verdict,
    ambiguous_body,
    an_attempt,
    body,
    evidence,
    finding,
    no_failure_body,
    nvlink_attempt,
    nvlink_body,
)
from verdicts.models import AttributionRequest, Review

END = "2026-11-03T02:11:04+00:00"
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


def too_wide(page: Page) -> list[str]:
    """What sticks out of the window on the right, if the page scrolls sideways."""
    found: list[str] = page.evaluate(
        """() => document.documentElement.scrollWidth <= document.documentElement.clientWidth ? [] :
        [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
        .map((e) => `${e.tagName}.${e.getAttribute("class")}`)"""
    )
    return found


def too_wide_at(page: Page, address: str, *widths: int, unfolded: bool = False) -> list[tuple[int, str]]:
    """The same of a page that is opened in a window of the first width, which then takes the others."""
    page.set_viewport_size({"width": widths[0], "height": 900})
    page.goto(address)
    if unfolded:
        page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    found = []
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        found += [(width, what) for what in too_wide(page)]
    return found


def back(page: Page) -> None:
    """Press the back button. Playwright's own `go_back` takes a reload on the way for a failure."""
    page.evaluate("setTimeout(() => history.back(), 0)")


def background(page: Page) -> str:
    """The colour of the page's ground."""
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_a_wrong_password_is_said_and_a_right_one_leads_where_one_wanted(visit: Visit, site: str) -> None:
    a_user("ada", "viewer")
    page = visit("/verdicts/?order=state")
    log_in(page, "ada", "wrong")
    expect(page.get_by_role("alert").filter(has_text="correct username")).to_be_visible()
    expect(page.get_by_label("User name")).to_have_value("ada")
    expect(page.get_by_label("Password")).to_be_focused()
    log_in(page, "ada")
    expect(page).to_have_url(f"{site}/verdicts/?order=state")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_the_verdict_page_opens_what_it_folds_and_leads_to_lines(visit: Visit) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    page = visit(f"/verdicts/{verdict.pk}/", group="viewer")
    expect(page.get_by_role("heading", level=1)).to_contain_text("so the switch side is not excluded")
    demoted = page.locator("#f2")
    expect(demoted.locator("code.raw")).to_be_hidden()
    demoted.get_by_text("The line as written").click()
    expect(demoted.locator("code.raw")).to_contain_text("Watchdog caught collective operation timeout")
    page.get_by_role("link", name="f3, A send to another node was not answered").click()
    expect(page.locator("#f3")).to_be_in_viewport()
    page.evaluate("window.sameDocument = true")
    page.locator("#line-node").select_option("gpu-023")
    expect(page.get_by_text("2 of 5 lines")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?line_node=gpu-023$"))
    page.locator("#line-rank").select_option("25")
    expect(page.get_by_text("1 of 5 lines")).to_be_visible()
    assert page.evaluate("window.sameDocument")
    page.reload()
    expect(page.get_by_text("1 of 5 lines")).to_be_visible()


def test_a_review_is_refused_without_losing_a_word_and_then_kept(visit: Visit) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    page = visit(f"/verdicts/{verdict.pk}/", group="reviewer")
    expect(page.get_by_label("If wrong: what was it?")).to_be_hidden()
    page.get_by_label("Wrong", exact=True).check()
    page.get_by_label("Note").fill("The riser had no power.\nSecond line.")
    page.get_by_label("On which nodes?").fill("gpu-017")
    page.get_by_role("button", name="Save review").click()
    expect(page.get_by_text("Say what it really was.")).to_be_in_viewport()
    expect(page.get_by_label("Note")).to_have_value("The riser had no power.\nSecond line.")
    expect(page.get_by_label("On which nodes?")).to_have_value("gpu-017")
    page.get_by_label("If wrong: what was it?").select_option(label="Facility")
    page.get_by_role("button", name="Save review").click()
    expect(page.get_by_text("The review is saved.")).to_be_in_viewport()
    expect(page.locator(".review").first).to_contain_text("The riser had no power.")
    review = Review.objects.get()
    assert (review.label, review.actual_domain, review.actual_nodes) == ("wrong", "facility", ["gpu-017"])


def test_the_theme_follows_the_system_until_one_is_chosen_and_then_stays(visit: Visit) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    page = visit(group="viewer", color_scheme="dark")
    dark = background(page)
    page.emulate_media(color_scheme="light")
    light = background(page)
    assert dark != light
    button = page.locator("[data-theme-button]")
    button.click()
    expect(button).to_have_text(re.compile("Light"))
    page.emulate_media(color_scheme="dark")
    assert background(page) == light
    button.click()
    page.emulate_media(color_scheme="light")
    assert background(page) == dark
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert background(page) == dark
    button.click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", re.compile(".*"))


def test_no_page_scrolls_sideways(visit: Visit) -> None:
    seen = [a_verdict(nvlink_attempt(), nvlink_body()), a_verdict(an_attempt("51200"), ambiguous_body())]
    long = "x" * 1500
    line = evidence(long, "applog/" + "d/" * 60 + "x.log:1", node="n" * 120, rank=4095, time=END)
    wide = finding(
        "f1", "a." + "b" * 80, "T" * 200, locus={"node": "n" * 120, "gpu": "g" * 250}, evidence=[line], count=2
    )
    affected = [{"name": "n" * 200, "gpus": [long], "ranks": list(range(0, 4096, 2)), "links": []}]
    seen.append(
        a_verdict(
            an_attempt("j" * 200, workload="w" * 250, cluster="c" * 250, user="u" * 250, end=END),
            body(headline=long, candidates=[wide], missing=[long], affected_nodes=affected),
        )
    )
    waiting = an_attempt("7" * 200)
    page = visit(group="lead")
    addresses = [
        "/verdicts/",
        "/nowhere",
        f"/attempts/{waiting.pk}/",
        *(f"/verdicts/{verdict.pk}/" for verdict in seen),
    ]
    for address in addresses[:1] + addresses[2:]:
        assert too_wide_at(page, address, 320, 390, 768, 1280, 3840, unfolded=True) == [], address


def test_without_scripts_one_can_read_a_verdict_and_choose_lines(visit: Visit) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    page = visit(f"/verdicts/{verdict.pk}/", group="viewer", java_script_enabled=False)
    page.locator("#f2").get_by_text("The line as written").click()
    expect(page.locator("#f2 code.raw")).to_be_visible()
    page.locator("#line-node").select_option("gpu-023")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("2 of 5 lines")).to_be_visible()


def test_a_page_that_waits_shows_the_verdict_when_it_is_there(visit: Visit, site: str) -> None:
    attempt = nvlink_attempt()
    request = AttributionRequest.objects.create(attempt=attempt, mode="slow")
    page = visit(f"/attempts/{attempt.pk}/", group="operator")
    expect(page.get_by_text("waits to be attributed")).to_be_visible()
    verdict = a_verdict(attempt, no_failure_body())
    AttributionRequest.objects.filter(pk=request.pk).update(
        state="done", verdict=verdict, finished_at=datetime.now(UTC)
    )
    expect(page).to_have_url(f"{site}/verdicts/{verdict.pk}/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("The attempt ended well")


def test_a_page_with_half_a_review_only_says_that_a_newer_verdict_is_there(visit: Visit) -> None:
    attempt = nvlink_attempt()
    verdict = a_verdict(attempt, nvlink_body())
    AttributionRequest.objects.create(attempt=attempt, mode="slow")
    page = visit(f"/verdicts/{verdict.pk}/", group="lead")
    page.get_by_label("Note").fill("half a")
    a_verdict(attempt, no_failure_body(), number=2)
    AttributionRequest.objects.update(state="failed", finished_at=datetime.now(UTC))
    expect(page.get_by_role("link", name="show verdict 2")).to_be_visible()
    expect(page.get_by_label("Note")).to_have_value("half a")


def test_hostile_text_runs_nothing(visit: Visit) -> None:
    bad = "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>"
    line = evidence(bad, "applog/x.log:1", node=bad, rank=0)
    verdict = a_verdict(
        an_attempt("1", workload=bad, cluster=bad, user=bad),
        body(headline=bad, causes=[finding("f1", "a.b", bad, meaning=bad, locus={"node": bad}, evidence=[line])]),
    )
    page = visit(group="lead")
    page.goto(f"/verdicts/{verdict.pk}/")
    expect(page.get_by_role("heading", level=1)).to_have_text(bad)
    page.goto(f"/verdicts/?text={bad}")
    expect(page.get_by_label("Text")).to_have_value(bad)
