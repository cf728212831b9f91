"""Reviews and comments: nothing typed is lost, people who are named are told, hostile text is text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from rules.attempt import InputError
from tests.verdicts.builders import a_user
from tests.verdicts.incidents import HOSTILE
from tests.verdicts.page_bodies import a_verdict, an_attempt, body, nvlink_attempt, nvlink_body
from tests.verdicts.seen import text_of
from verdicts.models import Comment, Mention, Review, Verdict
from verdicts.people import talk

pytestmark = pytest.mark.django_db

Visitor = Callable[..., Client]


def page_of(verdict: Verdict) -> str:
    return reverse("verdicts:detail", args=[verdict.pk])


def a_comment(verdict: Verdict, by: User, text: str = "Seen before.") -> Comment:
    return talk.add_comment(verdict.pk, by=by, text=text)


# --- A session that ended ------------------------------------------------------------------------


def ended(client: Client) -> Client:
    """The client with the cookie of a session that the server no longer knows."""
    client.cookies[settings.SESSION_COOKIE_NAME] = "a" * 32
    return client


def test_a_review_typed_while_the_session_ended_is_there_after_logging_in(client: Client) -> None:
    a_user("rita", "reviewer")
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    typed = {"label": "wrong", "actual_domain": "storage", "actual_nodes": "n1, n2", "note": "Seen on <the> server."}
    answer = ended(client).post(reverse("verdicts:review", args=[verdict.pk]), typed)
    assert answer["Location"] == f"/accounts/login/?next={page_of(verdict)}%23reviews"
    client.post("/accounts/login/", {"username": "rita", "password": "a long pass phrase"})
    page = client.get(page_of(verdict))
    html = page.content.decode()
    assert "What you typed is below and is not saved yet" in text_of(page)
    assert "Seen on &lt;the&gt; server." in html
    assert 'value="n1, n2"' in html
    assert '<option value="storage" selected>' in html
    assert 'value="wrong" checked' in html
    assert not Review.objects.exists()
    # It is given back once, and saved when it is sent.
    assert "not saved yet" not in text_of(client.get(page_of(verdict)))
    client.post(reverse("verdicts:review", args=[verdict.pk]), typed)
    assert Review.objects.get().note == "Seen on <the> server."


def test_a_comment_typed_while_the_session_ended_is_there_after_logging_in(client: Client) -> None:
    a_user("rita", "reviewer")
    verdict = a_verdict(an_attempt())
    ended(client).post(reverse("verdicts:comment", args=[verdict.pk]), {"text": "half a thought"})
    client.post("/accounts/login/", {"username": "rita", "password": "a long pass phrase"})
    assert "half a thought" in client.get(page_of(verdict)).content.decode()


def test_what_was_typed_on_one_verdict_is_not_put_on_another(client: Client) -> None:
    a_user("rita", "reviewer")
    verdict, other = a_verdict(an_attempt("1")), a_verdict(an_attempt("2"))
    ended(client).post(reverse("verdicts:comment", args=[verdict.pk]), {"text": "half a thought"})
    client.post("/accounts/login/", {"username": "rita", "password": "a long pass phrase"})
    assert "half a thought" not in client.get(page_of(other)).content.decode()
    assert "half a thought" in client.get(page_of(verdict)).content.decode()


def test_who_never_had_a_session_stores_nothing(client: Client) -> None:
    verdict = a_verdict(an_attempt())
    answer = client.post(reverse("verdicts:comment", args=[verdict.pk]), {"text": "spam"})
    assert answer.status_code == 302
    assert settings.SESSION_COOKIE_NAME not in answer.cookies


# --- Comments ------------------------------------------------------------------------------------


def test_a_comment_is_shown_and_names_people(as_: Visitor) -> None:
    named, outsider = a_user("vic", "viewer"), a_user("nobody-yet")
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    client = as_("reviewer")
    said = "@vic. and @nobody-yet, @reviewer and @nobody"
    answer = client.post(reverse("verdicts:comment", args=[verdict.pk]), {"text": said})
    comment = Comment.objects.get()
    assert answer["Location"] == f"{page_of(verdict)}#comment-{comment.pk}"
    assert list(Mention.objects.values_list("person", flat=True)) == [named.pk]
    assert outsider.mentions.count() == 0
    page = client.get(page_of(verdict))
    assert said in text_of(page)
    assert "reviewer: “@vic." in text_of(page)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@ada", ["ada"]),
        ("hello @ada.", ["ada.", "ada"]),
        ("(@ada) @bob!", ["ada", "bob"]),
        ("a@b.example and @@ada", []),
        ("@ada @ada", ["ada"]),
        ("@o.neil@host", ["o.neil@host"]),
        ("@", []),
    ],
)
def test_names_are_read_out_of_a_text(text: str, names: list[str]) -> None:
    assert talk.names_in(text) == names


def test_an_empty_comment_and_one_that_is_too_long_come_back(as_: Visitor) -> None:
    verdict = a_verdict(an_attempt())
    client = as_("operator")
    address = reverse("verdicts:comment", args=[verdict.pk])
    assert "Write something first." in text_of(client.post(address, {"text": "  "}))
    page = client.post(address, {"text": "x" * 10_001})
    assert "At most 10,000 characters; this comment has 10001." in text_of(page)
    assert "x" * 10_001 in page.content.decode()
    assert not Comment.objects.exists()


def test_a_comment_without_the_right_is_refused(as_: Visitor) -> None:
    verdict = a_verdict(an_attempt())
    client = as_("viewer")
    assert client.post(reverse("verdicts:comment", args=[verdict.pk]), {"text": "x"}).status_code == 403
    assert "Add comment" not in text_of(client.get(page_of(verdict)))
    with pytest.raises(talk.NotPermitted):
        a_comment(verdict, User.objects.get(username="viewer"))


def test_a_comment_on_an_older_verdict_is_seen_on_the_newer(as_: Visitor) -> None:
    attempt = nvlink_attempt()
    first = a_verdict(attempt, body())
    a_comment(first, a_user("rita", "reviewer"))
    second = a_verdict(attempt, nvlink_body(), number=2)
    text = text_of(as_("viewer").get(page_of(second)))
    assert "Seen before." in text
    assert "on verdict 1" in text


def test_secrets_in_a_comment_are_taken_out_and_hostile_text_is_text(as_: Visitor) -> None:
    verdict = a_verdict(an_attempt())
    secret = "a1B2c3D4e5" * 4
    a_comment(verdict, a_user("rita", "reviewer"), f"{HOSTILE}\x00 WANDB_API_KEY={secret}")
    html = as_("viewer").get(page_of(verdict)).content.decode()
    assert secret not in html
    assert "<img" not in html
    assert "&lt;img src=x" in html


def test_a_comment_is_neither_changed_nor_deleted() -> None:
    comment = a_comment(a_verdict(an_attempt()), a_user("rita", "reviewer"))
    for change in ("UPDATE verdicts_comment SET text = 'x'", "DELETE FROM verdicts_comment"):
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(change)
    assert Comment.objects.get().text == comment.text


def test_a_person_finds_where_they_were_named_and_says_that_they_saw_it() -> None:
    rita, vic = a_user("rita", "reviewer"), a_user("vic", "viewer")
    first, second = a_verdict(an_attempt("1")), a_verdict(an_attempt("2"))
    a_comment(first, rita, "@vic one")
    a_comment(second, rita, "@vic two")
    assert [mention.comment.text for mention in talk.mentions_of(vic)] == ["@vic two", "@vic one"]
    assert talk.mark_seen(vic, verdict_id=first.pk) == 1
    assert [mention.comment.text for mention in talk.mentions_of(vic, unseen=True)] == ["@vic two"]
    assert talk.mark_seen(vic) == 1
    assert talk.mark_seen(vic) == 0


def test_a_comment_without_text_is_refused() -> None:
    with pytest.raises(InputError):
        a_comment(a_verdict(an_attempt()), a_user("rita", "reviewer"), " \n")


# --- Over the API --------------------------------------------------------------------------------


def test_comments_over_the_api(client_of: Callable[..., APIClient]) -> None:
    a_user("vic", "viewer")
    verdict = a_verdict(an_attempt())
    root = reverse("api-comments", args=[verdict.pk])
    operator = client_of("operator")
    made = operator.post(root, {"text": "@vic look"}, format="json")
    assert made.status_code == 201
    assert (made.data["author"], made.data["mentions"]) == ("operator", ["vic"])
    viewer = client_of("viewer")
    assert [comment["text"] for comment in viewer.get(root).data["results"]] == ["@vic look"]
    assert viewer.post(root, {"text": "x"}, format="json").status_code == 403
    assert operator.post(root, {"text": ""}, format="json").status_code == 400
    assert operator.post(root, {"text": 3}, format="json").status_code == 400
    assert operator.post(root, {"text": "x", "more": 1}, format="json").status_code == 400
    nowhere = reverse("api-comments", args=["6f1c2b4e-0000-4000-8000-000000000000"])
    assert operator.get(nowhere).status_code == 404
    assert operator.post(nowhere, {"text": "x"}, format="json").status_code == 404
