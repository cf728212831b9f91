"""Being told of verdicts: by a real SMTP server and a real web server on the loopback, however these behave."""

from __future__ import annotations

import base64
import email
import hashlib
import hmac
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from email.message import Message
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from pytest_httpserver import HTTPServer
from rest_framework.test import APIClient
from werkzeug import Request, Response

from rules.attempt import InputError
from tests.verdicts.builders import a_user
from tests.verdicts.collectors.raw_server import raw_server
from tests.verdicts.page_bodies import a_verdict, an_attempt, body
from verdicts.choices import Channel
from verdicts.models import Delivery, ListRow, Subscription
from verdicts.people import deliver, subscribe
from verdicts.record import NotPermitted
from verdicts.webhook import Webhook

pytestmark = pytest.mark.django_db

SECRET = b"twenty-four bytes, or more of them"


class Sink(socketserver.ThreadingTCPServer):
    """A mail server that takes what it is given, unless it is told to answer otherwise."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Mail)
        self.got: list[Message] = []
        self.answer = "250 taken"


class Mail(socketserver.StreamRequestHandler):
    """One conversation."""

    def handle(self) -> None:
        sink = self.server
        assert isinstance(sink, Sink)
        self.say("220 sink")
        while line := self.rfile.readline():
            word = line[:4].upper().strip()
            if word == b"DATA":
                self.say("354 go on")
                text = b""
                while (part := self.rfile.readline()) not in (b".\r\n", b""):
                    text += part
                if sink.answer.startswith("2"):
                    sink.got.append(email.message_from_bytes(text))
                self.say(sink.answer)
            elif word == b"QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 well")

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def sink(settings: Settings) -> Iterator[Sink]:
    with Sink() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        settings.EMAIL_URL = "smtp://127.0.0.1"
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.server_address[1]
        settings.INQUEST_PUBLIC_URL = "https://inquest.example.org/"
        yield server
        server.shutdown()


@pytest.fixture
def hook(settings: Settings, httpserver: HTTPServer) -> HTTPServer:
    settings.WEBHOOKS = {"ops": Webhook(httpserver.url_for("/in"), SECRET)}
    return httpserver


@pytest.fixture
def ada() -> Any:
    return with_address(a_user("ada", "viewer"))


@pytest.fixture
def admin() -> Any:
    return with_address(a_user("pat", "policy admin"))


def with_address(user: Any) -> Any:
    user.email = f"{user.username}@example.org"
    user.save()
    return user


def new(domain: str = "gpu_hardware", job: str = "1", **more: Any) -> Any:
    return a_verdict(an_attempt(job, cluster="alpha"), body(attributed_domain=domain, strength="strong", **more))


def due_now() -> None:
    Delivery.objects.update(due_at=timezone.now() - timedelta(seconds=1))


def states() -> list[tuple[str, int]]:
    return list(Delivery.objects.order_by("created_at").values_list("state", "tries"))


# --- What is owed -------------------------------------------------------------------------------


def test_new_verdicts_that_the_filter_finds_are_owed_once(ada: Any, sink: Sink) -> None:
    new(job="before")
    # One transaction has one time.
    ListRow.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    subscribe.subscribe("gpus", "?domain=gpu_hardware&order=state", Channel.EMAIL, by=ada)
    assert subscribe.look() == 0
    wanted = new(job="a")
    new("storage", job="b")
    assert subscribe.look() == 1
    assert subscribe.look() == 0
    assert [delivery.verdict_id for delivery in Delivery.objects.all()] == [wanted.pk]


def test_a_verdict_in_place_of_an_earlier_one_is_news(ada: Any, sink: Sink) -> None:
    subscribe.subscribe("all", "", Channel.EMAIL, by=ada)
    first = new(job="a")
    subscribe.look()
    a_verdict(first.attempt, body(attributed_domain="storage"), number=2)
    assert subscribe.look() == 1


def test_a_paused_subscription_is_owed_nothing_and_is_not_told_later(ada: Any, sink: Sink) -> None:
    made = subscribe.subscribe("all", "", Channel.EMAIL, by=ada)
    new(job="a")
    subscribe.look()
    subscribe.switch(made.pk, on=False, by=ada)
    assert states() == []
    new(job="b")
    assert subscribe.look() == 0


def test_who_may_no_longer_read_is_told_no_more(ada: Any, sink: Sink) -> None:
    subscribe.subscribe("all", "", Channel.EMAIL, by=ada)
    ada.groups.clear()
    new()
    assert subscribe.look() == 0
    assert "no longer" in Subscription.objects.get().problem


@pytest.mark.parametrize(
    ("name", "query", "why"),
    [("", "", "name"), ("x" * 81, "", "name"), ("n", "nonsense=1", "nonsense"), ("n", "domain=x", "query")],
)
def test_what_cannot_be_subscribed_is_refused(ada: Any, sink: Sink, name: str, query: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        subscribe.subscribe(name, query, Channel.EMAIL, by=ada)


def test_only_addresses_of_the_settings_and_of_ones_own_account(
    ada: Any, admin: Any, sink: Sink, hook: HTTPServer, settings: Settings
) -> None:
    with pytest.raises(NotPermitted):
        subscribe.subscribe("n", "", Channel.WEBHOOK, by=ada, webhook="ops")
    for name in ("", "other", "http://169.254.169.254/"):
        with pytest.raises(InputError):
            subscribe.subscribe("n", "", Channel.WEBHOOK, by=admin, webhook=name)
    settings.EMAIL_URL = ""
    with pytest.raises(InputError):
        subscribe.subscribe("n", "", Channel.EMAIL, by=ada)


def test_a_site_without_mail_says_what_is_missing_and_what_goes_on(
    ada: Any, admin: Any, sink: Sink, hook: HTTPServer, settings: Settings, client: Client
) -> None:
    subscribe.subscribe("n", "", Channel.EMAIL, by=ada)
    settings.EMAIL_URL = ""
    client.force_login(ada)
    page = client.get("/subscriptions/").content.decode()
    assert "not sent now: this site sends no mail" in page
    assert "an administrator names the mail server in <code>EMAIL_URL</code>" in page
    client.force_login(admin)
    page = client.get("/subscriptions/").content.decode()
    assert "EMAIL_URL" in page and "Webhooks work." in page


# --- Mail ---------------------------------------------------------------------------------------


def test_mail_says_the_verdict_and_leads_to_its_page(ada: Any, sink: Sink) -> None:
    subscribe.subscribe("gpus", "domain=gpu_hardware", Channel.EMAIL, by=ada)
    verdict = new(headline="GPU 3 of n1 fell off the bus.")
    subscribe.look()
    assert deliver.deliver_due() == 1
    message = sink.got[0]
    assert message["To"] == "ada@example.org"
    assert message["Subject"] == "[Inquest] gpus: GPU 3 of n1 fell off the bus."
    text = message.get_payload(decode=True)
    assert isinstance(text, bytes)
    assert f"https://inquest.example.org/verdicts/{verdict.pk}/" in text.decode()
    assert states() == [("done", 1)]
    assert deliver.deliver_due() == 0


def test_hostile_text_adds_no_header_and_no_recipient(ada: Any, sink: Sink) -> None:
    subscribe.subscribe("all", "", Channel.EMAIL, by=ada)
    new(headline="x\r\nBcc: eve@example.org\r\n\r\n.\r\nMAIL FROM:<eve>\x1b[31m")
    subscribe.look()
    deliver.deliver_due()
    message = sink.got[0]
    assert message["Bcc"] is None
    assert len(sink.got) == 1
    assert "\x1b" not in str(message)


def test_a_mail_server_that_refuses_is_asked_again_later_and_given_up_in_the_end(ada: Any, sink: Sink) -> None:
    subscribe.subscribe("all", "", Channel.EMAIL, by=ada)
    new()
    subscribe.look()
    sink.answer = "451 not now"
    assert deliver.deliver_due() == 1
    assert deliver.deliver_due() == 0
    assert "451" in Delivery.objects.get().error
    for _ in deliver.PAUSES:
        due_now()
        deliver.deliver_due()
    assert states() == [("failed", len(deliver.PAUSES) + 1)]
    assert sink.got == []


def test_a_mail_server_that_is_not_there_is_no_error_of_the_worker(ada: Any, sink: Sink, settings: Settings) -> None:
    subscribe.subscribe("all", "", Channel.EMAIL, by=ada)
    new()
    subscribe.look()
    settings.EMAIL_PORT = 9
    deliver.deliver_due()
    assert states() == [("pending", 1)]


# --- Webhooks -----------------------------------------------------------------------------------


def test_a_webhook_is_signed_and_thin(admin: Any, hook: HTTPServer) -> None:
    seen: list[Request] = []

    def take(request: Request) -> Response:
        request.get_data()
        seen.append(request)
        return Response(status=204)

    hook.expect_request("/in", method="POST").respond_with_handler(take)
    subscribe.subscribe("all", "", Channel.WEBHOOK, by=admin, webhook="ops")
    verdict = new()
    subscribe.look()
    deliver.deliver_due()
    request = seen[0]
    content = request.get_data()
    said = json.loads(content)
    assert said["type"] == "verdict.made"
    assert said["data"]["verdict"] == str(verdict.pk)
    assert len(content) < 20_000
    name, at = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    wanted = hmac.new(SECRET, f"{name}.{at}.".encode() + content, hashlib.sha256).digest()
    assert request.headers["webhook-signature"] == f"v1,{base64.b64encode(wanted).decode()}"
    assert states() == [("done", 1)]


@pytest.mark.parametrize("status", [301, 400, 404, 429, 500, 503])
def test_anything_but_a_yes_is_tried_again_and_no_redirect_is_followed(
    admin: Any, hook: HTTPServer, status: int
) -> None:
    headers = {"Location": hook.url_for("/elsewhere"), "Retry-After": "7200"}
    hook.expect_request("/in").respond_with_data("", status=status, headers=headers)
    subscribe.subscribe("all", "", Channel.WEBHOOK, by=admin, webhook="ops")
    new()
    subscribe.look()
    deliver.deliver_due()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.tries) == ("pending", 1)
    assert str(status) in delivery.error
    assert delivery.due_at > timezone.now() + timedelta(minutes=110)
    assert [request.path for request, _ in hook.log] == ["/in"]


def test_a_webhook_whose_answer_has_no_end_is_told_all_the_same(admin: Any, settings: Settings) -> None:
    with raw_server(lambda connection, _: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (1 << 24))) as server:
        settings.WEBHOOKS = {"ops": Webhook(f"{server.url}/in", SECRET)}
        subscribe.subscribe("all", "", Channel.WEBHOOK, by=admin, webhook="ops")
        new()
        subscribe.look()
        deliver.deliver_due()
    assert states() == [("done", 1)]


def test_a_webhook_that_is_gone_ends_the_subscription(admin: Any, hook: HTTPServer, settings: Settings) -> None:
    hook.expect_request("/in").respond_with_data("", status=410)
    subscribe.subscribe("all", "", Channel.WEBHOOK, by=admin, webhook="ops")
    new(job="a")
    subscribe.look()
    deliver.deliver_due()
    made = Subscription.objects.get()
    assert (made.active, "410" in made.problem) == (False, True)
    assert states() == [("failed", 1)]


def test_a_webhook_that_the_settings_name_no_more_is_not_called(
    admin: Any, hook: HTTPServer, settings: Settings
) -> None:
    subscribe.subscribe("all", "", Channel.WEBHOOK, by=admin, webhook="ops")
    new()
    subscribe.look()
    settings.WEBHOOKS = {}
    deliver.deliver_due()
    assert not Subscription.objects.get().active
    assert hook.log == []


def test_what_a_killed_worker_held_is_delivered_by_another_and_the_first_cannot_finish_it(
    admin: Any, hook: HTTPServer
) -> None:
    hook.expect_request("/in").respond_with_data("")
    subscribe.subscribe("all", "", Channel.WEBHOOK, by=admin, webhook="ops")
    new()
    subscribe.look()
    held = deliver._take()
    assert held is not None
    assert deliver.deliver_due() == 0
    Delivery.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert deliver.deliver_due() == 1
    deliver._again(held, deliver.Failed("too late"))
    assert states() == [("done", 2)]


# --- Pages and API ------------------------------------------------------------------------------


def test_from_the_form_to_a_subscription_and_its_end(client: Client, ada: Any, sink: Sink) -> None:
    client.force_login(ada)
    page = client.get("/subscriptions/", {"query": "?domain=storage"}).content.decode()
    assert 'value="domain=storage"' in page
    answer = client.post("/subscriptions/", {"name": "mine", "query": "domain=storage", "to": "email"})
    assert answer.status_code == 302
    made = Subscription.objects.get()
    assert "Storage" in client.get("/subscriptions/").content.decode()
    client.post(f"/subscriptions/{made.pk}/", {"do": "pause"})
    made.refresh_from_db()
    assert not made.active
    client.post(f"/subscriptions/{made.pk}/", {"do": "end"})
    assert not Subscription.objects.exists()


def test_what_is_refused_is_said_and_stays_in_the_form(client: Client, ada: Any, sink: Sink) -> None:
    client.force_login(ada)
    for to in ("email", "webhook:ops", "pigeon", "webhook:http://127.0.0.1/"):
        answer = client.post("/subscriptions/", {"name": "mine", "query": "nonsense=1", "to": to})
        assert answer.status_code == 400
        assert 'value="mine"' in answer.content.decode()
    assert not Subscription.objects.exists()


def test_nobody_sees_or_ends_what_is_anothers(
    client: Client, ada: Any, admin: Any, sink: Sink, client_of: Callable[..., APIClient]
) -> None:
    made = subscribe.subscribe("secret plan", "", Channel.EMAIL, by=admin)
    client.force_login(ada)
    assert "secret plan" not in client.get("/subscriptions/").content.decode()
    assert client.post(f"/subscriptions/{made.pk}/", {"do": "end"}).status_code == 404
    api = client_of("viewer")
    assert api.get(f"/api/v1/subscriptions/{made.pk}").status_code == 404
    assert api.delete(f"/api/v1/subscriptions/{made.pk}").status_code == 404
    assert Subscription.objects.exists()


def test_the_api_makes_shows_pauses_and_ends_them(hook: HTTPServer, client_of: Callable[..., APIClient]) -> None:
    api = client_of("policy admin")
    said = {"name": "all", "query": "domain=storage", "channel": "webhook", "webhook": "ops"}
    made = api.post("/api/v1/subscriptions", said)
    assert made.status_code == 201, made.content
    at = f"/api/v1/subscriptions/{made.json()['id']}"
    assert api.get("/api/v1/subscriptions").json()["count"] == 1
    assert api.patch(at, {"active": False}).json()["active"] is False
    assert api.get(at).json()["deliveries"] == []
    assert client_of("viewer").post("/api/v1/subscriptions", said).status_code == 403
    assert api.post("/api/v1/subscriptions", said | {"webhook": "no"}).status_code == 400
    assert api.delete(at).status_code == 204
