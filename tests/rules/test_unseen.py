"""A verdict is strong only where no missing source has rules that could have overturned it."""

import pytest

from rules.attempt import CollectorReport
from rules.ruleset import Ruleset, load_files
from rules.words import ReportStatus, Strength
from tests.rules.builders import a_rule, an_attempt, at, reports, seen, verdict_on
from tests.rules.made_up import DEFAULTS

METRICS = '["gpu_events", "node_metrics"]'


def rules(*more: tuple[str, bytes], site: str = "") -> Ruleset:
    """A key error, a dead GPU and a switch that can be a cause, with rules of further sources."""
    own = (
        a_rule(
            "app.key", "KeyError: ", sources='["applog"]', domain='"application_code"', groups='["python_exception"]'
        ),
        a_rule("gpu.dead", "GPU is dead"),
        a_rule("net.down", "port is down", sources='["network_metrics"]', role='"either"', domain='"network_fabric"'),
    )
    return load_files(dict((*own, *more)) | {"defaults.toml": DEFAULTS, "site.toml": site.encode()})


def counted(**changes: str) -> tuple[str, bytes]:
    """A count of memory errors, which explains any Python exception on its node."""
    tail = '[[explains]]\nsymptoms = ["@python_exception"]\non = "node"\n'
    return a_rule("gpu.counted", "count rose", **{"sources": METRICS, "role": '"either"', "tail": tail} | changes)


KEY = seen("applog", f"{at(10)} [rank1]: KeyError: 'x'", node="n1")
DEAD = seen("syslog", f"{at(10)} n2 kernel: GPU is dead", node="n2")


def judged(lines, ruleset: Ruleset, *extra: str, status: ReportStatus = ReportStatus.OK, attempt=None):
    """Strength and reasons of the one cause; `extra` sources have that status beside the three of every attempt."""
    given = reports() + [CollectorReport(source=name, status=status) for name in extra]
    verdict = verdict_on(lines, ruleset=ruleset, of=given, attempt=attempt)
    (cause,) = verdict.causes
    return verdict.strength, cause.why


def test_a_missing_source_limits_what_its_rules_could_overturn_and_nothing_else() -> None:
    strength, why = judged(KEY, rules(counted()))
    assert strength is Strength.MODERATE
    assert why == "the GPU event record was not collected and could overturn this: gpu.counted"
    assert judged(DEAD, rules(counted())) == (Strength.STRONG, "")


@pytest.mark.parametrize("covered", ["gpu_events", "node_metrics"])
def test_a_rule_that_one_of_its_sources_was_read_for_is_not_blind(covered: str) -> None:
    assert judged(KEY, rules(counted()), covered) == (Strength.STRONG, "")
    assert judged(KEY, rules(counted()), covered, status=ReportStatus.EMPTY) == (Strength.STRONG, "")
    assert judged(KEY, rules(counted()), covered, status=ReportStatus.ERROR)[0] is Strength.MODERATE


def test_what_cannot_exist_is_not_missing() -> None:
    of_pods = counted(sources='["kubernetes"]')
    assert judged(KEY, rules(of_pods), attempt=an_attempt(scheduler="slurm"))[0] is Strength.STRONG
    absent = 'absent = ["gpu_events", "node_metrics"]'
    assert judged(KEY, rules(counted(), site=absent)) == (Strength.STRONG, "")
    # It gave something all the same: then it is there.
    assert judged(KEY, rules(counted(), site=absent), "gpu_events", status=ReportStatus.ERROR)[0] is Strength.MODERATE


@pytest.mark.parametrize("how", ["refutes", "ends"])
def test_what_could_contradict_a_finding_limits_it(how: str) -> None:
    state = a_rule(
        "gpu.fine", "all fine", sources='["gpu_events"]', role='"state"', tail=f'[[{how}]]\nsymptoms = ["gpu.dead"]\n'
    )
    assert judged(DEAD, rules(state))[0] is Strength.MODERATE
    assert judged(DEAD, rules(state), "gpu_events")[0] is Strength.STRONG


def test_a_second_cause_of_another_domain_would_overturn_a_verdict() -> None:
    leak = a_rule("site.leak", "it leaks", sources='["node_metrics"]', domain='"facility"')
    assert judged(DEAD, rules(leak))[0] is Strength.MODERATE
    same = a_rule("gpu.burnt", "it burns", sources='["node_metrics"]')
    assert judged(DEAD, rules(same))[0] is Strength.STRONG


def test_what_needs_a_peer_to_be_named_overturns_only_a_finding_that_names_one() -> None:
    tail = '[[explains]]\nsymptoms = ["gpu.dead"]\non = "peer"\n'
    assert judged(DEAD, rules(counted(tail=tail)))[0] is Strength.STRONG


@pytest.mark.parametrize("status", [ReportStatus.ERROR, ReportStatus.PARTIAL])
def test_a_source_that_failed_limits_as_one_that_was_never_asked(status: ReportStatus) -> None:
    strength, why = judged(KEY, rules(counted(sources='["gpu_events"]')), "gpu_events", status=status)
    assert strength is Strength.MODERATE and "could overturn this" in why
    assert judged(DEAD, rules(counted()), "gpu_events", status=status) == (Strength.STRONG, "")


def test_direct_evidence_of_hardware_is_strong_without_metrics() -> None:
    line = f"{at(10)} n2 kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus."
    assert verdict_on(seen("syslog", line, node="n2")).strength is Strength.STRONG
    of_a_program = verdict_on(KEY)
    assert of_a_program.strength is Strength.MODERATE
    assert "could overturn this" in of_a_program.headline
    assert {spot.source for spot in of_a_program.blind_spots if spot.could_explain} == {"gpu_events", "node_metrics"}
