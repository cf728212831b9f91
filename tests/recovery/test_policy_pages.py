"""The pages and the API of policies and labels: what they show, who may do what, and that nothing typed is lost."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from recovery.models import Policy, Promotion, Proposal, Scope
from recovery.policies import find as policy_find
from recovery.policies import record as policies
from recovery.policies.diff import normal
from recovery.policies.forms import START, body_of, text_of
from recovery.words import PolicyMode, ProposalState
from rules.attempt import InputError
from tests.recovery.policy_builders import BODY, a_policy, a_scope, many_right, proposed
from tests.verdicts.builders import a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def policy() -> Policy:
    return a_policy(a_user("author", "policy admin"))


@pytest.fixture
def scope(policy: Policy) -> Scope:
    return a_scope(policy)


@pytest.fixture
def as_(client: Client) -> Callable[..., Client]:
    def log_in(name: str, *groups: str) -> Client:
        client.force_login(User.objects.filter(username=name).first() or a_user(name, *groups))
        return client

    return log_in


def api(name: str, *groups: str) -> APIClient:
    client = APIClient()
    client.force_authenticate(User.objects.filter(username=name).first() or a_user(name, *groups))
    return client


def test_the_text_of_a_policy_says_all_of_it_and_reads_back() -> None:
    for body in (BODY, body_of(START), BODY | {"waits_minutes": 5}, BODY | {"match": {"symptoms": ['odd "name"\\']}}):
        assert normal(body_of(text_of(body))) == normal(body)


def test_a_policy_admin_writes_a_policy_and_others_only_read(as_: Callable[..., Client]) -> None:
    assert as_("vi", "viewer").get(reverse("recovery:policy-new")).status_code == 403
    said = {"name": "leave-out", "rule": START, "reason": "to see", "days": "14", "cluster": "", "save": "1"}
    done = as_("pa", "policy admin").post(reverse("recovery:policy-new"), said)
    assert done.status_code == 302
    page = as_("vi2", "viewer").get(done.url).content.decode()
    assert "leave-out" in page and "gpu_hardware" in page and "Change or try it" not in page


def test_what_is_wrong_is_named_and_nothing_typed_is_lost(as_: Callable[..., Client]) -> None:
    said = {"name": "x", "rule": 'action = "explode"\n', "reason": "my long reason", "days": "14", "save": "1"}
    page = as_("pa", "policy admin").post(reverse("recovery:policy-new"), said)
    text = page.content.decode()
    assert page.status_code == 400
    assert "Action: " in text and "my long reason" in text and "explode" in text
    assert not Policy.objects.exists()
    page = as_("pa").post(reverse("recovery:policy-new"), said | {"rule": "action = "})
    assert "this is no TOML" in page.content.decode()


def test_a_preview_shows_the_difference_and_what_it_would_have_done_and_writes_nothing(
    as_: Callable[..., Client], policy: Policy
) -> None:
    said = {"rule": text_of(BODY | {"approvals": 2}), "reason": "", "seen": "1", "days": "7", "preview": "1"}
    page = as_("pa", "policy admin").post(reverse("recovery:policy-change", args=[policy.name]), said)
    text = page.content.decode()
    assert "approvals" in text and "Only limits became tighter" in text and "nothing is written yet" in text
    assert policy.versions.count() == 1


def test_somebody_elses_change_meanwhile_is_told_and_the_text_stays(as_: Callable[..., Client], policy: Policy) -> None:
    policies.change(policy.pk, BODY | {"approvals": 2}, by=User.objects.get(), reason="first")
    said = {"rule": text_of(BODY | {"approvals": 3}), "reason": "second", "seen": "1", "save": "1", "days": "7"}
    page = as_("pa", "policy admin").post(reverse("recovery:policy-change", args=[policy.name]), said)
    assert page.status_code == 400
    assert "Version 2 was written meanwhile" in page.content.decode()
    assert "approvals = 3" in page.content.decode()


def test_the_page_says_what_is_wanting_beside_the_disabled_button(
    as_: Callable[..., Client], policy: Policy, scope: Scope
) -> None:
    policies.ask_promotion(scope.pk, PolicyMode.ADVISORY, by=a_user("ada", "lead"), reason="ok")
    page = as_("ada").get(reverse("recovery:policy", args=[policy.name])).content.decode()
    assert "373 right incidents in a row are wanting" in page and "&amp;#" not in page
    assert "1.00 of 20" in page and "disabled" in page


def test_what_was_refused_comes_back_into_its_own_field_alone(
    as_: Callable[..., Client], policy: Policy, scope: Scope
) -> None:
    policies.ask_promotion(scope.pk, PolicyMode.ADVISORY, by=a_user("ada", "lead"), reason="ok")
    other = a_scope(policy, "beta")
    refused = as_("ada").post(reverse("recovery:demote", args=[scope.pk]), {"to": "nothing", "reason": "smoke"})
    page = refused.content.decode()
    assert refused.status_code == 400
    assert page.count('value="smoke"') == 1
    assert f'id="demote-{scope.pk}" name="reason" required maxlength="4000" value="smoke"' in page
    assert f'id="promote-{other.pk}" name="reason" required maxlength="4000" value=""' in page


def test_two_people_make_it_automatic_on_the_page_and_one_demotes_it(
    as_: Callable[..., Client], policy: Policy, scope: Scope
) -> None:
    many_right(scope, 373)
    policies.ask_promotion(scope.pk, PolicyMode.ADVISORY, by=a_user("ada", "lead"), reason="ok")
    url = reverse("recovery:promote", args=[scope.pk])
    as_("ada").post(url, {"to": "automatic", "reason": "clean"})
    asked = Promotion.objects.get(to_mode="automatic")
    page = as_("ada").get(reverse("recovery:policy", args=[policy.name])).content.decode()
    assert "You asked for it: somebody else has to agree." in page
    as_("grace", "lead").post(reverse("recovery:promotion", args=[asked.pk]), {"agree": "1"})
    scope.refresh_from_db()
    assert scope.mode == "automatic"
    as_("op", "operator").post(reverse("recovery:demote", args=[scope.pk]), {"to": "observe", "reason": "smoke"})
    scope.refresh_from_db()
    assert scope.mode == "observe"


def test_a_reviewer_labels_a_case_from_the_list(as_: Callable[..., Client], scope: Scope) -> None:
    case = proposed(scope, 1, must_label=True)
    page = as_("rev", "reviewer").get(reverse("recovery:labels")).content.decode()
    url = reverse("recovery:label", args=[case.pk])
    assert url in page
    refused = as_("rev").post(url, {"label": "right", "basis": "approved", "text": "I looked"})
    assert refused.status_code == 400 and "I looked" in refused.content.decode()
    as_("rev").post(url, {"label": "right", "basis": "vendor", "text": "RMA"})
    assert "No case waits for a label" in as_("rev").get(reverse("recovery:labels")).content.decode()


def test_an_outcome_is_told_on_the_same_page(as_: Callable[..., Client], scope: Scope) -> None:
    case = proposed(scope, 1, mode="advisory", state=ProposalState.CLOSED.value)
    as_("op", "operator").post(
        reverse("recovery:outcome", args=[case.pk]), {"outcome": "worked", "outcome_text": "yes"}
    )
    assert Proposal.objects.get(pk=case.pk).outcome == "worked"


def test_the_api_does_what_the_pages_do(policy: Policy, scope: Scope) -> None:
    admin, lead = api("pa", "policy admin"), api("ada", "lead")
    body: dict[str, Any] = {"name": "second", "body": BODY, "reason": "why"}
    assert admin.post(reverse("api-policies"), body, format="json").status_code == 201
    wrong = admin.post(reverse("api-policies"), body | {"name": "third", "body": {"action": "x"}}, format="json")
    assert wrong.status_code == 400 and wrong.json()["errors"][0]["attr"] == "action"
    assert lead.post(reverse("api-policies"), body | {"name": "fourth"}, format="json").status_code == 403
    change = {"body": BODY | {"approvals": 2}, "reason": "stricter", "seen": 1}
    changed = admin.put(reverse("api-policy", args=["second"]), change, format="json").json()
    assert changed["record_kept"] is True and changed["differences"][0]["field"] == "approvals"
    stale = admin.put(reverse("api-policy", args=["second"]), change, format="json")
    assert stale.status_code == 409
    tried = admin.post(reverse("api-policy-try"), {"body": BODY}, format="json").json()
    assert tried["figures"]["looked"] == 0
    early = lead.post(reverse("api-promote", args=[scope.pk]), {"to": "automatic", "reason": "now"}, format="json")
    assert early.status_code == 409
    asked = lead.post(reverse("api-promote", args=[scope.pk]), {"to": "advisory", "reason": "ok"}, format="json").json()
    assert asked["granted"] is True
    listed = lead.get(reverse("api-scopes"), {"mode": "advisory"}).json()["results"]
    assert [one["domain"] for one in listed] == ["gpu_hardware"] and listed[0]["meter"]["needed"] == 373
    case = proposed(scope, 1, must_label=True)
    assert lead.get(reverse("api-labels")).json()["count"] == 1
    told = {"label": "wrong", "basis": "diagnostics", "text": "no fault found"}
    assert lead.post(reverse("api-label", args=[case.pk]), told, format="json").status_code == 201
    assert policy_find.reading_of(scope).wrong == 1
    low = lead.post(reverse("api-demote", args=[scope.pk]), {"to": "observe", "reason": "bad"}, format="json").json()
    assert low["mode"] == "observe"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("a = " + "[" * 5000, "this is no TOML: nested without end"),
        ('action = "restart"\n[match]\nclusters = ["\\u0000"]', "match.clusters: a name with a character"),
        (f'action = "restart"\n[match]\npartitions = {["p"] * 101}', "match.partitions: at most 100 patterns"),
        ('action = "lift_exclusion"', "action: a policy takes nothing back"),
    ],
)
def test_a_hostile_or_senseless_rule_is_refused_with_its_field(rule: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        policies.checked(body_of(rule))


def test_scopes_are_filtered_and_a_filter_that_is_none_is_refused(scope: Scope) -> None:
    client = api("vi", "viewer")
    assert client.get("/api/v1/recovery/scopes?cluster=alpha&mode=observe").json()["count"] == 1
    assert client.get("/api/v1/recovery/scopes?mode=automatic").json()["count"] == 0
    for query in ("mode=nonsense", "scope=1", "policy=%00"):
        assert client.get(f"/api/v1/recovery/scopes?{query}").status_code == 400


def test_scopes_and_their_policy_cost_the_same_however_many_there_are(
    policy: Policy, as_: Callable[..., Client], django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number, cluster in enumerate(("alpha", "beta", "gamma")):
        proposed(a_scope(policy, cluster), number, must_label=True)
    client, page = as_("lead", "lead"), f"/recovery/policies/{policy.name}/"
    for address in (page, "/api/v1/recovery/scopes"):
        client.get(address)
        with django_assert_max_num_queries(11):  # two of them ask for permissions
            assert client.get(address).status_code == 200
