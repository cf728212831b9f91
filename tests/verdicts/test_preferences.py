"""Times in the reader's zone, and what people set for themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.test import APIClient

from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import a_verdict, an_attempt, body
from verdicts import zones
from verdicts.models import Preference
from verdicts.templatetags.verdict_format import moment, moment_lines, raw_unbroken

AT = datetime(2026, 11, 3, 2, 11, 4, tzinfo=UTC)


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(a_user("ada", "viewer"))
    return client


def shown(zone: str, value: datetime = AT) -> str:
    found = zones.named(zone)
    assert found is not None
    token = zones.enter(found)
    try:
        return re.sub(r"<[^>]+>", "", str(moment(value)))
    finally:
        zones.leave(token)


@pytest.mark.parametrize(
    ("zone", "wanted"),
    [
        ("UTC", "2026-11-03 02:11:04 +00:00"),
        ("Asia/Kolkata", "2026-11-03 07:41:04 +05:30"),
        ("America/Los_Angeles", "2026-11-02 18:11:04 -08:00"),
    ],
)
def test_a_time_is_shown_in_the_zone_with_its_offset_and_utc_on_hover(zone: str, wanted: str) -> None:
    assert shown(zone) == wanted
    assert 'title="2026-11-03 02:11:04 UTC"' in moment(AT)
    assert 'datetime="2026-11-03T02:11:04+00:00"' in moment_lines(AT)


def test_summer_time_is_that_of_the_time_shown() -> None:
    assert shown("Europe/Berlin", datetime(2026, 7, 1, tzinfo=UTC)).endswith("+02:00")
    assert shown("Europe/Berlin", datetime(2026, 12, 1, tzinfo=UTC)).endswith("+01:00")


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"]))
def test_every_time_of_the_calendar_can_be_shown(value: datetime, zone: str) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d", shown(zone, value))


@pytest.mark.parametrize(
    "name", ["", "../../etc/passwd", "/etc/localtime", "Etc/GMT+5", "posix/UTC", "Nowhere/Else", "\0"]
)
def test_a_made_up_zone_is_none(name: str) -> None:
    assert zones.named(name) is None


@pytest.mark.django_db
def test_pages_use_the_browsers_zone_until_one_is_chosen(reader: Client) -> None:
    a_verdict(an_attempt("1", end="2026-11-03T02:11:04+00:00"), body())
    assert "02:11:04" in reader.get("/verdicts/").content.decode()
    reader.cookies["zone"] = "Asia/Kolkata"
    assert "07:41:04" in reader.get("/verdicts/").content.decode()
    saved = reader.post("/preferences/", {"zone": "America/Los_Angeles", "theme": "dark"})
    assert saved.status_code == 302
    page = reader.get("/verdicts/").content.decode()
    assert "18:11:04" in page
    assert 'data-theme="dark"' in page
    reader.post("/preferences/", {"zone": "", "theme": "system"})
    assert "07:41:04" in reader.get("/verdicts/").content.decode()


@pytest.mark.django_db
def test_a_zone_that_the_cookie_makes_up_shows_utc(reader: Client) -> None:
    a_verdict(an_attempt("1", end="2026-11-03T02:11:04+00:00"), body())
    reader.cookies["zone"] = "../../../etc/passwd"
    assert "02:11:04" in reader.get("/verdicts/").content.decode()


@pytest.mark.django_db
def test_a_filter_finds_the_same_in_every_zone(reader: Client) -> None:
    a_verdict(an_attempt("1", end="2026-11-03T02:11:04+00:00"), body(headline="The one."))
    for zone in ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"):
        reader.cookies["zone"] = zone
        assert "The one." in reader.get("/verdicts/?after=2026-11-03T02:11&before=2026-11-03T02:12").content.decode()
        assert "The one." not in reader.get("/verdicts/?before=2026-11-03T02:11").content.decode()


@pytest.mark.django_db
def test_what_one_chose_comes_along_to_another_browser_and_not_to_another_person(reader: Client) -> None:
    reader.post("/preferences/", {"zone": "Asia/Tokyo", "theme": "dark", "shortcuts": "on"})
    bob = a_user("bob", "viewer")
    other = Client()
    said = {"password": "a long pass phrase"}
    other.post("/accounts/login/", said | {"username": "ada"})
    assert other.cookies["zone_chosen"].value == "Asia/Tokyo"
    assert other.cookies["theme"].value == "dark"
    other.post("/accounts/logout/")
    other.post("/accounts/login/", said | {"username": bob.username})
    assert other.cookies["zone_chosen"].value == ""


@pytest.mark.django_db
def test_what_cannot_be_chosen_is_refused(reader: Client) -> None:
    for said in ({"zone": "Nowhere/Else", "theme": "system"}, {"zone": "", "theme": "pink"}):
        answer = reader.post("/preferences/", said)
        assert answer.status_code == 400
        assert 'role="alert"' in answer.content.decode()
    assert not Preference.objects.exists()


@pytest.mark.django_db
def test_somebody_without_a_role_sees_their_settings_and_how_to_get_one(client: Client) -> None:
    client.force_login(a_user("nobody"))
    assert "an administrator gives one" in client.get("/preferences/").content.decode()


@pytest.mark.django_db
def test_the_api_says_who_one_is_and_changes_the_same_settings(client_of: Callable[..., APIClient]) -> None:
    api = client_of("reviewer")
    said = api.get("/api/v1/me").json()
    assert said["roles"] == ["reviewer"]
    assert said["may"] == {"read": True, "ingest": False, "attribute": False, "review": True, "administer": False}
    assert api.patch("/api/v1/me", {"zone": "Asia/Tokyo"}).json()["zone"] == "Asia/Tokyo"
    assert api.patch("/api/v1/me", {"shortcuts": False}).json()["zone"] == "Asia/Tokyo"
    assert api.patch("/api/v1/me", {"zone": "Nowhere"}).status_code == 400
    assert APIClient().get("/api/v1/me").status_code == 401


def test_a_name_with_hyphens_is_not_broken_and_stays_escaped() -> None:
    assert raw_unbroken("node h100-42, image a<b-c") == (
        'node <span class="nowrap">h100-42</span>, image a&lt;<span class="nowrap">b-c</span>'
    )
    assert raw_unbroken("a" * 20 + "-" + "b" * 20) == "a" * 20 + "-" + "b" * 20
    assert "<img" not in raw_unbroken("<img src=x-y onerror=a-b>\u202e")
