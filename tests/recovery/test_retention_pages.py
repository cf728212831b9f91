"""Retention as people see it: what expires when, holds by those who may, and what a page says of what is gone."""

from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from attribution_site.cli import main
from recovery.models import Hold
from recovery.retention import expire, find
from tests.recovery.deciding import judged
from tests.recovery.test_retention import with_lines
from tests.verdicts.builders import a_user, an_attempt
from verdicts.record import record_attempt

pytestmark = pytest.mark.django_db
IN_A_MONTH = (timezone.now() + timedelta(days=30)).date().isoformat()


@pytest.fixture
def lead(client: Client) -> Client:
    client.force_login(a_user("lena", "lead"))
    return client


def posted(client: Client, address: str, **said: Any) -> Any:
    return client.post(reverse(address), {"owner": "lena", "review_on": IN_A_MONTH, "reason": "a claim", **said})


def test_the_page_says_what_expires_when_and_what_is_in_the_way(lead: Client) -> None:
    due, held = with_lines("1", days=200), with_lines("2", days=190)
    with_lines("3", days=178)
    posted(lead, "recovery:hold-place", attempt=str(held.pk))
    page = lead.get(reverse("recovery:retention")).content.decode()
    assert page.index("job 1<") < page.index("job 2<") < page.index("job 3<")
    lines = find.classes()[0]
    assert (lines.late.number, sum(week.number for week in lines.weeks)) == (2, 1)
    answer = lead.get(reverse("api-retention-attempts"), {"show": "held"}).json()
    assert [one["job_id"] for one in answer["results"]] == ["2"]
    part = lead.get(reverse("recovery:retention-of-attempt", args=[held.pk])).content.decode()
    assert "Held" in part
    assert "a claim" in part
    of_attempt = lead.get(reverse("api-retention-of-attempt", args=[held.pk])).json()
    assert of_attempt["holds"][0]["reason"] == "a claim"
    assert [one["kept"] for one in of_attempt["classes"]] == ["lines", "quotes", "progress"]
    assert answer["results"][0]["held"]
    assert lead.get(reverse("api-retention-attempts"), {"show": "due"}).json()["count"] == 2
    told = lead.get(reverse("api-retention")).json()
    assert told["holds"] == {"standing": 1, "overdue": 0}
    assert told["classes"][0]["size"]["bytes"] > 0
    assert lead.get(reverse("api-retention-attempts"), {"shw": "due"}).status_code == 400
    assert due.observations.exists()


def test_an_attempt_that_says_it_ended_at_the_end_of_the_calendar_has_its_line(lead: Client) -> None:
    attempt, _ = record_attempt(an_attempt(end="9999-12-31T23:59:59Z"))
    (one,) = lead.get(reverse("api-retention-attempts")).json()["results"]
    assert one["expires_at"] is None  # as good as for ever
    assert lead.get(reverse("recovery:retention-of-attempt", args=[attempt.pk])).status_code == 200
    assert lead.get(reverse("api-retention-of-attempt", args=[attempt.pk])).status_code == 200


def test_a_hold_is_placed_reviewed_and_released_by_who_may_with_a_reason(lead: Client) -> None:
    attempt = with_lines()
    assert (
        "say why" in posted(lead, "recovery:hold-place", attempt=str(attempt.pk), reason=" ").content.decode().lower()
    )
    assert posted(lead, "recovery:hold-place", cluster="alpha").status_code == 400
    ranged = {"after": "2020-01-01T00:00", "before": "2100-01-01T00:00"}
    assert posted(lead, "recovery:hold-place", cluster="alpha", **ranged).status_code == 302
    assert posted(lead, "recovery:hold-place", workload="llm-70b").status_code == 302
    hold = Hold.objects.get(workload__isnull=False)
    Hold.objects.filter(pk=hold.pk).update(review_on=timezone.now().date() - timedelta(days=1))
    assert "overdue" in lead.get(reverse("recovery:holds")).content.decode()
    assert "should have been reviewed" in lead.get(reverse("recovery:retention")).content.decode()
    lead.post(reverse("recovery:hold-review", args=[hold.pk]), {"review_on": IN_A_MONTH, "reason": "still in court"})
    hold.refresh_from_db()
    assert hold.review_on.isoformat() == IN_A_MONTH
    address = reverse("api-hold-release", args=[hold.pk])
    assert lead.post(address, {"reason": ""}, "application/json").status_code == 400
    assert lead.post(address, {"reason": "settled"}, "application/json").json()["released_by"] == "lena"
    viewer = Client()
    viewer.force_login(a_user("vera", "viewer", "operator"))
    assert posted(viewer, "recovery:hold-place", attempt=str(attempt.pk)).status_code == 403
    assert viewer.post(reverse("api-holds"), {}, "application/json").status_code == 403
    assert viewer.get(reverse("api-holds")).json()["count"] == 1


def test_what_is_gone_is_said_where_it_stood(lead: Client, settings: Any) -> None:
    attempt = with_lines(days=800)
    verdict = judged(attempt)
    expire.run()
    page = lead.get(reverse("verdicts:detail", args=[verdict.pk])).content.decode()
    assert "its text expired" in page
    assert "GPU 0000:65:00 of gpu-01 fell off the bus." in page
    assert "Evidence lines" in page
    assert "Attribute again" not in page
    log = lead.get(reverse("verdicts:log", args=[attempt.pk])).content.decode()
    assert "The lines are not kept any more" in log
    assert "Nothing was sent for this attempt" not in log
    lines = lead.get(reverse("api-observations", args=[attempt.pk])).json()
    assert (lines["count"], lines["expired"][0]["rows"]) == (0, 3)
    told = lead.get(reverse("api-verdict", args=[verdict.pk])).json()
    assert {one["kept"] for one in told["expired"]} == {"lines", "quotes"}
    body = lead.get(reverse("api-verdict-body", args=[verdict.pk]))
    assert verdict.body_sha256 in body["X-Inquest-Expired"]
    asked = lead.post(reverse("verdicts:attribute", args=[attempt.pk]), follow=True).content.decode()
    assert "Nothing was asked for: the evidence of this attempt expired" in asked
    assert lead.post(reverse("api-attributions", args=[attempt.pk]), {}, "application/json").status_code == 409
    sent = {"observations": [{"source": "applog", "body": "again", "ref": "a:1"}]}
    assert lead.post(reverse("api-observations", args=[attempt.pk]), sent, "application/json").status_code == 409


def test_the_command_shows_holds_and_expires() -> None:
    attempt = with_lines()
    a_user("lena", "lead")
    a_user("vera", "viewer")
    run = CliRunner()
    hold = ["retention", "hold", "--attempt", str(attempt.pk), "--reason", "a claim", "--review-on", IN_A_MONTH]
    assert "the role lead" in run.invoke(main, [*hold, "--as", "vera"]).output
    assert "over job 4711: 1 attempts, 0 expired before" in run.invoke(main, [*hold, "--as", "lena"]).output
    dry = run.invoke(main, ["retention", "expire", "--dry-run"]).output
    assert "lines     0 attempts would expire; 1 are held, 0 are not over" in dry
    made = Hold.objects.get()
    status = run.invoke(main, ["retention", "status"])
    assert (status.exit_code, str(made.pk) in status.output) == (0, True)
    run.invoke(main, ["retention", "release", str(made.pk), "--reason", "settled", "--as", "lena"])
    assert "lines     3 rows" in run.invoke(main, ["retention", "expire"]).output
    Hold.objects.filter(pk=made.pk).update(released_at=None, released_by=None, review_on="2020-01-01")
    assert run.invoke(main, ["retention", "status"]).exit_code == 1
