"""From an uploaded incident to an approved plan in the ledger, by hand, with two people."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from recovery.models import Action, Proposal
from recovery.words import ProposalState
from tests.browser.conftest import Visit
from tests.browser.test_upload import work
from tests.verdicts.test_upload import zipped
from verdicts import waking


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are the queue; the tests take them themselves."""
    monkeypatch.setattr(waking.current_app, "send_task", lambda *_, **__: None)


def an_incident(folder: Path, job_id: str, nodes: str, lost: str = "") -> Path:
    """A job that ended a minute ago; on node `lost` a GPU fell off the bus just before."""
    folder.mkdir()
    now = timezone.now().replace(microsecond=0)
    said = {
        "cluster": "alpha",
        "scheduler": "slurm",
        "job_id": job_id,
        "workload": f"llm-{job_id}",
        "partition": "train",
        "submit_time": (now - timedelta(hours=3)).isoformat(),
        "start": (now - timedelta(hours=2)).isoformat(),
        "end": (now - timedelta(minutes=1)).isoformat(),
        "state": "FAILED",
        "exit_code": "1:0",
        "nodes": [nodes],
    }
    (folder / "attempt.json").write_text(json.dumps(said))
    (folder / "syslog").mkdir()
    (folder / "syslog" / f"{lost or 'gpu-09'}.log").write_text(fallen(now, lost) if lost else "")
    return folder


def fallen(now: datetime, node: str) -> str:
    at = (now - timedelta(minutes=3)).isoformat()
    return (
        f"{at} {node} kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=4242, name=python, GPU has fallen off the bus.\n"
        f"{at} {node} kernel: NVRM: GPU 0000:65:00.0: GPU has fallen off the bus.\n"
    )


def test_from_an_upload_over_verdict_review_and_proposal_to_the_ledger(visit: Visit, tmp_path: Path) -> None:
    archives = {}
    for job_id, nodes, lost in (("1", "gpu-[01-64]", ""), ("4711", "gpu-[01-08]", "gpu-03")):
        archives[job_id] = tmp_path / f"{job_id}.zip"
        archives[job_id].write_bytes(zipped(an_incident(tmp_path / job_id, job_id, nodes, lost)))
    page = visit("/upload/", group="lead")
    for archive in archives.values():
        page.goto("/upload/")
        page.get_by_label("One job's files").set_input_files(archive)
        page.get_by_role("button", name="Upload and attribute").click()
        expect(page).to_have_url(re.compile("/attempts/"))
        work()
        expect(page).to_have_url(re.compile(r"/verdicts/[0-9a-f-]{36}/"))

    # The verdict blames one node; somebody says that it is right.
    expect(page.get_by_role("heading", level=1)).to_contain_text("gpu-03")
    page.get_by_label("Right", exact=True).check()
    page.get_by_role("button", name="Save review").click()
    expect(page.get_by_text("The review is saved.")).to_be_visible()

    # She proposes to restart without it, and cannot approve that alone.
    page.get_by_label("In short").get_by_role("link", name="Propose an action").click()
    page.get_by_label("Action", exact=True).select_option(label="Restart without nodes")
    page.get_by_label("Nodes").fill("gpu-03")
    page.get_by_label("Why").fill("the GPU is gone from the bus")
    page.get_by_role("button", name="Propose", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Restart job 4711 without gpu-03")
    expect(page.get_by_role("button", name="Approve this plan")).to_be_disabled()
    expect(page.get_by_text("You proposed this yourself")).to_be_visible()
    address = page.url

    # Somebody else finds it in the queue, counted on the overview, and approves what is shown.
    other = visit("/", group="operator")
    other.get_by_role("link", name="Proposals wait for a decision").click()
    other.get_by_role("link", name="Restart without nodes").click()
    expect(other).to_have_url(address)
    other.get_by_role("button", name="Approve this plan").click()
    expect(other.get_by_text("Intended, nothing sent").first).to_be_visible()
    assert Proposal.objects.get().state == ProposalState.ACTING
    assert Action.objects.count() == 1

    # Everything is in the ledger, in order, and each entry can be looked at.
    rows = other.locator("section[aria-labelledby=ledger] tbody tr")
    expect(rows.filter(has_text="Proposal made")).to_have_count(1)
    expect(rows.filter(has_text="Proposal approved")).to_have_count(1)
    rows.filter(has_text="Proposal approved").get_by_role("link").click()
    expect(other.get_by_role("heading", level=1)).to_be_visible()
    other.goto("/ledger/")
    expect(other.get_by_text("Proposal approved").first).to_be_visible()


def test_a_decision_that_is_refused_keeps_what_was_typed(visit: Visit, tmp_path: Path) -> None:
    page = visit("/upload/", group="lead")
    for job_id, nodes, lost in (("1", "gpu-[01-64]", ""), ("4712", "gpu-[01-08]", "gpu-03")):
        archive = tmp_path / f"{job_id}.zip"
        archive.write_bytes(zipped(an_incident(tmp_path / job_id, job_id, nodes, lost)))
        page.goto("/upload/")
        page.get_by_label("One job's files").set_input_files(archive)
        page.get_by_role("button", name="Upload and attribute").click()
        expect(page).to_have_url(re.compile("/attempts/"))
        work()
        expect(page).to_have_url(re.compile(r"/verdicts/[0-9a-f-]{36}/"))
    page.get_by_label("In short").get_by_role("link", name="Propose an action").click()
    page.get_by_label("Action", exact=True).select_option(label="Restart without nodes")
    page.get_by_label("Nodes").fill("gpu-*")
    page.get_by_label("Why").fill("all of them look bad")
    page.get_by_role("button", name="Propose", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="is not the name of one node")).to_be_visible()
    expect(page.get_by_label("Why")).to_have_value("all of them look bad")
