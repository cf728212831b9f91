"""The pages about rules as a person uses them: with a mouse, on a telephone, in the dark, without scripts."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import product

from django.utils import timezone
from playwright.sync_api import expect

from tests.browser.conftest import SCHEMES, Visit
from tests.browser.test_console import background, too_wide_at
from tests.verdicts.page_bodies import a_verdict, an_attempt, body, evidence, finding
from tests.verdicts.test_unrecognised import FLUX, digest, item

WHY = "the node is not known; the kernel log was not collected"
LONG = "registry.example.org/teams/pretraining/llm-70b/with-a-very-long-name@sha256:" + "0123456789abcdef" * 4


def a_store() -> None:
    """Attempts of two weeks: a rule that goes silent, unknown lines that come with a new image."""
    now = timezone.now()
    for number in range(8):
        both, one = ("gpu.off-the-bus", "gpu.needs-reset"), ("gpu.needs-reset",)
        for days, rules in ((8 + number / 2, both), (1 + number / 2, one)):
            end = (now - timedelta(days=days)).isoformat()
            image = "train:1" if days > 3 else LONG
            attempt = an_attempt(f"{number}-{int(days)}", end=end, image=image, workload="llm", nodes=["gpu-017"])
            line = evidence("NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.", "syslog/gpu-017.log:3")
            found = [
                finding(f"f{i}", rule, rule, domain="gpu_hardware", evidence=[line], strength="moderate", why=WHY)
                for i, rule in enumerate(rules)
            ]
            lines = [item(near_end=True), item("a" * 290, "x" * 1500)] if days < 3 else []
            a_verdict(attempt, body(causes=found, attributed_domain="gpu_hardware", unrecognised=lines))


PAGES = (
    "/rules/",
    "/rules/gpu.off-the-bus/",
    "/rules/coverage/",
    "/rules/coverage/?show=gaps",
    "/rules/unrecognised/",
    f"/rules/unrecognised/{digest(FLUX)}/",
    "/rules/drift/",
)


def test_from_the_catalogue_to_a_rule_to_its_verdicts_and_back(visit: Visit, site: str) -> None:
    a_store()
    page = visit(group="viewer")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Rules").click()
    page.evaluate("window.sameDocument = true")
    page.get_by_label("Text").fill("fallen off the bus")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"/rules/\?text=fallen(\+|%20)off(\+|%20)the(\+|%20)bus$"))
    page.get_by_role("link", name="Found lately").click()
    expect(page).to_have_url(re.compile(r"order=-findings$"))
    assert page.evaluate("window.sameDocument")
    page.get_by_role("link", name="The GPU stopped answering on the PCIe bus").click()
    expect(page.get_by_role("heading", name="The GPU stopped answering on the PCIe bus")).to_be_visible()
    page.get_by_text("Not matched:").first.click()
    page.get_by_role("link", name="Verdicts with this rule").click()
    expect(page).to_have_url(f"{site}/verdicts/?rule=gpu.off-the-bus")
    expect(page.get_by_role("status").filter(has_text="8 match")).to_be_visible()
    page.locator(".row-headline").first.click()
    expect(page.get_by_text("What keeps it from being strong").first).to_be_visible()
    page.locator("a.rule-link", has_text="gpu.off-the-bus").first.click()
    expect(page).to_have_url(f"{site}/rules/gpu.off-the-bus/")


def test_from_an_unknown_line_to_the_draft_of_its_rule(visit: Visit) -> None:
    a_store()
    page = visit("/rules/unrecognised/", group="viewer")
    page.get_by_label("First seen").select_option(label="in this time only")
    expect(page).to_have_url(re.compile(r"seen=new$"))
    page.locator("tr", has_text="capacitor").get_by_role("link", name="Draft a rule").click()
    expect(page.get_by_label("The drafted rule")).to_contain_text('role     = "symptom"')
    page.get_by_label("Id", exact=True).fill("flux.drained")
    page.get_by_label("Role").select_option("cause")
    page.get_by_label("Domain").select_option("facility")
    page.get_by_role("button", name="Draft").click()
    expect(page.get_by_label("The drafted rule")).to_contain_text('id       = "flux.drained"')
    expect(page.get_by_label("The command")).to_contain_text("inquest rules new --source syslog --id flux.drained")


def test_drift_names_the_silent_rule_and_the_lines_of_the_new_image(visit: Visit) -> None:
    a_store()
    page = visit("/rules/drift/", group="viewer")
    silent = page.get_by_role("region", name="Rules gone silent")
    expect(silent.get_by_role("link", name="gpu.off-the-bus")).to_be_visible()
    expect(page.get_by_text(f"Came with image {LONG}").first).to_be_visible()


def test_nothing_sticks_out_in_either_theme(visit: Visit) -> None:
    a_store()
    page = visit("/rules/", group="viewer")
    for theme, address in product(SCHEMES, PAGES):
        page.emulate_media(color_scheme=theme)
        assert too_wide_at(page, address, 390, 1280) == [], (address, theme)
        assert (background(page) == "rgb(14, 19, 25)") == (theme == "dark")


def test_all_of_it_works_without_scripts(visit: Visit) -> None:
    a_store()
    page = visit("/rules/?order=-findings", group="viewer", java_script_enabled=False)
    page.get_by_label("Text").fill("fallen off the bus")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"order=-findings"))
    expect(page.get_by_role("link", name="The GPU stopped answering on the PCIe bus")).to_be_visible()
    page.goto("/rules/unrecognised/")
    page.get_by_label("First seen").select_option("new")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("capacitor").first).to_be_visible()
