"""Progress over the API and on pages: what is taken, what is refused by its field, and what is shown."""

from __future__ import annotations

import re
import threading
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_httpserver import HTTPServer
from rest_framework.test import APIClient

from recovery.models import Anomaly, RankProgress
from recovery.progress import record as progress
from recovery.progress import watch
from recovery.progress.record import Sign
from recovery.words import Via
from tests.recovery.test_progress import an_attempt
from tests.verdicts.builders import a_user

pytestmark = pytest.mark.django_db
AT = "/api/v1/recovery/progress"


@pytest.fixture
def api() -> APIClient:
    client = APIClient()
    client.force_authenticate(a_user("olga", "operator"))
    return client


def post(api: APIClient, **data: Any) -> Any:
    return api.post(AT, data, format="json")


def test_signs_are_taken_by_the_job_and_the_same_again_changes_nothing(api: APIClient) -> None:
    attempt = an_attempt()
    signs = [{"rank": rank, "step": 5, "checkpoint_step": 4, "node": "n1"} for rank in range(3)]
    first = post(api, cluster="alpha", job_id="77", signs=signs)
    assert first.status_code == 200, first.content
    assert first.json() == {"attempt": str(attempt.pk), "received": 3, "ranks": 3, "moved": 3, "late": 0}
    assert post(api, attempt=str(attempt.pk), signs=signs).json()["moved"] == 0
    told = api.get(AT, {"attempt": str(attempt.pk)}).json()
    assert (told["step_max"], told["checkpoint_step"], told["ranks_known"], len(told["ranks"])) == (5, 4, 3, 3)
    assert told["blindness"] is None


def test_the_client_of_the_documentation_works_as_it_stands(
    api: APIClient, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", Path("docs/progress.md").read_text(), re.DOTALL)
    httpserver.expect_oneshot_request(AT, method="POST").respond_with_json({})
    for name, value in {"CLUSTER": "alpha", "TOKEN": "inq_x", "URL": httpserver.url_for("").rstrip("/")}.items():
        monkeypatch.setenv(f"INQUEST_{name}", value)
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("RANK", "3")
    names: dict[str, Any] = {}
    begin, _, start = code.rpartition("threading.Thread")
    exec(begin, names)  # noqa: S102 - it is our own
    # One round is enough: where it would sleep, its thread waits until the tests are over.
    forever = threading.Event()
    names["time"] = SimpleNamespace(strftime=time.strftime, gmtime=time.gmtime, sleep=lambda _: forever.wait())
    names["tell"](step=5, checkpoint_step=4)
    with httpserver.wait(timeout=20) as waiting:
        exec(f"threading.Thread{start}", names)  # noqa: S102
    assert waiting.result
    (request, _) = httpserver.log[0]
    assert request.headers["Authorization"] == "Token inq_x"
    attempt = an_attempt()
    assert post(api, **request.get_json()).json() == {
        "attempt": str(attempt.pk),
        "received": 1,
        "ranks": 1,
        "moved": 1,
        "late": 0,
    }
    row = RankProgress.objects.get()
    assert (row.rank, row.step, row.checkpoint_step) == (3, 5, 4) and row.node and row.at


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"signs": [{"rank": 0}, {"step": -1}]}, "signs[1].step"),
        ({"signs": [{"step": "5"}]}, "signs[0].step"),
        ({"signs": [{"stepp": 5}]}, "signs[0]"),
        ({"signs": [{"at": "yesterday"}]}, "signs[0].at"),
        ({"signs": [{"step_seconds": 0}]}, "signs[0].step_seconds"),
        ({"signs": 5}, "signs"),
        ({"signs": [], "job": "77"}, "job"),
        ({"signs": [], "job_id": ""}, "attempt"),
        ({"signs": [{"step": 2**60}]}, "signs[0].step"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_field(api: APIClient, data: dict[str, Any], field: str) -> None:
    an_attempt()
    answer = post(api, **({"cluster": "alpha", "job_id": "77"} | data))
    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"][0]["attr"] == field
    assert not RankProgress.objects.exists()


def test_a_job_that_is_not_known_yet_is_said_so_and_readers_may_not_post(api: APIClient) -> None:
    answer = post(api, cluster="alpha", job_id="78", signs=[])
    assert answer.status_code == 404 and "send the signs again" in answer.json()["errors"][0]["detail"]
    api.force_authenticate(a_user("vera", "viewer"))
    assert post(api, cluster="alpha", job_id="78", signs=[]).status_code == 403


def a_hang() -> Anomaly:
    attempt = an_attempt()
    now = timezone.now()
    for number in range(10):
        signs = [Sign(rank=rank, step=number, collective=number - rank * (number == 9)) for rank in (0, 1)]
        progress.post(attempt, signs, Via.POST, now=now - timedelta(seconds=60 * (20 - number)))
    watch.work(now)
    return Anomaly.objects.get()


def test_the_list_of_anomalies_and_its_api_agree_and_refuse_what_they_do_not_know(
    api: APIClient, client: Client
) -> None:
    hang = a_hang()
    client.force_login(a_user("vera", "viewer"))
    listed = api.get("/api/v1/recovery/anomalies", {"kind": "hang", "show": "open"}).json()
    assert [row["id"] for row in listed["results"]] == [str(hang.pk)] and listed["results"][0]["ranks"] == [1]
    assert api.get("/api/v1/recovery/anomalies", {"kind": "crash"}).json()["count"] == 0
    assert api.get("/api/v1/recovery/anomalies", {"kinds": "hang"}).status_code == 400
    assert api.get("/api/v1/recovery/anomalies", {"attempt": "5"}).status_code == 400
    assert api.get(f"/api/v1/recovery/anomalies/{hang.pk}").json()["evidence"]["behind_by"] == "collective"
    page = client.get(reverse("recovery:anomalies")).content.decode()
    assert "No step and no collective" in page and "goes on" in page
    assert "No anomaly matches" in client.get(reverse("recovery:anomalies"), {"kind": "crash"}).content.decode()
    detail = client.get(reverse("recovery:anomaly", args=[hang.pk])).content.decode()
    assert "usual pause between movements" in detail and "nothing was proposed" in detail


def test_how_far_an_attempt_is_and_its_blindness_are_a_part_of_its_page(client: Client) -> None:
    hang = a_hang()
    client.force_login(a_user("vera", "viewer"))
    part = client.get(reverse("recovery:progress-of-attempt", args=[hang.attempt_id])).content.decode()
    assert "Hang</a>, detected" in part and "Ranks, the least far first" in part
    blind = an_attempt("78")
    watch.work(timezone.now())
    told = client.get(reverse("recovery:progress-of-attempt", args=[blind.pk])).content.decode()
    assert "Hang detection is blind for this job." in told
    assert "would not be seen" in client.get(reverse("recovery:anomalies")).content.decode()


def test_pages_are_empty_in_words_and_only_for_readers(client: Client) -> None:
    assert client.get(reverse("recovery:anomalies")).status_code == 302
    client.force_login(a_user("vera", "viewer"))
    assert "Nothing was detected yet" in client.get(reverse("recovery:anomalies")).content.decode()
    assert "No attempt is known yet" in client.get(reverse("recovery:goodput")).content.decode()
    an_attempt("78")
    assert "Nothing failed in this time" in client.get(reverse("recovery:goodput")).content.decode()


def test_the_page_about_goodput_shows_losses_with_what_is_not_known(client: Client, api: APIClient) -> None:
    hang = a_hang()
    end = timezone.now() - timedelta(seconds=5)
    an_attempt(end=end.isoformat())
    client.force_login(a_user("vera", "viewer"))
    page = client.get(reverse("recovery:goodput")).content.decode()
    assert "1 failure:" in page and "held while it hung" in page and "not known of 1" in page
    assert "every hang were known within" in page
    told = api.get("/api/v1/recovery/goodput").json()
    (row,) = told["by_cause"]
    assert row["cause"] == "no verdict" and row["known"]["hang"] == 1 and row["unknown"]["replay"] == 1
    assert hang.event_at is not None
    assert row["hours"]["hang"] == pytest.approx(2 * (end - hang.event_at).total_seconds() / 3600, abs=0.01)
