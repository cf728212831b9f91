"""What was detected and what it cost, in a browser: the list, one anomaly, the charts, the part of an attempt's page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from recovery.models import Anomaly
from recovery.progress import record as progress
from recovery.progress import watch
from recovery.progress.record import Sign
from recovery.words import Via
from tests.browser.conftest import Visit
from tests.browser.test_console import too_wide
from tests.recovery.test_progress import an_attempt
from verdicts import waking


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for is a row; nobody is woken."""
    monkeypatch.setattr(waking.current_app, "send_task", lambda *_, **__: None)


def hangs(end: bool = False) -> Anomaly:
    """A job of 16 ranks that hangs behind one of them; `end` has it fail a little later."""
    now = timezone.now()
    job = "78" if end else "77"
    attempt = an_attempt(job)
    for number in range(15):
        signs = [
            Sign(rank=rank, step=number, collective=100 * number - (number == 14 and rank == 5), node=f"gpu-{rank // 8:03}",
                 checkpoint_step=number // 5 * 5)
            for rank in range(16)
        ]  # fmt: skip
        progress.post(attempt, signs, Via.POST, now=now - timedelta(seconds=60 * (40 - number)))
    watch.work(now - timedelta(seconds=600))
    if end:
        an_attempt(job, end=(now - timedelta(seconds=60)).isoformat())
    return Anomaly.objects.get(attempt=attempt)


def test_anomalies_lead_to_their_figures_and_goodput_has_charts(visit: Visit) -> None:
    found = hangs()
    hangs(end=True)
    an_attempt("79")
    watch.work(timezone.now())
    for width in (320, 1280):
        page = visit("/recovery/anomalies/", group="viewer", width=width)
        page.get_by_text("would not be seen").wait_for()
        assert not too_wide(page)
        page.goto(f"/recovery/anomalies/{found.pk}/")
        page.get_by_text("usual pause between movements").wait_for()
        assert not too_wide(page)
        page.goto("/recovery/goodput/")
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        assert not too_wide(page)
        page.goto(f"/attempts/{found.attempt_id}/")
        page.get_by_text("Ranks, the least far first").click()
        assert not too_wide(page)
