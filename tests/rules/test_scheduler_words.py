"""What the scheduler's record alone can say, and what it cannot: who ended a job, which node was lost, why not."""

from rules.attempt import CollectorReport
from rules.verdict import Verdict
from rules.words import Domain, ReportStatus, Source, State
from tests.rules.builders import a_rule, a_ruleset, an_attempt, reports, seen, verdict_on


def ended(state: str, *lines: str, **fields: str) -> Verdict:
    """The verdict on an attempt of which only the scheduler spoke."""
    attempt = an_attempt(nodes=1, state=state, **fields)
    return verdict_on(seen("scheduler", *lines), attempt=attempt, of=reports("scheduler"))


def test_a_lost_node_is_named_first_and_nothing_is_claimed_of_why() -> None:
    verdict = ended("NODE_FAIL", "2026-11-03T02:30:00Z error: Nodes n1 not responding, setting DOWN")
    assert (verdict.terminal_state, verdict.attributed_domain) == (State.NODE_FAILED, Domain.UNATTRIBUTED)
    assert verdict.headline == "No cause found: node n1 stopped answering and was lost; nothing that was seen says why."
    assert verdict.affected_nodes == []
    assert verdict.discriminating_tests[0].rule == "slurm.node-lost"
    assert any("kernel and system log was not collected" in item for item in verdict.missing)


def test_a_node_that_was_set_down_by_hand_is_not_looked_for() -> None:
    down = "[2026-11-03T02:29:59.000+00:00] update_node: node n1 state set to DOWN"
    verdict = ended("NODE_FAIL", down, "[2026-11-03T02:30:00.000+00:00] Killing JobId=1234 on failed node n1")
    assert verdict.attributed_domain is Domain.MAINTENANCE
    assert "stopped answering" not in verdict.headline


def test_who_cancelled_is_a_fact_and_why_is_the_doubt() -> None:
    root = ended("CANCELLED by 0", "2026-11-03T02:30:00Z 1234|x|p|a|CANCELLED by 0|0:15|n1")
    assert root.headline.startswith("An administrator, or a script that runs as root, cancelled the job; whether a")
    named = ended("CANCELLED by alice", "2026-11-03T02:30:00Z 1234|x|p|a|CANCELLED by alice|0:15|n1")
    assert named.attributed_domain is Domain.USER_ACTION
    assert "Perhaps" not in root.headline and "Probably" not in named.headline


def test_an_output_file_that_cannot_be_written_is_told_from_the_record_alone() -> None:
    record = "2026-11-03T02:30:00Z JobId=1234 JobState=FAILED Reason=JobLaunchFailure ExitCode=0:53"
    verdict = ended("FAILED", record, exit_code="0:53", reason="JobLaunchFailure")
    assert [cause.rule for cause in verdict.causes] == ["slurm.output-unopenable"]
    assert [one.rule for one in verdict.demoted] == ["slurm.job-launch-failure"]


def test_coverage_counts_only_what_such_an_attempt_can_have() -> None:
    slurm = ended("FAILED", "2026-11-03T02:30:00Z JobId=1234 JobState=FAILED ExitCode=1:0")
    assert Source.KUBERNETES not in {report.source for report in slurm.coverage}
    unsaid = verdict_on(seen("kubernetes", "x"), attempt=an_attempt(scheduler=""), of=reports("kubernetes"))
    assert Source.SCHEDULER not in {report.source for report in unsaid.coverage}


def test_what_answered_and_had_nothing_is_no_blind_spot_but_an_empty_log_of_the_job_is() -> None:
    silent = [CollectorReport(source=s, status=ReportStatus.EMPTY) for s in (Source.GPU_EVENTS, Source.APPLOG)]
    verdict = verdict_on([], of=[*reports("syslog", "scheduler"), *silent])
    blind = {spot.source for spot in verdict.blind_spots}
    assert Source.APPLOG in blind
    assert Source.GPU_EVENTS not in blind


def test_a_headline_names_domains_as_people_do() -> None:
    rules = a_ruleset(a_rule("a.b", "BROKEN"), a_rule("c.d", "LOST", domain='"resource_exhaustion"'))
    verdict = verdict_on(seen("syslog", "BROKEN", "LOST", node="n1"), ruleset=rules)
    assert verdict.attributed_domain is Domain.AMBIGUOUS
    assert "(GPU hardware, node n1)" in verdict.headline and "(resource exhaustion, node n1)" in verdict.headline
