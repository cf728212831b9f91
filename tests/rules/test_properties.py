"""What must hold for every incident: order, removal, clocks, noise, renaming, independence."""

import datetime as dt
import re

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rules.attempt import Attempt, checked
from rules.observation import Observation
from rules.verdict import Verdict, canonical_json
from rules.words import STRENGTHS, Domain, Source, Strength
from tests.rules.builders import CORE, a_rule, a_ruleset, an_attempt, at, reports, seen, verdict_on
from tests.rules.made_up import DOMAIN, NODES, consequences, fault, incidents, made_up

OPEN = {Domain.AMBIGUOUS, Domain.UNATTRIBUTED}
#: Twice in each run of CI, on two Pythons, with other examples every time.
many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def judged(observations: list[Observation], **kwargs: object) -> Verdict:
    return verdict_on(observations, ruleset=made_up(), **kwargs)  # type: ignore[arg-type]


def rank(strength: Strength | None) -> int:
    return STRENGTHS.index(strength) if strength else -1


def names(verdict: Verdict) -> set[str]:
    return {node.name for node in verdict.affected_nodes}


@many
@given(incidents(), st.randoms(use_true_random=False), st.data())
def test_the_bytes_do_not_depend_on_order_or_repetition(observations, random, data) -> None:
    once = canonical_json(judged(observations))
    again = observations + data.draw(st.lists(st.sampled_from(observations)))
    random.shuffle(again)
    assert canonical_json(judged(again)) == once


@many
@given(incidents(), st.sampled_from(CORE))
def test_taking_a_source_away_never_raises_strength(observations: list[Observation], gone: Source) -> None:
    full = judged(observations)
    less = judged([o for o in observations if o.source != gone], of=reports(*(s for s in CORE if s != gone)))
    if full.attributed_domain not in OPEN:
        assert rank(less.strength) <= rank(full.strength)
    if names(less) - names(full):
        assert rank(less.strength) < STRENGTHS.index(Strength.STRONG)


@many
@given(incidents(), st.sampled_from(NODES), st.integers(-900, 900))
def test_a_clock_off_within_its_bound_changes_nothing(observations: list[Observation], node: str, millis: int) -> None:
    before, after = judged(observations), judged([shifted(o, node, millis) for o in observations])
    assert (before.attributed_domain, before.strength, names(before)) == (
        after.attributed_domain,
        after.strength,
        names(after),
    )


@many
@given(incidents(), st.sampled_from(NODES), st.integers(-3600, 3600))
def test_a_clock_off_beyond_its_bound_only_adds_caution(
    observations: list[Observation], node: str, seconds: int
) -> None:
    before, after = judged(observations), judged([shifted(o, node, seconds * 1000) for o in observations])
    same = after.attributed_domain == before.attributed_domain and names(after) == names(before)
    assert (same and rank(after.strength) <= rank(before.strength)) or after.strength is not Strength.STRONG


@many
@given(incidents(), st.lists(st.text(alphabet="abc xyz.:", min_size=1, max_size=60), max_size=20))
def test_unrelated_lines_change_nothing(observations: list[Observation], noise: list[str]) -> None:
    extra = [o for n, text in enumerate(noise) for o in seen("applog", text, start=9000 + n)]
    extra += seen("applog", "NCCL INFO error is harmless", start=9900)
    assert canonical_json(judged(observations + extra)) == canonical_json(judged(observations))


@many
@given(st.permutations(sorted(DOMAIN)), st.permutations(NODES), st.integers(5, 20), st.integers(-3, 3))
def test_two_independent_causes_are_never_one_confident_cause(kinds, nodes, minute, apart) -> None:
    observations = fault(kinds[0], nodes[0], minute) + fault(kinds[1], nodes[1], minute + apart)
    verdict = judged(observations + consequences(minute + 9, NODES, nodes[0]))
    if "limit" in kinds[:2] and verdict.demoted:
        return  # what came before a time limit may explain that the job ran into it
    assert verdict.attributed_domain is Domain.AMBIGUOUS
    assert verdict.strength is None
    assert {f.domain for f in verdict.candidates} == {DOMAIN[k] for k in kinds[:2]}


@many
@given(incidents())
def test_every_symptom_seen_is_on_the_verdict(observations: list[Observation]) -> None:
    verdict = judged(observations)
    listed = [*verdict.causes, *verdict.candidates, *verdict.demoted, *verdict.interesting]
    assert sum(f.count for f in listed) == len(observations)
    known = {f.id for f in listed}
    assert all(f.explained_by and f.explained_by.finding in known for f in verdict.demoted)


@many
@given(incidents(), st.permutations(["alpha", "beta-7", "gpu20-15", "x1"]))
def test_renaming_nodes_renames_the_verdict_and_nothing_else(observations: list[Observation], new: list[str]) -> None:
    table = dict(zip(NODES, new, strict=True))

    def renamed(text: str) -> str:
        return re.sub(r"\bn[1-4]\b", lambda m: table[m[0]], text)

    moved = [
        msgspec.convert(msgspec.json.decode(renamed(msgspec.json.encode(o).decode())), Observation)
        for o in observations
    ]
    before, after = judged(observations), judged(moved, attempt=_named(new))
    assert (after.attributed_domain, after.strength, after.terminal_state) == (
        before.attributed_domain, before.strength, before.terminal_state,
    )  # fmt: skip
    assert names(after) == {table[name] for name in names(before)}
    for part in ("causes", "candidates", "demoted", "interesting"):
        assert sorted((f.rule, f.count) for f in getattr(after, part)) == sorted(
            (f.rule, f.count) for f in getattr(before, part)
        )


def _named(nodes: list[str]) -> Attempt:
    return checked(msgspec.structs.replace(an_attempt(), nodes=nodes))


def shifted(observation: Observation, node: str, millis: int) -> Observation:
    """The observation as it would read had its node's clock been off."""
    if observation.node != node:
        return observation
    stamp = observation.body.split(" ")[0]
    moved = (dt.datetime.fromisoformat(stamp) + dt.timedelta(milliseconds=millis)).isoformat(timespec="microseconds")
    return msgspec.structs.replace(observation, body=observation.body.replace(stamp, moved, 1))


@pytest.mark.parametrize("kind", sorted(DOMAIN))
def test_one_cause_with_all_sources_is_found_and_strong(kind: str) -> None:
    verdict = judged(fault(kind, "n2", 11) + consequences(15, NODES, "n2"))
    assert (verdict.attributed_domain, verdict.strength) == (DOMAIN[kind], Strength.STRONG)
    assert names(verdict) == ({"n2"} if kind == "gpu" else set())


def test_a_later_fault_does_not_explain_an_earlier_error() -> None:
    verdict = judged(consequences(11, NODES, "n2") + fault("gpu", "n2", 20))
    assert not verdict.demoted
    assert verdict.strength is Strength.MODERATE
    assert "an error of the workload came before it" in verdict.causes[0].why


def test_a_fault_on_a_node_of_another_job_is_kept_and_not_blamed() -> None:
    verdict = judged(fault("gpu", "n9", 11) + consequences(15, NODES, "n2"))
    assert verdict.attributed_domain is Domain.UNATTRIBUTED
    assert [f.why for f in verdict.interesting if f.rule == "gpu.dead"] == ["on a node that is not in this attempt"]


def test_a_success_blames_nothing_whatever_was_seen() -> None:
    verdict = judged(fault("gpu", "n2", 11), attempt=msgspec.structs.replace(an_attempt(), state="COMPLETED"))
    assert verdict.attributed_domain is Domain.NO_FAILURE
    assert [f.rule for f in verdict.interesting] == ["gpu.dead"]


def test_the_same_fault_on_all_nodes_of_one_switch_is_the_switch() -> None:
    topology = {"switch": {"leaf-1": ["n1", "n2"], "leaf-2": ["n3", "n4"]}}
    attempt = msgspec.structs.replace(an_attempt(), topology=topology)
    verdict = judged(fault("gpu", "n1", 11) + fault("gpu", "n2", 12), attempt=attempt)
    assert verdict.shared_element and verdict.shared_element.name == "leaf-1"
    assert (verdict.attributed_domain, verdict.affected_nodes) == (Domain.NETWORK_FABRIC, [])


def test_the_same_fault_on_all_nodes_with_one_driver_is_the_driver() -> None:
    attempt = msgspec.structs.replace(an_attempt(), topology={"driver": {"550.54.15": ["n1", "n2"]}})
    verdict = judged(fault("gpu", "n1", 11) + fault("gpu", "n2", 12), attempt=attempt)
    assert verdict.shared_element and verdict.shared_element.kind == "driver"
    assert (verdict.attributed_domain, verdict.affected_nodes) == (Domain.HOST_SOFTWARE, [])


def test_nothing_at_all_is_unattributed_and_says_what_is_missing() -> None:
    verdict = judged([], of=[])
    assert verdict.attributed_domain is Domain.UNATTRIBUTED
    assert len(verdict.missing) == 3


def test_an_unrecognised_error_near_the_end_lowers_strength() -> None:
    odd = msgspec.structs.replace(
        seen("applog", f"{at(20)} frobnicator: fatal error 17")[0], attributes={"from_end": 3}
    )
    verdict = judged([*fault("gpu", "n2", 11), *consequences(15, NODES, "n2"), odd])
    assert verdict.strength is Strength.MODERATE
    assert [u.template for u in verdict.unrecognised] == ["frobnicator: fatal error <num>"]


def test_a_silence_that_was_over_long_before_anything_failed_is_not_blamed() -> None:
    lines = (
        f"{at(1)} n2 kernel: nfs: server store7 not responding, still trying",
        f"{at(2)} n2 kernel: nfs: server store7 OK",
    )
    over = verdict_on([*seen("syslog", *lines, node="n2"), *consequences_of_a_rank(40)])
    assert [f.why for f in over.interesting if f.symptom == "nfs_not_responding"] == [
        "it was over before anything failed: An NFS server answers again"
    ]
    lasting = verdict_on([*seen("syslog", lines[0], node="n2"), *consequences_of_a_rank(40)])
    assert lasting.attributed_domain is Domain.STORAGE


def consequences_of_a_rank(minute: int) -> list[Observation]:
    return seen(
        "applog",
        f"{at(minute)} [rank3]: [E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600499 milliseconds before timing out.",
        node="n1",
    )


def steps(*minutes: int) -> list[Observation]:
    lines = [f"{at(m)} iteration {m * 10}/ 1000 | lm loss: 2.0E+00 | grad norm: 1.0 |" for m in minutes]
    return seen("applog", *lines, node="n1", start=5000)


def test_a_fault_after_which_the_workload_went_on_is_kept_and_not_blamed() -> None:
    oom = seen(
        "applog",
        f"{at(10)} [rank0]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        node="n1",
    )
    running = msgspec.structs.replace(an_attempt(), state="", end=None)
    went_on = verdict_on([*oom, *steps(5, 9, 11, 20)], attempt=running)
    assert went_on.attributed_domain is Domain.NO_FAILURE
    assert [f.why for f in went_on.interesting] == ["the workload went on after it"]
    stopped = verdict_on([*oom, *steps(5, 9)], attempt=running)
    assert stopped.attributed_domain is Domain.RESOURCE_EXHAUSTION


@pytest.mark.parametrize(("order", "domain"), [((0, 1), Domain.NO_FAILURE), ((1, 0), Domain.APPLICATION_CODE)])
def test_a_success_counts_only_after_all_that_went_wrong(order: tuple[int, int], domain: Domain) -> None:
    lines = ("KeyError: 'captions'", "[exiting program after 1190.03 minutes] datetime: 2021-08-08 01:00:51")
    attempt = msgspec.structs.replace(an_attempt(), state="", end=None)
    assert verdict_on(seen("applog", *(lines[i] for i in order)), attempt=attempt).attributed_domain is domain


def test_a_confirmation_lifts_the_doubt_of_what_was_not_collected() -> None:
    explains = '[[explains]]\nsymptoms = ["net.break"]'
    rules = a_ruleset(
        a_rule("gpu.dead", "GPU is dead", tail=explains),
        a_rule("net.break", "link broke", role='"either"', domain='"network_fabric"', sources='["applog"]'),
        a_rule(
            "net.seen",
            "switch saw it",
            role='"confirmation"',
            sources='["applog"]',
            tail='[[confirms]]\nsymptoms = ["net.break"]',
        ),
    )
    broke, saw = f"{at(11)} link broke", f"{at(12)} switch saw it"
    of = reports("applog", "scheduler")
    assert verdict_on(seen("applog", broke), of=of, ruleset=rules).strength is Strength.WEAK
    assert verdict_on(seen("applog", broke, saw), of=of, ruleset=rules).strength is Strength.MODERATE
