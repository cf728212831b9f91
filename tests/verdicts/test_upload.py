"""Sending an incident through the page and through the API."""

from __future__ import annotations

import errno
import io
import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile, TemporaryUploadedFile
from django.test import Client
from django.urls import reverse
from pytest_django import Settings
from rest_framework.test import APIClient

from tests.verdicts.builders import a_user
from tests.verdicts.test_unpack import a_tar, a_zip
from verdicts import conclude
from verdicts.models import Attempt, AttributionRequest, Observation, Verdict
from verdicts.overview.first_steps import SAMPLES
from verdicts.upload import store as upload

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def place(settings: Settings, tmp_path: Path, sent: list[str]) -> Path:
    """Where uploads lie while they are read; empty again after every test."""
    folder = tmp_path / "uploads"
    folder.mkdir()
    settings.FILE_UPLOAD_TEMP_DIR = str(folder)
    settings.INQUEST_UPLOAD_UNPACKED_BYTES = 1 << 22
    return folder


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(a_user("ola", "operator"))
    return client


def zipped(folder: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder.parent).as_posix())
    return out.getvalue()


def a_file(data: bytes, name: str = "incident.zip") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data)


def send(client: Client, *files: SimpleUploadedFile, **more: Any) -> Any:
    return client.post(reverse("verdicts:upload"), {"files": list(files), **more})


def test_from_an_archive_to_the_verdict(operator: Client, place: Path) -> None:
    answer = send(operator, a_file(zipped(SAMPLES / "xid149")))
    attempt = Attempt.objects.get()
    assert answer.status_code == 302
    assert answer["Location"] == reverse("verdicts:attempt", args=[attempt.pk])
    page = operator.get(answer["Location"])
    assert "Stored job" in page.content.decode()
    request = AttributionRequest.objects.get()
    assert request.requested_by is not None
    assert request.requested_by.get_username() == "ola"
    assert conclude.attribute_now(request.pk) is not None
    assert Verdict.objects.get().domain == "nvlink_fabric"
    assert list(place.iterdir()) == []


def test_the_same_incident_again_changes_nothing(operator: Client) -> None:
    data = zipped(SAMPLES / "python-error")
    for _ in range(2):
        assert send(operator, a_file(data)).status_code == 302
    assert Attempt.objects.count() == 1
    assert len(set(Observation.objects.values_list("digest", flat=True))) == Observation.objects.count()


def test_loose_files_are_one_incident_and_what_was_guessed_is_said(operator: Client) -> None:
    lines = (SAMPLES / "python-error/applog").glob("*")
    files = [a_file(path.read_bytes(), path.name) for path in lines]
    answer = send(operator, *files, job="99", cluster="beta")
    attempt = Attempt.objects.get()
    assert (attempt.job_id, attempt.cluster.name) == ("99", "beta")
    assert "read as applog" in operator.get(answer["Location"]).content.decode()


@pytest.mark.parametrize("top", ["", "incident/", "jobs/today/incident/"])
def test_the_folder_may_be_packed_with_or_without_its_own_name(operator: Client, top: str) -> None:
    files = {f"{top}attempt.json": b'{"job_id": "5"}', f"{top}applog/rank-3.log": b"RuntimeError: it broke\n"}
    assert send(operator, a_file(a_tar(files), "i.tar")).status_code == 302
    assert Attempt.objects.get().job_id == "5"
    assert Observation.objects.get().ref == "applog/rank-3.log:1"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([], "No file was sent"),
        ([a_file(b"junk")], "damaged"),
        ([a_file(a_zip({"../x": b""}))], "leads out of the archive"),
        ([a_file(a_zip()), a_file(b"x", "more.log")], "by itself"),
        ([a_file(b"x", "a.log"), a_file(b"y", "a.log")], "Two files are called"),
        ([a_file(b"x", ".hidden")], "not taken"),
        ([a_file(a_zip({"a/attempt.json": b"{}", "b/attempt.json": b"{}"}))], "holds 2 incidents (a, b)"),
        ([a_file(a_zip({"attempt.json": b'{"job_id": 5}'}))], "job_id"),
        ([a_file(a_zip({"attempt.json": b"{"}))], "attempt.json"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(
    operator: Client, place: Path, files: list[SimpleUploadedFile], why: str
) -> None:
    for file in files:
        file.seek(0)
    answer = send(operator, *files)
    said = re.sub(r"<[^>]+>", "", answer.content.decode())
    assert answer.status_code == 400
    assert why in said
    assert str(place) not in said
    assert not Attempt.objects.exists()
    assert list(place.iterdir()) == []


def test_a_script_is_told_in_json(operator: Client) -> None:
    by_script = {"HTTP_X_REQUESTED_WITH": "upload"}
    refused = operator.post(reverse("verdicts:upload"), {"files": a_file(b"junk")}, **by_script)
    assert "damaged" in refused.json()["error"]
    taken = operator.post(reverse("verdicts:upload"), {"files": a_file(zipped(SAMPLES / "xid149"))}, **by_script)
    assert taken.json() == {"page": reverse("verdicts:attempt", args=[Attempt.objects.get().pk])}


def test_more_than_the_site_takes_is_refused_before_it_is_read(
    operator: Client, settings: Settings, place: Path
) -> None:
    settings.INQUEST_UPLOAD_BYTES = 10_000
    answer = send(operator, a_file(b"x" * 20_000, "a.log"))
    assert answer.status_code == 413
    assert "larger than 10,000 bytes" in answer.content.decode()
    assert list(place.iterdir()) == []


def test_a_body_that_is_longer_than_it_says_is_cut_off(settings: Settings) -> None:
    settings.INQUEST_UPLOAD_BYTES = 10_000
    handler = upload.Bounded()
    handler.handle_raw_input(io.BytesIO(), {}, 10, "")
    handler.new_file("files", "a.log", "text/plain", None)
    handler.receive_data_chunk(b"x" * 9_000, 0)
    with pytest.raises(upload.TooLarge):
        handler.receive_data_chunk(b"x" * 9_000, 9_000)
    handler.file.close()


def test_no_room_on_the_disk_is_said(operator: Client, settings: Settings) -> None:
    settings.INQUEST_UPLOAD_UNPACKED_BYTES = 1 << 60
    answer = send(operator, a_file(a_zip()))
    assert answer.status_code == 507
    assert "too little room" in answer.content.decode()


@pytest.mark.parametrize("where", [(TemporaryUploadedFile, "write"), (upload, "unpack")])
def test_a_disk_that_fills_up_meanwhile_is_said_so_too(
    operator: Client, client_of: Callable[..., APIClient], monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*where, full, raising=False)
    assert send(operator, a_file(a_zip())).status_code == 507
    api = client_of("operator")
    api.raise_request_exception = False
    assert api.post("/api/v1/incidents", {"files": [a_file(a_zip())]}, format="multipart").status_code == 507
    if where[0] is TemporaryUploadedFile:
        assert api.post("/api/v1/records", {"file": a_file(a_zip())}, format="multipart").status_code == 507
        answer = operator.post("/records/import/", {"files": [a_file(a_zip())]})
        assert (answer.status_code, "too little room" in answer.content.decode()) == (507, True)


@pytest.mark.parametrize("group", ["viewer", "reviewer"])
def test_only_those_who_may_ingest_see_the_page_and_send(client: Client, group: str) -> None:
    client.force_login(a_user("vi", group))
    assert client.get(reverse("verdicts:upload")).status_code == 403
    assert send(client, a_file(a_zip())).status_code == 403
    assert client.post(reverse("verdicts:sample", args=["xid149"])).status_code == 403
    assert reverse("verdicts:upload") not in client.get(reverse("verdicts:first-steps")).content.decode()
    assert not Attempt.objects.exists()


def test_a_form_without_the_sites_token_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(a_user("ola", "operator"))
    assert send(client, a_file(a_zip())).status_code == 403
    client.get(reverse("verdicts:upload"))
    token = client.cookies["csrftoken"].value
    assert send(client, a_file(a_zip()), csrfmiddlewaretoken="x" * 64).status_code == 403
    assert send(client, a_file(a_zip()), csrfmiddlewaretoken=token).status_code == 302


def test_other_pages_keep_no_file(client: Client, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", lambda *a, **__: made.append(a))
    client.post(reverse("login"), {"username": "x", "password": "y", "files": a_file(b"x" * 5_000_000)})
    assert made == []


def test_the_first_steps_say_what_is_done(operator: Client) -> None:
    assert operator.get("/start/").content.decode().count(">to do<") == 2
    answer = operator.post(reverse("verdicts:sample", args=["xid149"]))
    assert answer.status_code == 302
    assert operator.get("/start/").content.decode().count(">to do<") == 1
    AttributionRequest.objects.update(created_at="2026-01-01T00:00:00Z")
    assert "1 request has waited" in re.sub(r"\s+", " ", operator.get("/start/").content.decode())
    conclude.attribute_now(AttributionRequest.objects.get().pk)
    page = operator.get("/start/").content.decode()
    assert ">to do<" not in page
    assert Verdict.objects.get().headline[:20] in page
    assert operator.post(reverse("verdicts:sample", args=["no-such"])).status_code == 404


# --- The API ------------------------------------------------------------------------------------


def test_the_api_takes_an_incident(client_of: Callable[..., APIClient]) -> None:
    api = client_of("operator")
    answer = api.post("/api/v1/incidents", {"files": [a_file(zipped(SAMPLES / "xid149"))]}, format="multipart")
    assert answer.status_code == 202, answer.content
    said = answer.json()
    assert said["attempt"] == str(Attempt.objects.get().pk)
    assert said["stored"] == Observation.objects.count() > 0
    conclude.attribute_now(said["attribution"])
    assert api.get(said["verdict_url"]).json()["domain"] == "nvlink_fabric"
    assert api.get(said["attribution_url"]).json()["state"] == "done"


def test_the_api_refuses_with_the_reason(client_of: Callable[..., APIClient], settings: Settings) -> None:
    api = client_of("operator")
    for files, why in (([a_file(b"junk")], "damaged"), ([], "files")):
        answer = api.post("/api/v1/incidents", {"files": files}, format="multipart")
        assert answer.status_code == 400
        assert why in answer.content.decode()
    settings.INQUEST_UPLOAD_BYTES = 100
    answer = api.post("/api/v1/incidents", {"files": [a_file(b"x" * 1000, "a.log")]}, format="multipart")
    assert answer.status_code == 413
    assert answer.json()["errors"][0]["code"] == "too_large"


def test_the_api_takes_nothing_from_readers(client_of: Callable[..., APIClient]) -> None:
    answer = client_of("viewer").post("/api/v1/incidents", {"files": [a_file(a_zip())]}, format="multipart")
    assert answer.status_code == 403
    assert not Attempt.objects.exists()
