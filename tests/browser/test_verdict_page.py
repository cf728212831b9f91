"""The verdict page and the log viewer in a real browser: timeline, keyboard, permalinks, hostile text, paper."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from rules.words import Source
from tests.browser.conftest import Visit, log_in
from tests.browser.test_accessibility import issues
from tests.browser.test_console import too_wide
from tests.verdicts.builders import an_observation
from tests.verdicts.incidents import HOSTILE, body_of, many_ranks
from tests.verdicts.page_bodies import a_verdict, an_attempt, body, evidence, finding, nvlink_attempt, nvlink_body
from verdicts.models import Comment, Review, Verdict
from verdicts.record import add_observations, record_attempt


def address(verdict: Verdict) -> str:
    return f"/verdicts/{verdict.pk}/"


def a_thousand_ranks() -> Verdict:
    """The verdict of an incident of 1,000 ranks, with its lines stored."""
    given, said, reports = many_ranks()
    attempt, _ = record_attempt(given)
    add_observations(attempt.pk, said)
    return a_verdict(attempt, body_of(given, said, reports))


def hostile_verdict() -> Verdict:
    """A verdict all of whose words are hostile."""
    line = evidence(
        HOSTILE, "syslog/x.log:1", node=HOSTILE, time="2026-11-03T02:11:04+00:00", frame=HOSTILE, after=True
    )
    cause = finding("f1", "a.b", HOSTILE, domain="storage", locus={"node": HOSTILE, "gpu": HOSTILE}, evidence=[line])
    ranks = [
        finding(f"f{n}", "c.d", f"{n} {HOSTILE}", role="symptom", evidence=[line | {"source": "applog"}])
        for n in range(2, 6)
    ]
    attempt = an_attempt(HOSTILE[:60], workload=HOSTILE, user=HOSTILE)
    add_observations(
        attempt.pk, [an_observation(1, source=Source.SYSLOG, body=HOSTILE, ref="syslog/x.log:1", node=HOSTILE[:200])]
    )
    return a_verdict(
        attempt,
        body(
            attributed_domain="storage",
            headline=HOSTILE,
            causes=[cause],
            demoted=ranks,
            overturned_by=[{"text": HOSTILE}],
        ),
    )


def x_range(page: Page) -> list[str]:
    found: list[str] = page.evaluate("document.querySelector('[data-chart]')._fullLayout.xaxis.range")
    return found


def test_a_thousand_ranks_are_a_timeline_that_can_be_read(visit: Visit) -> None:
    page = visit(address(a_thousand_ranks()), group="viewer")
    chart = page.get_by_role("group", name="Timeline of the attempt; the table below has the same")
    expect(chart.locator(".scatterlayer .point").first).to_be_visible()
    assert 3 < chart.locator(".scatterlayer .point").count() < 20
    expect(chart.get_by_text("Ranks: A collective did not finish in time")).to_be_visible()
    expect(chart.get_by_text("Node gpu-003, GPU 0000:65:00")).to_be_visible()
    assert not page.evaluate("document.querySelectorAll('style').length")

    failure = x_range(page)
    page.get_by_role("button", name="Everything").click()
    assert x_range(page)[1] > failure[1]
    expect(page.get_by_role("button", name="Everything")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="The failure").press("Enter")
    assert x_range(page) == failure

    page.get_by_text("The same as a table").click()
    row = page.get_by_role("row", name=re.compile("A collective did not finish in time"))
    expect(row).to_contain_text("10 min 2 s after it")
    expect(row).to_contain_text("999 lines, 125 places")


def test_a_mark_of_the_timeline_leads_to_its_finding_and_opens_it(visit: Visit) -> None:
    page = visit(address(a_thousand_ranks()), group="viewer")
    mark = page.locator(".scatterlayer .point").last  # what is blamed is drawn over the rest
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".hoverlayer")).to_contain_text("The GPU stopped answering")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page).to_have_url(re.compile("#f1$"))


def test_a_verdict_is_reviewed_by_keyboard_alone(visit: Visit) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    page = visit(address(verdict), group="reviewer")
    # As far as the list of sections, then to the reviews by their link, and on from there.
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href')") == "#reviews":
            break
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#reviews$"))
    page.keyboard.press("Tab")
    expect(page.get_by_label("Right", exact=True)).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect(page.get_by_label("Wrong", exact=True)).to_be_checked()
    page.keyboard.press("Tab")
    expect(page.get_by_label("If wrong: what was it?")).to_be_focused()
    page.keyboard.type("Storage")
    page.keyboard.press("Tab")
    page.keyboard.type("n7")
    page.keyboard.press("Tab")
    page.keyboard.type("The server said so.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The review is saved.")).to_be_visible()
    review = Review.objects.get()
    assert (review.label, review.actual_domain, review.actual_nodes) == ("wrong", "storage", ["n7"])
    assert review.note == "The server said so."


def test_a_draft_survives_a_reload_and_another_form_and_goes_when_it_is_sent(visit: Visit) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    page = visit(address(verdict), group="reviewer")
    page.get_by_label("Wrong", exact=True).check()
    page.get_by_label(re.compile("^Note")).fill("half a note")
    page.get_by_label(re.compile("^Comment .@name")).fill("a remark")
    page.get_by_role("button", name="Add comment").click()
    expect(page.locator("[id^=comment-]").get_by_text("a remark")).to_be_visible()
    expect(page.get_by_label(re.compile("^Comment .@name"))).to_have_value("")
    expect(page.get_by_label(re.compile("^Note"))).to_have_value("half a note")
    expect(page.get_by_label("Wrong", exact=True)).to_be_checked()
    expect(page.get_by_label("If wrong: what was it?")).to_be_visible()
    page.get_by_label("Cannot tell").check()
    page.get_by_role("button", name="Save review").click()
    expect(page.get_by_text("The review is saved.")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Cannot tell")).to_be_checked()
    assert Comment.objects.get().text == "a remark"


def test_a_draft_outlives_an_answer_that_never_came(visit: Visit) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    page = visit(address(verdict), group="reviewer")
    page.get_by_label("Right", exact=True).check()
    page.get_by_label(re.compile("^Note")).fill("worth keeping")
    page.route("**/review/", lambda route: route.fulfill(status=200, body="<!doctype html><title>lost</title>"))
    page.get_by_role("button", name="Save review").click()
    expect(page).to_have_title("lost")
    page.unroute("**/review/")
    page.goto(address(verdict))
    expect(page.get_by_label(re.compile("^Note"))).to_have_value("worth keeping")
    expect(page.get_by_label("Right", exact=True)).to_be_checked()
    assert not Review.objects.exists()


def test_a_review_typed_when_the_session_had_ended_is_there_after_logging_in(visit: Visit) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    page = visit(address(verdict), group="reviewer")
    page.get_by_label("Right", exact=True).check()
    page.get_by_label(re.compile("^Note")).fill("worth keeping")
    name = page.evaluate("document.querySelector('.topbar').innerText.match(/reviewer-\\d+/)[0]")
    page.context.add_cookies(
        [
            {**cookie, "value": "a" * 32}  # type: ignore[typeddict-item,misc]
            for cookie in page.context.cookies()
            if cookie.get("name") == "sessionid"
        ]
    )
    page.get_by_role("button", name="Save review").click()
    log_in(page, name)
    expect(page.get_by_text("is not saved yet")).to_be_visible()
    expect(page.get_by_label(re.compile("^Note"))).to_have_value("worth keeping")
    page.get_by_role("button", name="Save review").click()
    expect(page.get_by_text("The review is saved.")).to_be_visible()


def test_a_line_of_evidence_leads_to_itself_in_the_log_and_is_copied_with_its_reference(visit: Visit) -> None:
    page = visit(address(a_thousand_ranks()), group="viewer", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="syslog/gpu-003.log:1204").first.click()
    expect(page).to_have_url(re.compile(r"/log/\?line=\d+#L\d+$"))
    line = page.locator('[aria-current="true"]')
    expect(line).to_be_in_viewport()
    expect(line).to_contain_text("GPU has fallen off the bus")
    expect(line.get_by_role("link", name="cause: The GPU stopped answering")).to_be_visible()
    line.hover()
    line.get_by_role("button", name="Copy").click()
    expect(page.locator("#copied")).to_have_text("Copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "GPU has fallen off the bus" in copied
    assert "syslog/gpu-003.log:1204" in copied
    assert page.url in copied
    line.get_by_role("link", name="cause: The GPU").click()
    expect(page).to_have_url(re.compile(r"/verdicts/[^/]+/#f1$"))


def test_the_log_is_searched_wrapped_and_turned_over(visit: Visit) -> None:
    verdict = a_thousand_ranks()
    page = visit(f"/attempts/{verdict.attempt_id}/log/", group="viewer")
    expect(page.get_by_text("1,000 lines")).to_be_visible()
    page.get_by_role("link", name="Later lines").click()
    expect(page.locator(".log-line")).to_have_count(100)
    page.get_by_label("Rank").fill("999")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".log-line")).to_have_count(1)
    page.get_by_label("Rank").fill("")
    page.get_by_label(re.compile("^Text")).fill("fallen OFF the bus")
    page.keyboard.press("Enter")
    expect(page.locator("mark")).to_have_text("fallen off the bus")
    text = page.locator(".log .raw").first
    assert text.evaluate("e => getComputedStyle(e).whiteSpace") == "pre-wrap"
    page.get_by_label("Wrap long lines").uncheck()
    assert text.evaluate("e => getComputedStyle(e).whiteSpace") == "pre"
    page.reload()
    expect(page.get_by_label("Wrap long lines")).not_to_be_checked()


@pytest.mark.parametrize("width", [320, 1280])
def test_hostile_text_does_nothing_and_keeps_within_the_page(visit: Visit, width: int) -> None:
    verdict = hostile_verdict()
    page = visit(address(verdict), group="reviewer", width=width)
    for mark in page.locator(".scatterlayer .point").all()[-2:]:
        mark.hover(force=True)
    assert page.locator("main img, main script:not([type='application/json'])").count() == 0
    assert too_wide(page) == []
    page.goto(f"/attempts/{verdict.attempt_id}/log/?text=%3Cimg")
    expect(page.locator(".raw").first).to_contain_text("</script><img src=x onerror=alert(1)>")
    expect(page.locator(".ctl").first).to_have_text("\\x1b")
    assert page.locator("main img").count() == 0
    assert too_wide(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_is_light_and_everything_on_it_is_open(visit: Visit, scheme: Any) -> None:
    page = visit(address(a_thousand_ranks()), group="reviewer", color_scheme=scheme)
    expect(page.locator(".scatterlayer .point").first).to_be_visible()
    assert len(page.pdf()) > 20_000
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme=scheme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("details:not([open])").count() == 0
    for gone in (".topbar", "[data-review-form]", ".jump", ".views"):
        assert not page.locator(gone).first.is_visible()
    expect(page.get_by_text("What is not the cause")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.xtick text')).fill") == "rgb(23, 32, 43)"
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0


def test_without_javascript_the_page_has_its_table_and_the_log_works(visit: Visit) -> None:
    verdict = a_thousand_ranks()
    page = visit(address(verdict), group="viewer", java_script_enabled=False)
    expect(page.get_by_text("What is not the cause")).to_be_visible()
    expect(page.locator("[data-chart]")).to_be_hidden()
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("row", name=re.compile("A collective did not finish in time"))).to_be_visible()
    page.get_by_role("link", name="syslog/gpu-003.log:1204").first.click()
    expect(page.locator('[aria-current="true"]')).to_contain_text("GPU has fallen off the bus")
    page.get_by_label("Wrap long lines").uncheck()
    assert page.locator(".raw").first.evaluate("e => getComputedStyle(e).whiteSpace") == "pre"


def test_a_verdict_page_fits_a_telephone_and_a_wall(visit: Visit) -> None:
    verdict = a_thousand_ranks()
    for width in (320, 2560):
        page = visit(address(verdict), group="viewer", width=width)
        expect(page.locator(".main-svg").first).to_be_visible()
        assert too_wide(page) == []
        page.get_by_text("The same as a table").click()
        assert too_wide(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_neither_page_has_a_serious_or_critical_issue(visit: Visit, scheme: Any) -> None:
    verdict = a_thousand_ranks()
    a_verdict(verdict.attempt, nvlink_body(), number=2)
    page = visit(address(verdict), group="reviewer", color_scheme=scheme, reduced_motion="reduce")
    log = f"/attempts/{verdict.attempt_id}/log/"
    for where in (address(verdict), f"{log}?text=caught&order=time", f"{log}?ref=syslog/gpu-003.log:1204"):
        page.goto(where)
        page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
        assert issues(page) == []
