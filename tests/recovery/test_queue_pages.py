"""The review queue as people use it: what waits, what stands against it, and what is decided about it."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from recovery import brakes, exclusions, propose
from recovery import decide as decisions
from recovery.models import Action, Brake, Decision, Exclusion, Proposal
from recovery.words import ActionKind, ActionState, BrakeKind, ExclusionKind, ProposalState
from tests.recovery.acting import a_failed_attempt
from verdicts.models import Attempt, Node

pytestmark = pytest.mark.django_db


def person(name: str, *roles: str) -> User:
    user = User.objects.create_user(name, password="not asked for")
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture(autouse=True)
def spare_nodes() -> None:
    """Another job of the partition names nodes enough for anybody."""
    a_failed_attempt("1", nodes=["gpu-[01-64]"], workload="other")


@pytest.fixture
def proposal() -> Proposal:
    attempt = a_failed_attempt()
    made = propose.propose_by_hand(
        attempt, ActionKind.RESTART_EXCLUDING, ["gpu-03"], by=person("ada", "operator"), reason="it fell off the bus"
    )
    return Proposal.objects.get(pk=made.pk)


def decide(client: Client, proposal: Proposal, kind: str, **said: str) -> Any:
    said = {"seen": proposal.plan_sha256} | said
    return client.post(reverse("recovery:decision", args=[proposal.pk]), {"decision": kind, **said})


def test_what_waits_is_listed_with_its_nodes_and_its_time(proposal: Proposal) -> None:
    page = signed_in(person("eve", "viewer")).get(reverse("recovery:queue")).content.decode()
    assert "Restart without nodes" in page
    assert "gpu-03" in page
    assert reverse("recovery:proposal", args=[proposal.pk]) in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("node=gpu-03", True),
        ("node=gpu-04", False),
        ("show=going", False),
        ("state=open&action=restart_excluding&cluster=alpha", True),
        ("text=4711", True),
        ("attempt=nonsense", False),
        ("domain=storage&show=all", False),
        ("policy=none-of-it", False),
        ("after=2020-01-01T00:00&before=2021-01-01", False),
        ("order=-made", True),
    ],
)
def test_the_queue_is_filtered_by_its_address(proposal: Proposal, query: str, found: bool) -> None:
    page = signed_in(person("eve", "viewer")).get(f"{reverse('recovery:queue')}?{query}").content.decode()
    assert (reverse("recovery:proposal", args=[proposal.pk]) in page) is found


def test_an_address_that_is_not_understood_finds_nothing_and_says_so(proposal: Proposal) -> None:
    page = signed_in(person("eve", "viewer")).get(reverse("recovery:queue") + "?stat=open").content.decode()
    assert "There is no filter called" in page
    assert reverse("recovery:proposal", args=[proposal.pk]) not in page


def test_a_proposal_shows_its_plan_and_who_may_not_approve_is_told_before_the_click(proposal: Proposal) -> None:
    address = reverse("recovery:proposal", args=[proposal.pk])
    own = signed_in(User.objects.get(username="ada")).get(address).content.decode()
    assert "You proposed this yourself" in own
    assert proposal.plan_sha256[:12] in own
    reader = signed_in(person("eve", "viewer")).get(address).content.decode()
    assert "Deciding needs the role" in reader
    other = signed_in(person("bob", "operator")).get(address).content.decode()
    assert "Cannot be approved by you" not in other


def test_an_approval_begins_the_action_and_is_in_the_ledger(proposal: Proposal) -> None:
    client = signed_in(person("bob", "operator"))
    answer = decide(client, proposal, "approve")
    assert answer.status_code == 302
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.ACTING
    with connection.cursor() as cursor:  # the chain is made when a transaction commits, which a test never does
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    page = client.get(reverse("recovery:proposal", args=[proposal.pk])).content.decode()
    assert "Intended, nothing sent" in page
    assert "Proposal approved" in page


def test_another_plan_than_the_one_seen_is_refused_and_what_was_typed_stays(proposal: Proposal) -> None:
    answer = decide(signed_in(person("bob", "operator")), proposal, "approve", seen="0" * 64, text="looks right to me")
    assert answer.status_code == 409
    assert "looks right to me" in answer.content.decode()
    assert "another one than the one you saw" in answer.content.decode()
    assert not Decision.objects.exists()


def test_a_rejection_needs_a_reason_and_keeps_the_words(proposal: Proposal) -> None:
    client = signed_in(person("bob", "operator"))
    refused = decide(client, proposal, "reject", text="it is the switch")
    assert refused.status_code == 400
    assert "it is the switch" in refused.content.decode()
    assert decide(client, proposal, "reject", reason="wrong_node", text="it is the switch").status_code == 302
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.REJECTED
    again = decide(client, proposal, "reject", reason="wrong_node")
    assert again.status_code == 409
    assert "It was decided" in again.content.decode()


def test_who_may_not_decide_is_refused(proposal: Proposal) -> None:
    assert decide(signed_in(person("eve", "viewer")), proposal, "reject", reason="wrong_node").status_code == 403


def test_an_exclusion_is_lifted_with_a_reason_from_its_list(proposal: Proposal) -> None:
    made = Exclusion.objects.create(
        cluster=proposal.attempt.cluster,
        node="gpu-03",
        kind=ExclusionKind.JOB.value,
        attempt=proposal.attempt,
        proposal=proposal,
        expires_at=proposal.expires_at,
    )
    client = signed_in(person("bob", "operator"))
    address = reverse("recovery:lift", args=[made.pk])
    assert "gpu-03" in client.get(reverse("recovery:exclusions")).content.decode()
    client.post(address, {"reason": ""})
    made.refresh_from_db()
    assert made.state == "standing"
    client.post(address, {"reason": "it was the cable"})
    made.refresh_from_db()
    assert (made.state, made.ended_why) == ("lifted", "it was the cable")


def test_the_list_has_what_is_proposed_for_an_attempt_and_the_overview_the_brakes(proposal: Proposal) -> None:
    client = signed_in(person("lea", "lead"))
    address = reverse("recovery:proposal", args=[proposal.pk])
    rows = client.get(reverse("verdicts:rows"), {"attempt": str(proposal.attempt_id)}).content.decode()
    for page in (client.get(reverse("verdicts:list")).content.decode(), rows):
        assert page.count(address) == 1
        assert "Waits for a decision" in page
    assert "none is pulled or tripped" in client.get(reverse("recovery:waiting")).content.decode()
    client.post(reverse("recovery:brake-pull"), {"cluster": "alpha", "reason": "too many at once"})
    assert "recovery is stopped or slowed down" in client.get(reverse("recovery:waiting")).content.decode()


def test_a_nodes_page_says_when_it_was_kept_away_protected_and_proposed_for(proposal: Proposal) -> None:
    node = Node.objects.get(name="gpu-03")
    client = signed_in(person("lea", "lead"))
    here = reverse("recovery:of-node", args=[node.pk])
    assert here in client.get(reverse("verdicts:node", args=[node.pk])).content.decode()
    assert "It was never kept away." in client.get(here).content.decode()
    exclusions.make(proposal, "gpu-03", ExclusionKind.JOB)
    protected = {"cluster": "alpha", "kind": "node", "value": "gpu-03", "reason": "in use"}
    client.post(reverse("recovery:veto-set"), protected)
    part = client.get(here).content.decode()
    assert reverse("recovery:proposal", args=[proposal.pk]) in part
    assert "in use" in part
    assert "Kept from" in part


def test_a_stop_and_a_veto_are_set_and_ended_on_their_page(proposal: Proposal) -> None:
    client = signed_in(person("lea", "lead"))
    page = reverse("recovery:brakes")
    wrong = client.post(
        reverse("recovery:veto-set"), {"cluster": "alpha", "kind": "node", "value": "gpu-*", "reason": "x"}
    )
    assert wrong.status_code == 400
    assert "gpu-*" in wrong.content.decode()
    client.post(
        reverse("recovery:veto-set"), {"cluster": "alpha", "kind": "node", "value": "gpu-03", "reason": "in use"}
    )
    client.post(reverse("recovery:brake-pull"), {"cluster": "alpha", "reason": "too many at once"})
    shown = client.get(page).content.decode()
    assert "in use" in shown
    assert "too many at once" in shown
    blocked = client.get(reverse("recovery:proposal", args=[proposal.pk])).content.decode()
    assert blocked.count("too many at once") == 1, "the button points to the list and does not repeat it"
    assert "Veto:" in blocked
    assert "Stopped:" in blocked


def test_what_was_proposed_is_on_the_page_of_the_verdict_and_counted_on_the_overview(proposal: Proposal) -> None:
    client = signed_in(person("eve", "viewer"))
    address = reverse("recovery:of-attempt", args=[proposal.attempt_id])
    part = client.get(address).content.decode()
    assert part.count(reverse("recovery:proposal", args=[proposal.pk])) == 1
    # For the answer at the top of the page, which has a place for it.
    whole = client.get(address, {"answers": "1"}).content.decode()
    assert whole.count(reverse("recovery:proposal", args=[proposal.pk])) == 2
    assert '<p id="proposed" hx-swap-oob="true">' in whole
    assert "<b>1</b>" in client.get(reverse("recovery:waiting")).content.decode()


def test_a_person_proposes_and_is_told_what_is_wrong_with_it() -> None:
    attempt = a_failed_attempt("815")
    client = signed_in(person("ada", "operator"))
    address = reverse("recovery:propose", args=[attempt.pk])
    assert client.get(address).status_code == 200
    said = {"action": "restart_excluding", "nodes": "all", "reason": "because"}
    refused = client.post(address, said)
    assert refused.status_code == 400
    assert "because" in refused.content.decode()
    answer = client.post(address, said | {"nodes": "gpu-01"})
    assert answer.status_code == 302, answer.content.decode()
    assert Proposal.objects.get().nodes == ["gpu-01"]


def test_that_it_is_too_late_to_propose_is_said_before_somebody_types() -> None:
    attempt = a_failed_attempt("816")
    client = signed_in(person("ada", "operator"))
    address = reverse("recovery:propose", args=[attempt.pk])
    assert "is refused" not in client.get(address).content.decode()
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now() - timedelta(hours=3))
    assert "more than 120 min after a failure is refused" in client.get(address).content.decode()


def test_the_api_shows_and_decides_the_same(proposal: Proposal) -> None:
    client = signed_in(person("bob", "operator"))
    found = client.get("/api/v1/recovery/proposals?node=gpu-03").json()
    assert [row["id"] for row in found["results"]] == [str(proposal.pk)]
    assert client.get("/api/v1/recovery/proposals?nod=1").status_code == 400
    one = client.get(f"/api/v1/recovery/proposals/{proposal.pk}").json()
    assert one["plan"]["nodes"] == ["gpu-03"]
    address = f"/api/v1/recovery/proposals/{proposal.pk}/decision"
    wrong = client.post(address, {"decision": "approve", "seen": "1" * 64}, content_type="application/json")
    assert wrong.status_code == 409
    right = {"decision": "approve", "seen": one["plan_sha256"]}
    decided = client.post(address, right, content_type="application/json")
    assert decided.status_code == 200
    assert decided.json()["action_done"]["outcome"] == "intended"


def test_a_hostile_node_and_reason_are_shown_escaped() -> None:
    attempt = a_failed_attempt("816", workload="<script>alert(1)</script>")
    made = propose.propose_by_hand(
        attempt, ActionKind.STOP, [], by=person("ada", "operator"), reason="<img src=x onerror=alert(2)>\x1b[31m"
    )
    client = signed_in(person("eve", "viewer"))
    for address in (reverse("recovery:queue"), reverse("recovery:proposal", args=[made.pk])):
        page = client.get(address).content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page


def test_what_was_approved_and_has_not_begun_is_taken_back_on_its_page(proposal: Proposal) -> None:
    client, address = signed_in(person("bob", "operator")), reverse("recovery:proposal", args=[proposal.pk])
    Proposal.objects.filter(pk=proposal.pk).update(state=ProposalState.APPROVED.value)
    assert 'value="withdraw"' not in signed_in(person("eve", "viewer")).get(address).content.decode()
    page = client.get(address).content.decode()
    assert 'value="withdraw"' in page
    assert 'value="approve"' not in page
    assert decide(client, proposal, "withdraw", text="the node is needed").status_code == 302
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.WITHDRAWN


def test_lifting_from_the_page_of_a_refused_decision_leads_to_the_proposal(proposal: Proposal) -> None:
    made = Exclusion.objects.create(
        cluster=proposal.attempt.cluster,
        node="gpu-03",
        kind=ExclusionKind.JOB.value,
        attempt=proposal.attempt,
        proposal=proposal,
        expires_at=proposal.expires_at,
    )
    client, own = signed_in(person("bob", "operator")), reverse("recovery:proposal", args=[proposal.pk])
    lift = reverse("recovery:lift", args=[made.pk])
    shown = f"http://testserver{own}"
    answer = client.post(lift, {"reason": ""}, headers={"referer": f"{shown}decision/"})
    assert answer["Location"] == shown
    answer = client.post(lift, {"reason": ""}, headers={"referer": "https://elsewhere.example/"})
    assert answer["Location"] == reverse("recovery:exclusions")


def test_a_name_with_a_nul_is_no_clusters() -> None:
    client = signed_in(person("lea", "lead"))
    answer = client.post(reverse("recovery:brake-pull"), {"cluster": "a\x00b", "reason": "x"})
    assert answer.status_code == 400
    assert "there is none of the name" in answer.content.decode()


def test_giving_back_is_not_offered_as_an_action_to_propose() -> None:
    attempt = a_failed_attempt("817")
    page = signed_in(person("ada", "operator")).get(reverse("recovery:propose", args=[attempt.pk])).content.decode()
    assert 'value="drain"' in page
    assert 'value="undrain"' not in page


def test_what_was_given_up_is_not_said_to_be_done_and_the_words_of_who_proposed_are_shown(proposal: Proposal) -> None:
    client = signed_in(person("bob", "operator"))
    own = reverse("recovery:proposal", args=[proposal.pk])
    assert "it fell off the bus" in client.get(own).content.decode()
    decide(client, proposal, "approve")
    action = Action.objects.get(proposal=proposal)
    Action.objects.filter(pk=action.pk).update(outcome=ActionState.ABANDONED.value)
    decisions.close_ended()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    for address in (own, reverse("recovery:queue") + "?show=all"):
        page = client.get(address).content.decode()
        assert "Given up" in page
        assert "Carried out" not in page
    assert "Action intended" in client.get(own).content.decode()


def test_whoever_may_pull_a_brake_lets_a_pace_go_and_no_stop(proposal: Proposal) -> None:
    cluster, client = proposal.attempt.cluster, signed_in(person("bob", "operator"))
    pace, stop = (brakes.pull(cluster, kind, "two were wrong") for kind in (BrakeKind.PACE, BrakeKind.STOP))
    page = client.get(reverse("recovery:brakes")).content.decode()
    for brake, status in ((pace, 302), (stop, 403)):
        address = reverse("recovery:brake-release", args=[brake.pk])
        assert (address in page) is (status == 302)
        assert client.post(address, {"reason": "it was mended"}).status_code == status
        said = client.post(
            f"/api/v1/recovery/brakes/{brake.pk}/release", {"reason": "again"}, content_type="application/json"
        )
        assert said.status_code == (200 if status == 302 else 403)
    assert list(Brake.objects.filter(released_at=None)) == [stop]
