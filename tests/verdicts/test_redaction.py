"""What the store says of secrets that were taken out, and that equal ones stay equal whichever way they came."""

import re
from pathlib import Path
from typing import Any

import pytest

from rules.words import Source
from tests.verdicts.builders import a_report, an_attempt, an_observation
from verdicts import conclude, record
from verdicts.choices import Mode
from verdicts.evidence import effective_reports
from verdicts.models import Attempt, Observation, Verdict
from verdicts.upload.ingest import ingest_path

pytestmark = pytest.mark.django_db

SECRET = "a1B2c3D4e5" * 4
LINE = f"RuntimeError: CUDA error: out of memory WANDB_API_KEY={SECRET}"


def tag(text: str) -> str:
    [found] = re.findall(r"\[redacted: secret ([0-9a-f]{6})\]", text)
    return str(found)


def judged(attempt: Attempt) -> Verdict:
    verdict = conclude.attribute_now(conclude.request_attribution(attempt.pk, Mode.SLOW).pk)
    assert verdict is not None
    return verdict


def test_equal_secrets_are_equal_whichever_way_they_came(tmp_path: Path, sent: list[str]) -> None:
    (tmp_path / "train.log").write_text(LINE + "\n")
    stored = ingest_path(tmp_path / "train.log")
    attempt, _ = record.record_attempt(an_attempt(reason=f"login --password {SECRET}"))
    record.add_observations(
        attempt.pk, [an_observation(body=LINE), an_observation(2, body=LINE.replace("a1B2", "a1B3"))]
    )
    by_file = Observation.objects.get(attempt_id=stored.attempt).body
    by_api, other = attempt.observations.order_by("ref").values_list("body", flat=True)
    assert tag(by_file) == tag(by_api) == tag(attempt.body["reason"]) != tag(other)


def test_how_many_were_taken_out_is_in_report_verdict_and_page(as_: Any, sent: list[str]) -> None:
    attempt, _ = record.record_attempt(an_attempt())
    record.add_observations(attempt.pk, [an_observation(body=LINE), an_observation(2, body="RuntimeError: it broke")])
    record.record_reports(attempt.pk, [a_report(kept=2)])
    [report] = [report for report in effective_reports(attempt) if report.source is Source.APPLOG]
    assert report.redacted == 1
    verdict = judged(attempt)
    assert '"redacted":1' in verdict.body_json
    page = as_("viewer").get(f"/verdicts/{verdict.pk}/").content.decode()
    assert "2 delivered; 1 secret taken out" in page


def test_a_collector_that_took_more_out_than_is_in_the_store_is_believed(sent: list[str]) -> None:
    attempt, _ = record.record_attempt(an_attempt())
    record.add_observations(attempt.pk, [an_observation(body=LINE)])
    record.record_reports(attempt.pk, [a_report(redacted=3)])
    assert [report.redacted for report in effective_reports(attempt) if report.source is Source.APPLOG] == [3]


def test_a_secret_in_a_field_is_known_by_the_fields_name(sent: list[str]) -> None:
    attempt, _ = record.record_attempt(an_attempt())
    record.add_observations(attempt.pk, [an_observation(attributes={"db_password": "hunter2", "path": "hunter2"})])
    stored = attempt.observations.get().attributes
    assert stored["db_password"].startswith("[redacted: secret ")
    assert stored["path"] == "hunter2"


def test_a_line_that_came_before_and_after_redaction_is_one(sent: list[str]) -> None:
    attempt, _ = record.record_attempt(an_attempt())
    record.add_observations(attempt.pk, [an_observation(body=LINE)], key="first")
    clean = attempt.observations.get().body
    again = record.add_observations(attempt.pk, [an_observation(body=clean)], key="second")
    assert (again.stored, again.repeated) == (0, 1)
