"""The store and the simulated fleet answer the same failures alike: what the simulation retells must not drift.

Both get the same three policies and the same verdicts, one after the other; only what comes of them is compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from recovery import exclusions, moves, propose
from recovery.bench.answers import AT_ONCE, Job
from recovery.bench.faults import Fleet, Said
from recovery.bench.ours import Ours, restarted
from recovery.bench.policies import AGAIN, EXCLUDE, RESTART
from recovery.ledger.entries import Actor
from recovery.models import ActuatorState, Brake, Consideration, Exclusion, Incident, Proposal, Scope
from recovery.policies import labels
from recovery.policies import record as policies
from recovery.words import BrakeKind, ExclusionKind, PolicyMode, ProposalState
from rules.verdict import AffectedNode, SharedElement
from rules.words import Domain, Strength
from tests.recovery.deciding import failed, in_mode, judged
from tests.verdicts.builders import a_finding, a_ruleset, a_user
from verdicts import conclude
from verdicts.models import Cluster, Node

pytestmark = pytest.mark.django_db

FLEET = Fleet(nodes=800)
TOPOLOGY = {
    kind: {
        f"{kind} {number}": [f"n{node}" for node in range(number * width, (number + 1) * width)]
        for number in range(FLEET.nodes // width)
    }
    for kind, width in (("switch", FLEET.switch), ("rack", FLEET.rack))
}
BODIES = {"a-again": AGAIN, "b-exclude": EXCLUDE, "c-restart": RESTART}
DOMAINS = [
    Domain.GPU_HARDWARE,
    Domain.HOST_HARDWARE,
    Domain.APPLICATION_CODE,
    Domain.NETWORK_FABRIC,
    Domain.UNATTRIBUTED,
]


def said(*nodes: int, **more: Any) -> Said:
    """A strong verdict that holds GPUs of these nodes at fault."""
    usual = Said(Domain.GPU_HARDWARE, Strength.STRONG, "gpu_off_bus", nodes, "", frozenset(nodes))
    return replace(usual, **more)


@dataclass
class Simulated:
    """The simulation's side: `Ours` with what a run does around it."""

    fleet: Fleet = FLEET
    ours: Ours = field(default_factory=lambda: Ours(FLEET, 1))
    away: dict[int, tuple[float, int]] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    taken: list[tuple[Job, Said, Any]] = field(default_factory=list)
    at: float = 100.0

    def fails(self, number: int, what: Said) -> tuple[Any, ...]:
        self.at += 0.001
        job = self.jobs.setdefault(number, Job(number, 8, tuple(range(number * 8, number * 8 + 8))))
        self.ours.told(job, what, self.at)
        answer = self.ours.answer(self, job, what, self.at, self.at)
        if answer.again:
            return ("held up",)
        if answer.to_people:
            return ("people",)
        settles = self.ours.rules[answer.by].caps.settle_seconds / 3600 if answer.exclude else 0.0
        who = "by itself" if answer.delay == AT_ONCE + settles else "by a person"
        if answer.exclude:
            self.taken.append((job, what, answer))
            return ("exclude", *answer.exclude, who)
        self._acts(job, what, answer, ())
        return ("restart", who)

    def settle(self) -> list[int]:
        """Act on what waited for its neighbours."""
        gone: list[int] = []
        for job, what, answer in self.taken:
            nodes = self.ours.still(self, job, what, answer, self.at)
            if nodes:
                self._acts(job, what, answer, nodes)
            gone += nodes
        self.taken = []
        return gone

    def _acts(self, job: Job, what: Said, answer: Any, nodes: Sequence[int]) -> None:
        self.ours.acted(nodes, job, what, answer, self.at)
        self.away |= dict.fromkeys(nodes, (self.at, job.number))
        job.history = [*job.history, restarted(what, self.at)]
        job.crashes, job.futile = job.crashes + 1, job.futile + 1

    def state(self) -> tuple[Any, ...]:
        """What is marked as wrong, what slows it down, what is shared, and which policies act by themselves."""
        modes = {scope.mode for (place, _), scope in self.ours.scopes.items() if place == 1}
        return self.ours.marked, self.at < self.ours.pace_until, set(self.ours.open), modes


class Stored:
    """The store's side: attempts, verdicts, proposals and exclusions."""

    def __init__(self) -> None:
        self.cluster = Cluster.objects.create(name="alpha")
        names = [f"n{number}" for number in range(FLEET.nodes)]
        Node.objects.bulk_create(Node(cluster=self.cluster, name=name) for name in names)
        told = {"batch": ",".join(names)}
        ActuatorState.objects.create(
            cluster=self.cluster, kind="slurm", partitions=told, partitions_at=timezone.now(), reachable=True
        )
        author = a_user("author", "policy admin")
        for name, body in BODIES.items():
            policy = policies.create(name, body, by=author, reason="as simulated")
            for domain in DOMAINS:
                in_mode(policy, "automatic", domain)

    def fails(self, number: int, what: Said) -> tuple[Any, ...]:
        names = [f"n{node}" for node in what.nodes]
        nodes = [f"n[{number * 8}-{number * 8 + 7}]", *names]
        attempt = failed(str(number), ago=0, nodes=",".join(nodes), workload=str(number), topology=TOPOLOGY)
        finding = a_finding(
            symptom=what.symptom, domain=what.domain, locus={"node": names[0]} if names else {}, nodes=names
        )
        kind, _, name = what.shared.partition(" ")
        verdict = judged(
            attempt,
            attributed_domain=what.domain,
            strength=what.strength,
            causes=[finding] if what.strength else [],
            affected_nodes=[AffectedNode(name=name, gpus=[], ranks=[], links=[]) for name in names],
            shared_element=SharedElement(kind=kind, name=name, nodes=names) if what.shared else None,
        )
        made = propose.consider(verdict.pk)
        words = " ".join(Consideration.objects.get(verdict=verdict).said)
        assert len(made) <= 1, words
        if not made:
            return ("people",)
        if "held up" in words:
            return ("held up",)
        who = "by a person" if made[0].state == ProposalState.OPEN else "by itself"
        if made[0].action == "restart":
            return ("restart", who)
        return ("exclude", *(int(node[1:]) for node in made[0].nodes), who)

    def settle(self) -> list[int]:
        """As the dispatcher does once the time is over, and sees the nodes left out."""
        gone = []
        for proposal in Proposal.objects.filter(state=ProposalState.APPROVED, action="restart_excluding"):
            with transaction.atomic():
                moves.begin(moves.held(proposal.pk), actor=Actor.system("test"))
            for node in proposal.nodes:
                exclusions.make(proposal, node, ExclusionKind.JOB)
                gone.append(int(node[1:]))
        return gone

    def state(self) -> tuple[Any, ...]:
        labels.sweep()
        slowed = Brake.objects.filter(kind=BrakeKind.PACE, released_at=None).exists()
        modes = Scope.objects.filter(policy__name="b-exclude", domain=Domain.GPU_HARDWARE).values_list(
            "mode", flat=True
        )
        marked = Exclusion.objects.exclude(wrong_since=None).count()
        return marked, slowed, set(Incident.objects.values_list("value", flat=True)), {PolicyMode(m) for m in modes}


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> tuple[Simulated, Stored]:
    monkeypatch.setattr(conclude, "current_ruleset", a_ruleset)
    monkeypatch.setattr(moves, "wake", lambda *_: 0)
    return Simulated(), Stored()


Both = tuple[Simulated, Stored]


def answers(both: Both, number: int, what: Said) -> tuple[Any, ...]:
    """The answer of both to the failure of a job, which must be one."""
    simulated, stored = (one.fails(number, what) for one in both)
    assert simulated == stored
    return stored


def test_a_verdict_leads_to_the_same_action_in_both(both: Both) -> None:
    moderate = {"strength": Strength.MODERATE, "domain": Domain.HOST_HARDWARE, "symptom": "memory_uncorrected"}
    assert answers(both, 1, said(8)) == ("exclude", 8, "by itself")
    assert answers(both, 2, said(16, strength=Strength.WEAK)) == ("restart", "by itself")
    assert answers(both, 3, said(24, **moderate)) == ("restart", "by itself")
    # It came back on the same node, in another job.
    assert answers(both, 4, said(24, **moderate)) == ("exclude", 24, "by itself")
    assert answers(both, 5, said(40, shared="switch switch 1")) == ("restart", "by itself")
    assert answers(both, 6, said(domain=Domain.APPLICATION_CODE, symptom="python_exception")) == (
        "restart",
        "by itself",
    )
    assert answers(both, 7, said(domain=Domain.UNATTRIBUTED, strength=None, symptom="")) == ("restart", "by a person")
    assert [sorted(one.settle()) for one in both] == [[8, 24], [8, 24]]
    # It was acted on just now, so it waits.
    assert answers(both, 1, said(9, symptom="pcie_fatal")) == ("held up",)


def test_what_is_shared_takes_no_node_away_in_both(both: Both) -> None:
    assert answers(both, 1, said(64)) == ("exclude", 64, "by itself")
    assert answers(both, 2, said(65)) == ("exclude", 65, "by itself")
    assert answers(both, 3, said(66)) == ("restart", "by itself")
    assert [one.settle() for one in both] == [[], []]
    assert both[0].state() == both[1].state()


def test_exclusions_that_did_not_help_speak_against_more_in_both(both: Both) -> None:
    for number in (1, 2):
        assert answers(both, number, said(number * 100)) == ("exclude", number * 100, "by itself")
    assert [sorted(one.settle()) for one in both] == [[100, 200], [100, 200]]
    for number, marked in ((1, 1), (2, 2)):
        answers(both, number, said(number * 100 + 1))
        assert both[0].state() == both[1].state()
        assert both[1].state()[0] == marked
    slowed, modes = both[1].state()[1], both[1].state()[3]
    assert slowed and modes == {PolicyMode.ADVISORY}
    answers(both, 3, said(300))
