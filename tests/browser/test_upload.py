"""From an empty site to the first verdict, by hand: with a picker, by dropping, and without scripts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.verdicts.test_unpack import a_tar, a_zip
from tests.verdicts.test_upload import zipped
from verdicts import conclude, waking
from verdicts.models import Attempt, AttributionRequest, Observation
from verdicts.overview.first_steps import SAMPLES


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are the queue; the tests take them themselves."""
    monkeypatch.setattr(waking.current_app, "send_task", lambda *_, **__: None)


def work() -> None:
    """What a worker does."""
    for request in AttributionRequest.objects.open():
        conclude.attribute_now(request.pk)


def drop(page: Page, files: dict[str, str]) -> None:
    """Drop files onto the page, as a file manager does."""
    transfer = page.evaluate_handle(
        """files => {
            const transfer = new DataTransfer();
            for (const [name, text] of Object.entries(files)) transfer.items.add(new File([text], name));
            return transfer;
        }""",
        files,
    )
    page.dispatch_event("[data-drop]", "drop", {"dataTransfer": transfer})


def test_from_nothing_over_the_first_steps_to_a_verdict(visit: Visit) -> None:
    page = visit("/start/", group="lead")
    expect(page.get_by_text("to do", exact=True)).to_have_count(2)
    page.get_by_text("No incident at hand?").click()
    page.get_by_role("button", name="xid149").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Not analysed yet")
    work()
    # The page finds out by itself.
    expect(page).to_have_url(re.compile(r"/verdicts/[0-9a-f-]{36}/"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("b200-19")
    # Somebody says that it is right, and it counts.
    page.get_by_label("Right", exact=True).check()
    page.get_by_role("button", name="Save review").click()
    expect(page.get_by_text("The review is saved.")).to_be_visible()
    page.goto("/quality/?days=365")
    expect(page.get_by_text("0 of 1").first).to_be_visible()
    page.goto("/fleet/?days=365")
    page.get_by_role("link", name="b200-19").click()
    expect(page.get_by_role("heading", name="b200-19")).to_be_visible()
    expect(page.get_by_text("called right")).to_be_visible()


def test_an_archive_by_the_picker(visit: Visit, tmp_path: Path) -> None:
    archive = tmp_path / "incident.zip"
    archive.write_bytes(zipped(SAMPLES / "two-causes"))
    page = visit("/verdicts/", group="operator")
    page.get_by_role("link", name="Upload").first.click()
    page.get_by_label("One job's files").set_input_files(archive)
    page.get_by_role("button", name="Upload and attribute").click()
    expect(page).to_have_url(re.compile("/attempts/"))
    expect(page.get_by_role("status").filter(has_text="Stored job")).to_be_visible()
    work()
    expect(page).to_have_url(re.compile("/verdicts/[0-9a-f-]{36}/"))


def test_what_is_refused_is_said_on_the_page_and_another_can_be_sent(visit: Visit, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.zip", tmp_path / "good.tar"
    bad.write_bytes(a_zip({"../../outside": b"x"}))
    good.write_bytes(a_tar())
    page = visit("/verdicts/", group="operator")
    page.goto("/upload/")
    picker = page.get_by_label("One job's files")
    picker.set_input_files(bad)
    page.get_by_role("button", name="Upload and attribute").click()
    expect(page.get_by_role("alert").filter(has_text="leads out of the archive")).to_be_visible()
    expect(picker).to_be_enabled()
    picker.set_input_files(good)
    expect(page.locator("#upload-problem")).to_be_hidden()
    page.get_by_role("button", name="Upload and attribute").click()
    expect(page).to_have_url(re.compile("/attempts/"))


def test_many_dropped_files_go_as_one_archive(visit: Visit) -> None:
    page = visit("/verdicts/", group="operator")
    page.goto("/upload/")
    files = {f"rank-{rank}.log": f"RuntimeError: it broke on rank {rank}\n" for rank in range(60)}
    drop(page, files | {"attempt.json": '{"job_id": "60"}', "größe-" + "x" * 120 + ".log": "Error: long\n"})
    expect(page.get_by_text("62 files")).to_be_visible()
    page.get_by_role("button", name="Upload and attribute").click()
    expect(page).to_have_url(re.compile("/attempts/"))
    assert Attempt.objects.get().job_id == "60"
    names = set(Observation.objects.values_list("ref", flat=True))
    assert {f"rank-{rank}.log:1" for rank in range(60)} <= names


def test_without_scripts_an_archive_is_taken(visit: Visit, tmp_path: Path) -> None:
    archive = tmp_path / "incident.zip"
    archive.write_bytes(zipped(SAMPLES / "python-error"))
    page = visit("/verdicts/", group="lead", java_script_enabled=False)
    page.goto("/upload/")
    page.get_by_label("One job's files").set_input_files(archive)
    page.get_by_role("button", name="Upload and attribute").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Not analysed yet")
    work()
    page.reload()
    expect(page).to_have_url(re.compile("/verdicts/[0-9a-f-]{36}/"))
