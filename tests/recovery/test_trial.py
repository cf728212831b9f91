"""Simulation before a change: what a policy would have done, against what was done and how it ended."""

from typing import Any

import pytest

from recovery import decide, moves, propose
from recovery.models import LedgerEntry, Policy
from recovery.policies import labels, trial
from recovery.policies.find import blamed_before
from recovery.words import CaseLabel, LabelBasis
from rules.attempt import InputError
from tests.recovery.deciding import a_cluster, a_policy, failed, judged
from tests.verdicts.builders import a_ruleset, a_user
from verdicts import conclude
from verdicts.models import Verdict

pytestmark = pytest.mark.django_db
BODY: dict[str, Any] = {"match": {"domains": ["gpu_hardware"]}, "action": "restart_excluding"}
HOUR = 3600


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conclude, "current_ruleset", a_ruleset)
    monkeypatch.setattr(moves, "wake", lambda *_: 0)
    a_cluster()
    # The partition has many nodes, so that two of them are no noticeable share.
    failed("large", ago=50 * HOUR, nodes="gpu-[01-80]")


def test_it_tells_what_would_have_been_done_and_writes_nothing() -> None:
    judged(failed("1", ago=10 * HOUR))
    judged(failed("2", ago=5 * HOUR), node="gpu-03")
    entries = LedgerEntry.objects.count()
    tried = trial.run(BODY)
    assert [row.held_up for row in tried.rows] == ["", ""]
    assert tried.figures["acted"] == 2 and tried.figures["nodes"] == 2
    assert [row.nodes for row in tried.rows] == [["gpu-03"], ["gpu-01"]]
    assert LedgerEntry.objects.count() == entries and not Policy.objects.exists()


def test_its_own_caps_hold_it_up_as_they_would_have() -> None:
    for number in range(3):
        judged(failed(str(number), ago=(5 - number) * HOUR), node=f"gpu-0{number + 1}")
    tried = trial.run(BODY | {"caps": {"nodes_per_day": 2}})
    assert [bool(row.held_up) for row in tried.rows] == [True, False, False]
    assert "nodes per day" in tried.rows[0].held_up


def test_what_does_not_match_is_counted_by_its_reason() -> None:
    judged(failed("1"), symptom="gpu_off_bus")
    tried = trial.run(BODY | {"match": {"symptoms": ["nvlink_*"]}})
    assert tried.figures["matched"] == 0 and "nvlink_*" in next(iter(tried.why_not))


def test_it_stands_beside_what_people_did_and_what_was_found() -> None:
    a_policy()
    verdict = judged(failed("1"))
    (proposal,) = propose.consider(verdict.pk)
    lead = a_user("ada", "lead")
    decide.approve(proposal.pk, by=lead, seen=proposal.plan_sha256)
    labels.give(proposal.pk, CaseLabel.WRONG, LabelBasis.DIAGNOSTICS, by=lead, text="no fault found")
    (row,) = trial.run(BODY).rows
    assert "approved by ada" in row.done and row.right is False


def test_a_body_that_is_none_is_refused_by_its_field() -> None:
    with pytest.raises(InputError, match=r"^action: "):
        trial.run({"action": "explode"})


def test_a_bound_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MOST", 1)
    for number in range(2):
        judged(failed(str(number), ago=(number + 1) * HOUR))
    tried = trial.run(BODY)
    assert tried.looked == 1 and tried.cut is not None


def test_a_policy_can_ask_that_the_node_was_blamed_before() -> None:
    judged(failed("1", ago=10 * HOUR))
    assert blamed_before(Verdict.objects.get()) == 0
    verdict = judged(failed("2", ago=5 * HOUR))
    assert blamed_before(verdict) == 1
    tried = trial.run(BODY | {"match": {"domains": ["gpu_hardware"], "blamed_before": 1}})
    assert [row.job for row in tried.rows] == ["2"]
