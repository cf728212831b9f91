"""What nobody in earnest sends: it is the caller's mistake, never an error of ours."""

import base64
import json

import pytest
from rest_framework.test import APIClient

from tests.verdicts.builders import a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> APIClient:
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(a_user("lea", "lead"))
    return client


@pytest.mark.parametrize(
    "body",
    ["[" * 50_000 + "]" * 50_000, '{"decision": "\\ud800", "seen": "\\ud800"}', '{"decision": NaN}', "\x00", "{"],
    ids=["nested", "half a surrogate pair", "no number", "NUL", "cut off"],
)
def test_a_body_that_is_no_json_is_refused(api: APIClient, body: str) -> None:
    address = "/api/v1/recovery/proposals/00000000-0000-0000-0000-000000000000/decision"
    answer = api.post(address, body, content_type="application/json")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "parse_error")


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("recovery/proposals", "after"),
        ("recovery/anomalies", "before"),
        ("recovery/goodput", "until"),
        ("ledger", "after"),
    ],
)
@pytest.mark.parametrize("at", ["1970-01-01T00:00:00-23:59", "9000-12-31T23:59:59+23:59"])
def test_a_time_of_any_offset_is_a_time(api: APIClient, address: str, name: str, at: str) -> None:
    assert api.get(f"/api/v1/{address}", {name: at}).status_code == 200


@pytest.mark.parametrize("address", ["verdicts", "attempts"])
def test_so_it_is_for_the_list_of_verdicts(api: APIClient, address: str) -> None:
    assert api.get(f"/api/v1/{address}", {"after": "1970-01-01T00:00:00-23:59"}).status_code == 200
    assert api.get(f"/api/v1/{address}", {"after": "9999-12-31T23:59:59-23:00"}).status_code == 400


@pytest.mark.parametrize("at", ["1970-01-01T00:00:00-23:59", "9999-12-31T23:59:59-23:00"])
def test_a_cursor_that_was_made_by_hand_is_no_error_of_ours(api: APIClient, at: str) -> None:
    said = json.dumps([0, 1, {"t": at}, {"u": "0" * 32}]).encode()
    cursor = base64.urlsafe_b64encode(said).decode().rstrip("=")
    assert api.get("/api/v1/verdicts", {"cursor": cursor}).status_code in (200, 400)


@pytest.mark.parametrize("field", ["cluster", "job_id", "scheduler"])
def test_progress_of_a_job_whose_name_has_a_nul_is_of_no_job(api: APIClient, field: str) -> None:
    data = {"cluster": "alpha", "job_id": "77", "signs": [{"step": 1}], field: "a\x00b"}
    assert api.post("/api/v1/recovery/progress", data, format="json").status_code == 404
