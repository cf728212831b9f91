"""The verdict pages as a signed-in browser without scripts sees them."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import (
    a_verdict,
    ambiguous_body,
    an_attempt,
    body,
    coverage,
    evidence,
    finding,
    nvlink_attempt,
    nvlink_body,
)
from verdicts.models import AttributionRequest, Review, Verdict
from verdicts.verdict_page.presentation import evidence_lines

pytestmark = pytest.mark.django_db

LIST = "/verdicts/"
HTMX = {"HX-Request": "true"}
Visitor = Callable[..., Client]


@pytest.fixture
def as_(client: Client) -> Visitor:
    """The client, logged in as somebody of the groups named."""

    def log_in(*groups: str) -> Client:
        client.force_login(a_user("-".join(groups) or "nobody", *groups))
        return client

    return log_in


def text_of(response: Any) -> str:
    """The page's words without its markup, white space folded."""
    html = response.content.decode()
    html = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def page_of(verdict: Verdict) -> str:
    """A verdict's address."""
    return reverse("verdicts:detail", args=[verdict.pk])


# --- Who may see what ---------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["/", LIST, "/verdicts/6f1c2b4e-0000-4000-8000-000000000000/"])
def test_nobody_reads_without_logging_in(client: Client, address: str) -> None:
    response = client.get(address, follow=True)
    assert response.redirect_chain[-1][0].startswith("/accounts/login/?next=/")
    assert "User name" in text_of(response)


def test_after_logging_in_one_is_where_one_wanted_to_be(client: Client) -> None:
    a_user("ada", "viewer")
    asked = client.get("/verdicts/?domain=storage")
    response = client.post(
        asked["Location"],
        {"username": "ada", "password": "a long pass phrase", "next": "/verdicts/?domain=storage"},
    )
    assert response["Location"] == "/verdicts/?domain=storage"


def test_a_wrong_password_says_so_and_keeps_the_name(client: Client) -> None:
    response = client.post("/accounts/login/", {"username": "ada", "password": "guess", "next": "/verdicts/"})
    assert "correct username and password" in text_of(response)
    assert 'value="ada"' in response.content.decode()
    assert 'name="next" value="/verdicts/"' in response.content.decode()


def test_an_account_without_a_role_is_told_what_is_missing(as_: Visitor) -> None:
    response = as_().get(LIST)
    assert response.status_code == 403
    said = text_of(response)
    assert "without any role" in said
    assert "viewer reads verdicts" in " ".join(said.split())


def test_an_ended_session_leads_a_partial_update_to_the_login_page(client: Client) -> None:
    response = client.get(LIST, headers=HTMX | {"HX-Current-URL": "http://testserver/verdicts/?domain=storage"})
    assert response["HX-Redirect"] == "/accounts/login/?next=/verdicts/%3Fdomain%3Dstorage"


def test_a_password_is_changed_on_a_page_that_says_what_is_wrong(as_: Visitor) -> None:
    client = as_("viewer")
    new = "another long pass phrase"
    page = client.post("/accounts/password/", {"old_password": "guess", "new_password1": new, "new_password2": "other"})
    assert "incorrectly" in text_of(page)
    assert "match" in text_of(page)
    said = {"old_password": "a long pass phrase", "new_password1": new, "new_password2": new}
    assert client.post("/accounts/password/", said)["Location"] == "/accounts/login/"
    assert client.login(username="viewer", password=new)


# --- The verdict --------------------------------------------------------------------------------


def test_the_page_answers_what_where_how_sure_why_not_the_others_and_what_to_do(as_: Visitor) -> None:
    said = text_of(as_("viewer").get(page_of(a_verdict(nvlink_attempt(), nvlink_body()))))
    for words in (
        "so the switch side is not excluded",
        "Strong: direct evidence on a named place",
        "gpu-017 · GPU 0000:65:00 · link 5 · rank 17",
        "after 7 h 8 min",
        "1 of 1, current",
        "5d0c8f6e5d0c",
        # coverage, beside the sentence
        "System log in part 20,311 read, 412 kept, 412 delivered gpu-004 could not be reached",
        "Fabric Manager not collected",
        "Node metrics failed",
        "GPU events empty",
        "83 rules could not fire: Fabric Manager log not collected. Could explain f1, An NVLink went down",
        # the cause, its line and what it means
        "syslog/gpu-017.log:1204",
        "NETIR_LINK_DOWN Nonfatal",
        "Decoded: signal integrity, not fatal to the GPU.",
        # what it explains
        "A collective did not finish in time",
        "Explained by An NVLink went down (f1) in the same job, 10 min 2 s later by rule nvlink.xid-149-link-down",
        "on the node that it names as its peer, 5.0 s later",
        "order not known: the line prints no time",
        # and the rest
        "Restart without gpu-017.",
        "exchange the baseboard",
        "then the switch is the cause",
        "Not blamed: a state since the node started",
        "lustre_prefetch: window &lt;num&gt; rejected by allocator",
        "214 times",
        "near the end",
    ):
        assert words in said, words


def test_all_nine_sources_have_a_cell_with_a_word_and_a_shape(as_: Visitor) -> None:
    html = as_("viewer").get(page_of(a_verdict(nvlink_attempt(), nvlink_body()))).content.decode()
    cells = re.findall(r'<li class="cell (\w+)">\s*<svg.*?icons\.svg#(\w+)"', html)
    assert len(cells) == 9
    assert all(status == shape for status, shape in cells)
    assert {"ok", "partial", "empty", "error", "not_configured"} == {status for status, _ in cells}


def test_competing_causes_stand_side_by_side_with_the_test_that_tells(as_: Visitor) -> None:
    page = as_("viewer").get(page_of(a_verdict(an_attempt("51200"), ambiguous_body())))
    said = text_of(page)
    assert "Competing causes 2" in said
    assert "To tell them apart" in said
    assert "moves with the GPU or stays" in said
    assert "The cause" not in said


def test_an_unattributed_verdict_says_what_was_looked_for(as_: Visitor) -> None:
    missing = body(missing=["A kernel log of gpu-004.", "A witness of who sent SIGKILL."])
    said = text_of(as_("viewer").get(page_of(a_verdict(an_attempt("9"), missing))))
    assert "Looked for and not there A kernel log of gpu-004. A witness of who sent SIGKILL." in said


def test_an_old_verdict_stays_readable_and_says_what_replaced_it_and_why(as_: Visitor) -> None:
    attempt = nvlink_attempt()
    old = a_verdict(attempt, body(coverage=coverage(applog="ok")))
    new = a_verdict(attempt, nvlink_body(), number=2)
    client = as_("viewer")
    before, after = client.get(page_of(old)), client.get(page_of(new))
    assert "superseded by verdict 2" in text_of(before)
    for words in (
        "Domain: Unattributed before, NVLink fabric now.",
        "Strength: none before, Strong now.",
        "New: “An NVLink went down” (gpu-017, 0000:65:00) is the cause.",
        "System log: not collected before, in part now.",
    ):
        assert words in text_of(after), words


def test_evidence_is_one_list_in_order_with_a_filter(as_: Visitor) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    client = as_("viewer")
    lines = client.get(page_of(verdict)).context["lines"]
    assert [line.evidence["node"] for line in lines.shown] == ["gpu-017", "gpu-004", "gpu-011", "gpu-023", "gpu-023"]
    assert [bool(line.divider) for line in lines.shown] == [False, False, False, True, True]
    assert lines.nodes == ["gpu-004", "gpu-011", "gpu-017", "gpu-023"]
    part = client.get(page_of(verdict), {"line_node": "gpu-023"}, headers=HTMX | {"HX-Target": "evidence"})
    assert part.content.decode().strip().startswith('<div class="sheet" id="evidence"')
    assert "2 of 5 lines" in text_of(part)
    none = client.get(page_of(verdict), {"line_node": "gpu-023", "line_rank": "9"})
    assert "No line names both this node and this rank" in text_of(none)
    assert client.get(page_of(verdict), {"line_rank": "²"}).context["lines"].matching == 5


def test_lines_of_one_log_with_one_time_keep_their_order_whatever_their_nodes() -> None:
    nodes = ["gpu-2", "gpu-1", ""]
    lines = [
        {
            "source": "applog",
            "ref": f"job.out:{at}",
            "file": "job.out",
            "line": at,
            "text": f"line {at}",
            "node": node,
            "time": "2026-11-03T02:05:00",
        }
        for at, node in enumerate(nodes, start=9)
    ]
    body = {"causes": [{"id": "f1", "evidence": lines[::-1]}]}
    assert [line.evidence["node"] for line in evidence_lines(body).shown] == nodes


def test_a_very_long_verdict_is_cut_and_says_so(as_: Visitor) -> None:
    many = [finding(f"f{number}", "a.b", f"Symptom {number}", why="a state") for number in range(1, 101)]
    nodes = [{"name": f"gpu-{number:03d}", "gpus": [], "ranks": [], "links": []} for number in range(100)]
    verdict = a_verdict(an_attempt("1"), body(interesting=many, affected_nodes=nodes))
    client = as_("viewer")
    page = client.get(page_of(verdict))
    assert "The first 40 of 100 are shown." in text_of(page)
    assert "Symptom 41" not in text_of(page)
    assert "and 76 more" in text_of(page)
    assert "gpu-099" in text_of(page)
    whole = client.get(page_of(verdict), {"all": "1"})
    assert "Symptom 100" in text_of(whole)
    assert "are shown" not in text_of(whole)


HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)>" onmouseover="x\' &amp; \x1b[31m\u202egnp.exe\x07'


def test_hostile_text_is_shown_and_does_nothing(as_: Visitor) -> None:
    line = evidence(HOSTILE, "applog/x.log:1", node=HOSTILE, rank=0, time="<b>now</b>")
    attempt = an_attempt("<i>1</i>", workload=HOSTILE, cluster=HOSTILE, user=HOSTILE, state=HOSTILE, nodes=[])
    verdict = a_verdict(
        attempt,
        nvlink_body(
            headline=HOSTILE,
            affected_nodes=[{"name": HOSTILE[:200], "gpus": [HOSTILE], "ranks": [], "links": [HOSTILE]}],
            shared_element={"kind": "switch", "name": HOSTILE, "nodes": []},
            causes=[
                finding(
                    "f1",
                    "a.b",
                    HOSTILE,
                    meaning=HOSTILE,
                    locus={"node": HOSTILE, "gpu": HOSTILE, "image": HOSTILE},
                    decoded={"means": HOSTILE},
                    peers=[HOSTILE],
                    evidence=[line],
                )
            ],
            missing=[HOSTILE],
            overturned_by=[{"text": HOSTILE}],
            unrecognised=[
                {"template": HOSTILE, "count": 1, "source": "applog", "near_end": False, "example": line},
            ],
            advice={"now": [{"text": HOSTILE}], "later": []},
            coverage=coverage(applog=("partial", HOSTILE, 1, 1)),
        ),
    )
    a_verdict(an_attempt("2", workload=HOSTILE, cluster=HOSTILE), body())
    client = as_("lead")
    for page in (client.get(page_of(verdict), {"line_node": HOSTILE}), client.get(LIST, {"text": "<script>"})):
        html = page.content.decode()
        assert page.status_code == 200
        assert "<script>alert" not in html
        assert "<img src" not in html
        assert '" onmouseover="' not in html
        for control in ("\x1b", "\x07", "\u202e"):
            assert control not in text_of(page)
    assert "&lt;script&gt;alert(1)" in client.get(page_of(verdict)).content.decode()
    assert "\\u202e" in text_of(client.get(page_of(verdict)))


def test_an_attempt_without_a_verdict_says_whether_one_is_coming(as_: Visitor) -> None:
    attempt = nvlink_attempt()
    address = reverse("verdicts:attempt", args=[attempt.pk])
    client = as_("operator")
    page = client.get(address)
    assert "Nobody has asked for an attribution" in text_of(page)
    assert 'hx-trigger="every' not in page.content.decode()
    AttributionRequest.objects.create(attempt=attempt, mode="slow")
    page = client.get(address)
    assert "waits to be attributed" in text_of(page)
    assert 'hx-trigger="every 2s"' in page.content.decode()
    verdict = a_verdict(attempt, nvlink_body())
    assert client.get(address)["Location"] == page_of(verdict)
    polled = client.get(reverse("verdicts:progress", args=[attempt.pk]), {"seen": "0"}, headers=HTMX)
    assert polled["HX-Redirect"] == page_of(verdict)


def test_a_page_that_waits_learns_of_a_newer_verdict_a_failure_or_no_change(as_: Visitor) -> None:
    attempt = nvlink_attempt()
    old = a_verdict(attempt, nvlink_body())
    client = as_("viewer")
    address = reverse("verdicts:progress", args=[attempt.pk])
    request = AttributionRequest.objects.create(attempt=attempt, mode="slow")
    assert "every 2s" in client.get(address, {"seen": "1"}).content.decode()
    AttributionRequest.objects.filter(pk=request.pk).update(state="failed", error="<b>out of disk</b>")
    failed = client.get(address, {"seen": "1"})
    assert "The last attribution failed" in text_of(failed)
    assert "&lt;b&gt;out of disk" in failed.content.decode()
    AttributionRequest.objects.filter(pk=request.pk).update(state="done", verdict=old, finished_at=datetime.now(UTC))
    assert "the verdict is the same" in text_of(client.get(address, {"seen": "1"}))
    a_verdict(attempt, body(), number=2)
    newer = client.get(address, {"seen": "1"})
    assert "show verdict 2" in text_of(newer)
    assert "every 2s" not in newer.content.decode()


def test_an_operator_asks_for_an_attribution_and_others_may_not(as_: Visitor, sent: list[str]) -> None:
    attempt = nvlink_attempt()
    verdict = a_verdict(attempt, nvlink_body())
    address = reverse("verdicts:attribute", args=[attempt.pk])
    reader = as_("viewer")
    assert "Attribute again" not in text_of(reader.get(page_of(verdict)))
    assert reader.post(address).status_code == 403
    operator = as_("operator")
    assert "Attribute again" in text_of(operator.get(page_of(verdict)))
    assert operator.get(address).status_code == 405
    assert operator.post(address)["Location"] == reverse("verdicts:attempt", args=[attempt.pk])
    request = AttributionRequest.objects.get()
    assert (request.attempt, request.mode, request.requested_by) == (
        attempt,
        "slow",
        operator.get("/").wsgi_request.user,
    )


def test_other_attempts_of_the_workload_are_listed(as_: Visitor) -> None:
    first = nvlink_attempt(restart_count=0, end="2026-11-02T20:00:00+00:00")
    a_verdict(first, body())
    waiting = nvlink_attempt(restart_count=1, end="2026-11-02T21:00:00+00:00")
    page = as_("viewer").get(page_of(a_verdict(nvlink_attempt(), nvlink_body())))
    html = page.content.decode()
    assert reverse("verdicts:attempt", args=[first.pk]) in html
    assert reverse("verdicts:attempt", args=[waiting.pk]) in html
    assert "48213, restart 1 2026-11-02 21:00:00 +00:00 not analysed" in text_of(page)


# --- Reviews ------------------------------------------------------------------------------------


def test_a_reviewer_says_right_and_sees_it(as_: Visitor) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    client = as_("reviewer")
    response = client.post(
        reverse("verdicts:review", args=[verdict.pk]), {"label": "right", "note": "Seen in\nthe lab."}
    )
    assert response["Location"] == page_of(verdict) + "#reviews"
    page = client.get(page_of(verdict))
    assert "Seen in the lab." in text_of(page)
    assert "The review is saved." in text_of(page)
    assert "Change your review" in text_of(page)
    assert 'value="right" checked' in page.content.decode()


def test_a_wrong_verdict_needs_what_it_was_and_nothing_typed_is_lost(as_: Visitor) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    client = as_("reviewer")
    address = reverse("verdicts:review", args=[verdict.pk])
    page = client.post(
        address, {"label": "wrong", "actual_domain": "", "actual_nodes": "gpu-1, gpu-2", "note": "A <b>"}
    )
    html = page.content.decode()
    assert "Say what it really was." in text_of(page)
    assert 'value="wrong" checked' in html
    assert 'value="gpu-1, gpu-2"' in html
    assert "A &lt;b&gt;</textarea>" in html
    assert not Review.objects.exists()
    client.post(address, {"label": "wrong", "actual_domain": "facility", "actual_nodes": "gpu-2; gpu-1", "note": "A"})
    review = Review.objects.get()
    assert (review.label, review.actual_domain, review.actual_nodes) == ("wrong", "facility", ["gpu-1", "gpu-2"])


def test_what_belonged_to_another_label_is_dropped(as_: Visitor) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    said = {"label": "undecidable", "actual_domain": "facility", "actual_nodes": "gpu-1", "note": ""}
    as_("reviewer").post(reverse("verdicts:review", args=[verdict.pk]), said)
    review = Review.objects.get()
    assert (review.label, review.actual_domain, review.actual_nodes) == ("undecidable", "", [])


@pytest.mark.parametrize("said", [{}, {"label": "maybe"}, {"label": "right", "note": "x" * 10_001}], ids=str)
def test_a_review_that_cannot_be_stored_comes_back_with_a_reason(as_: Visitor, said: dict[str, str]) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    page = as_("reviewer").post(reverse("verdicts:review", args=[verdict.pk]), said)
    assert page.status_code == 200
    assert page.context["review_form"].errors
    assert "field-error" in page.content.decode()
    assert not Review.objects.exists()


def test_a_second_review_replaces_the_first_and_both_are_shown(as_: Visitor) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    client = as_("reviewer")
    address = reverse("verdicts:review", args=[verdict.pk])
    client.post(address, {"label": "right", "note": "first look"})
    client.post(address, {"label": "undecidable", "note": "second look"})
    said = text_of(client.get(page_of(verdict)))
    assert "2 reviews" in said
    assert "replaced by a later review" in said


def test_a_viewer_has_no_review_form_and_may_not_send_one(as_: Visitor) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    client = as_("viewer")
    assert "Save review" not in text_of(client.get(page_of(verdict)))
    assert client.post(reverse("verdicts:review", args=[verdict.pk]), {"label": "right"}).status_code == 403


def test_forms_are_refused_without_their_token() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(a_user("lead", "lead"))
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    for name, key in (("review", verdict.pk), ("attribute", verdict.attempt_id)):
        response = client.post(reverse(f"verdicts:{name}", args=[key]), {"label": "right"})
        assert response.status_code == 403
        assert "The form was out of date" in text_of(response)


# --- All pages ----------------------------------------------------------------------------------


def test_what_is_not_there_is_a_page_of_its_own(as_: Visitor) -> None:
    nowhere = "6f1c2b4e-0000-4000-8000-000000000000"
    client = as_("lead")
    for name in ("detail", "attempt", "progress"):
        response = client.get(reverse(f"verdicts:{name}", args=[nowhere]))
        assert response.status_code == 404
        assert "There is nothing at this address" in text_of(response)
    assert client.post(reverse("verdicts:review", args=[nowhere]), {"label": "right"}).status_code == 404
    assert client.post(reverse("verdicts:attribute", args=[nowhere])).status_code == 404


def test_an_error_is_a_page_of_its_own(as_: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    client = as_("viewer")
    client.raise_request_exception = False

    def broken(*args: Any, **more: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("verdicts.listing.pages.answer", broken)
    response = client.get(LIST)
    assert response.status_code == 500
    assert "The server could not answer" in text_of(response)
    assert "secret detail" not in response.content.decode()


def test_no_page_has_an_inline_script_or_style_or_asks_for_anything_from_outside(as_: Visitor) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    waiting = an_attempt("1")
    client = as_("lead")
    pages = [
        LIST,
        page_of(verdict),
        reverse("verdicts:attempt", args=[waiting.pk]),
        "/nowhere",
    ]
    answers = [client.get(page) for page in pages]
    client.logout()
    answers.append(client.get("/accounts/login/"))
    for response in answers:
        html = response.content.decode()
        policy = response["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert "script-src 'self'" in policy
        # Data for charts is no script: a browser runs nothing of another type.
        assert not re.search(r'<script(?![^>]*\bsrc=)(?![^>]*type="application/json")', html)
        assert not re.search(r"<style|\sstyle=|\son\w+=", html)
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', html)


def test_the_chosen_theme_is_in_the_page_and_no_other_word_is(as_: Visitor) -> None:
    client = as_("viewer")
    assert "data-theme=" not in client.get(LIST).content.decode().split("<body")[0]
    client.cookies["theme"] = "dark"
    assert '<html lang="en" data-theme="dark">' in client.get(LIST).content.decode()
    client.cookies["theme"] = '"><script>'
    assert '<html lang="en">' in client.get(LIST).content.decode()


# --- Budgets: they may only shrink --------------------------------------------------------------

DETAIL_QUERIES = 12


def test_the_verdict_page_costs_the_same_for_any_history(
    as_: Visitor, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = as_("lead")
    attempt = nvlink_attempt()
    verdict = a_verdict(attempt, nvlink_body())
    other = nvlink_attempt(restart_count=0)
    a_verdict(other, body())
    client.post(reverse("verdicts:review", args=[verdict.pk]), {"label": "right"})
    client.get(page_of(verdict))
    with django_assert_max_num_queries(DETAIL_QUERIES):
        client.get(page_of(verdict))
    for number in range(2, 9):
        verdict = a_verdict(attempt, nvlink_body() if number % 2 else body(), number=number)
        a_verdict(nvlink_attempt(restart_count=number + 10), body())
    client.post(reverse("verdicts:review", args=[verdict.pk]), {"label": "right"})
    client.get(page_of(verdict))
    with django_assert_max_num_queries(DETAIL_QUERIES):
        client.get(page_of(verdict))
