"""Recording evidence: idempotent, in any order, bounded, and honest about what was cut."""

import random

import pytest
from django.db import IntegrityError, connection, transaction

from rules.attempt import CollectorReport, InputError
from rules.words import Domain, ReportStatus, Source
from tests.verdicts.builders import a_report, a_user, an_attempt, an_observation
from verdicts import conclude, record
from verdicts.choices import Label, Mode
from verdicts.evidence import effective_reports, load_evidence
from verdicts.models import Attempt, Batch, Cluster, Node, Observation, Review, Verdict

pytestmark = pytest.mark.django_db


def test_the_same_attempt_twice_is_one_attempt() -> None:
    first, created = record.record_attempt(an_attempt())
    again, created_again = record.record_attempt(an_attempt())
    assert (created, created_again) == (True, False)
    assert first.pk == again.pk
    assert again.generation == 0
    assert sorted(again.nodes.values_list("name", flat=True)) == ["gpu-01", "gpu-02"]


def test_attempts_without_a_submit_time_have_a_key_too() -> None:
    first, _ = record.record_attempt(an_attempt(submit_time=None))
    again, created = record.record_attempt(an_attempt(submit_time=None))
    assert (first.pk, created) == (again.pk, False)
    cluster = Cluster.objects.get(name="alpha")
    with pytest.raises(IntegrityError), transaction.atomic():
        Attempt.objects.create(cluster=cluster, scheduler="slurm", job_id="4711", restart_count=0, body={})


def test_a_reused_job_id_is_a_new_attempt() -> None:
    first, _ = record.record_attempt(an_attempt())
    later, created = record.record_attempt(an_attempt(submit_time="2027-02-01T00:00:00+00:00"))
    requeued, _ = record.record_attempt(an_attempt(restart_count=1))
    other, _ = record.record_attempt(an_attempt(cluster="beta"))
    assert created
    assert len({first.pk, later.pk, requeued.pk, other.pk}) == 4


def test_one_moment_in_two_zones_is_one_key() -> None:
    first, _ = record.record_attempt(an_attempt(submit_time="2026-11-03T01:00:00Z"))
    again, created = record.record_attempt(an_attempt(submit_time="2026-11-03T02:00:00+01:00"))
    local, local_created = record.record_attempt(
        an_attempt(submit_time="2026-11-03T02:00:00", utc_offset="+01:00", start="2026-11-03T02:10:00")
    )
    assert (again.pk, created) == (first.pk, False)
    assert (local.pk, local_created) == (first.pk, False)


def test_what_becomes_known_later_is_added_and_erases_nothing() -> None:
    record.record_attempt(an_attempt(state="RUNNING", end=None))
    ended, created = record.record_attempt(
        an_attempt(state="FAILED", exit_code="1:0", workload="", account="", user="")
    )
    assert not created
    assert (ended.state, ended.workload.name, ended.user) == ("FAILED", "llm-70b", "ada")
    assert ended.body["exit_code"] == "1:0"
    assert ended.generation == 1
    assert ended.ended_at is not None


def test_an_attempt_with_a_cluster_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(InputError, match="cluster: longer"):
        record.record_attempt(an_attempt(cluster="x" * 300))


def test_a_repeated_batch_changes_nothing() -> None:
    attempt, _ = record.record_attempt(an_attempt())
    batch = [an_observation(number) for number in range(5)]
    first = record.add_observations(attempt.pk, batch, key="k")
    again = record.add_observations(attempt.pk, list(reversed(batch)), key="k")
    keyless = record.add_observations(attempt.pk, batch)
    attempt.refresh_from_db()
    assert (first.stored, first.repeated, first.replayed) == (5, 0, False)
    assert (again.batch, again.stored, again.replayed) == (first.batch, 5, True)
    assert (keyless.stored, keyless.repeated, keyless.replayed) == (0, 5, False)
    assert attempt.observations.count() == 5
    assert attempt.generation == 1


def test_a_batch_key_with_other_content_is_refused() -> None:
    attempt, _ = record.record_attempt(an_attempt())
    record.add_observations(attempt.pk, [an_observation(1)], key="k")
    with pytest.raises(record.BatchConflict):
        record.add_observations(attempt.pk, [an_observation(2)], key="k")
    assert Observation.objects.count() == 1


def test_when_a_record_was_read_does_not_make_it_another() -> None:
    attempt, _ = record.record_attempt(an_attempt())
    record.add_observations(attempt.pk, [an_observation(1, observed_timestamp="2026-11-03T03:00:00Z")])
    again = record.add_observations(attempt.pk, [an_observation(1, observed_timestamp="2026-11-03T04:00:00Z")])
    assert again.replayed
    assert attempt.observations.count() == 1


def test_any_order_and_batching_loads_the_same_evidence() -> None:
    observations = [an_observation(number) for number in range(40)]
    loaded = []
    for seed in range(5):
        attempt, _ = record.record_attempt(an_attempt(str(seed)))
        shuffled = random.Random(seed)
        rest = shuffled.sample(observations, k=40) + shuffled.sample(observations, k=10)
        while rest:
            size = shuffled.randint(1, 15)
            record.add_observations(attempt.pk, rest[:size])
            rest = rest[size:]
        loaded.append(load_evidence(attempt.pk).observations)
    assert all(each == loaded[0] for each in loaded)


def test_nul_and_lone_surrogates_are_kept_visibly() -> None:
    attempt, _ = record.record_attempt(an_attempt(reason="a\x00b", workload="w\x00"))
    record.add_observations(attempt.pk, [an_observation(1, body="x\x00y\udc80z", attributes={"k\x00": "v\x00"})])
    stored = attempt.observations.get()
    assert stored.body == "x\\x00y\\udc80z"
    assert stored.attributes == {"k\\x00": "v\\x00"}
    assert attempt.body["reason"] == "a\\x00b"
    again = record.add_observations(
        attempt.pk, [an_observation(1, body="x\x00y\udc80z", attributes={"k\x00": "v\x00"})]
    )
    assert again.replayed


def _report(attempt: Attempt, source: Source = Source.APPLOG) -> CollectorReport:
    [report] = [report for report in effective_reports(attempt) if report.source == source]
    return report


def test_the_schedulers_word_in_the_attempt_is_its_report() -> None:
    attempt, _ = record.record_attempt(an_attempt())
    silent, _ = record.record_attempt(an_attempt("silent", state=""))
    assert _report(attempt, Source.SCHEDULER).files == ["attempt.json"]
    assert effective_reports(silent) == []


def test_reports_of_several_files_are_joined_when_they_come_together() -> None:
    attempt, _ = record.record_attempt(an_attempt())
    told = [a_report(kept=1, files=["a"]), a_report(kept=2, files=["b"], status=ReportStatus.ERROR, reason="b: gone")]
    record.record_reports(attempt.pk, told)
    record.add_observations(attempt.pk, [an_observation(1), an_observation(2, count=2)])
    report = _report(attempt)
    assert (report.status, report.files, report.kept, report.delivered) == (ReportStatus.PARTIAL, ["a", "b"], 3, 3)
    assert record.record_reports(attempt.pk, list(reversed(told))) == 0


def test_the_time_that_reading_took_is_no_news() -> None:
    attempt, _ = record.record_attempt(an_attempt())
    assert record.record_reports(attempt.pk, [a_report(seconds=0.1)]) == 1
    assert record.record_reports(attempt.pk, [a_report(seconds=0.2)]) == 0


def test_names_made_of_control_characters_do_not_break_the_store() -> None:
    attempt, _ = record.record_attempt(an_attempt())
    record.add_observations(
        attempt.pk, [an_observation(1, node="\x00" * 255, ref="\x00" * 1024, timestamp="\x00" * 64)]
    )
    assert len(load_evidence(attempt.pk).observations) == 1
    with pytest.raises(InputError, match="reason"):
        record.record_attempt(an_attempt(reason="\x00" * 4096))
    with pytest.raises(InputError, match="reason"):
        record.record_reports(attempt.pk, [a_report(reason="\x00" * 4096)])


def test_a_full_source_refuses_more_says_so_and_leaves_room_to_others(settings: pytest.FixtureRequest) -> None:
    settings.INQUEST_MAX_OBSERVATIONS = 3
    attempt, _ = record.record_attempt(an_attempt())
    record.record_reports(attempt.pk, [a_report(kept=5, delivered=5)])
    delivery = record.add_observations(attempt.pk, [an_observation(number) for number in range(5)])
    other = record.add_observations(attempt.pk, [an_observation(1, source=Source.SYSLOG, ref="syslog/a:1")])
    attempt.refresh_from_db()
    reports = {report.source: report for report in effective_reports(attempt)}
    assert (delivery.stored, delivery.cut) == (3, 2)
    assert (other.stored, other.cut) == (1, 0)
    assert attempt.cut == {"applog": 2}
    assert reports[Source.APPLOG].status is ReportStatus.PARTIAL
    assert (reports[Source.APPLOG].kept, reports[Source.APPLOG].delivered) == (5, 3)
    assert "limit" in reports[Source.APPLOG].reason


def test_observations_without_a_report_are_reported_as_partial() -> None:
    attempt, _ = record.record_attempt(an_attempt())
    record.add_observations(attempt.pk, [an_observation(1)])
    report = _report(attempt)
    assert (report.status, report.delivered, report.reason) == (
        ReportStatus.PARTIAL,
        1,
        "observations came without a collector report",
    )


def test_a_report_of_more_than_arrived_is_partial() -> None:
    attempt, _ = record.record_attempt(an_attempt())
    record.record_reports(attempt.pk, [a_report(kept=7, delivered=7)])
    record.add_observations(attempt.pk, [an_observation(1)])
    report = _report(attempt)
    assert (report.status, report.kept, report.delivered) == (ReportStatus.PARTIAL, 7, 1)
    record.add_observations(attempt.pk, [an_observation(number) for number in range(7)])
    report = _report(attempt)
    assert (report.status, report.delivered) == (ReportStatus.OK, 7)


def test_a_repeated_report_changes_nothing_and_a_new_one_replaces() -> None:
    attempt, _ = record.record_attempt(an_attempt())
    assert record.record_reports(attempt.pk, [a_report(), a_report(Source.SYSLOG)]) == 2
    assert record.record_reports(attempt.pk, [a_report()]) == 0
    assert record.record_reports(attempt.pk, [a_report(status=ReportStatus.ERROR, reason="permission denied")]) == 1
    attempt.refresh_from_db()
    assert attempt.reports.count() == 2
    assert attempt.generation == 2


def test_reports_inside_an_attempt_are_recorded() -> None:
    attempt, _ = record.record_attempt(an_attempt(collectors=[a_report(kept=0, delivered=0)]))
    assert attempt.reports.count() == 1
    assert "collectors" not in attempt.body


def _a_verdict(engine: object) -> Verdict:
    attempt, _ = record.record_attempt(an_attempt())
    request = conclude.request_attribution(attempt.pk, Mode.SLOW)
    verdict = conclude.attribute_now(request.pk)
    assert verdict is not None
    return verdict


def test_a_review_of_the_same_person_replaces_the_earlier_one(engine: object) -> None:
    verdict, reviewer = _a_verdict(engine), a_user("rita", "reviewer")
    first = record.record_review(verdict.pk, by=reviewer, label=Label.RIGHT, note="seen it")
    same = record.record_review(verdict.pk, by=reviewer, label=Label.RIGHT, note="seen it")
    second = record.record_review(
        verdict.pk, by=reviewer, label=Label.WRONG, actual_domain=Domain.STORAGE, actual_nodes=["b", "a"]
    )
    first.refresh_from_db()
    assert same.pk == first.pk
    assert first.replaced_at is not None
    assert second.replaced_at is None
    assert second.actual_nodes == ["a", "b"]
    assert Review.objects.filter(replaced_at__isnull=True).count() == 1


def test_wrong_says_what_it_really_was_and_right_does_not(engine: object) -> None:
    verdict, reviewer = _a_verdict(engine), a_user("rita", "reviewer")
    with pytest.raises(InputError, match="actual_domain"):
        record.record_review(verdict.pk, by=reviewer, label=Label.WRONG)
    with pytest.raises(InputError, match="actual_domain"):
        record.record_review(verdict.pk, by=reviewer, label=Label.RIGHT, actual_domain=Domain.STORAGE)


def test_an_operator_may_not_review(engine: object) -> None:
    verdict = _a_verdict(engine)
    with pytest.raises(record.NotPermitted):
        record.record_review(verdict.pk, by=a_user("otto", "operator"), label=Label.RIGHT)


def test_the_database_itself_keeps_what_was_written_once(engine: object) -> None:
    verdict = _a_verdict(engine)
    review = record.record_review(verdict.pk, by=a_user("rita", "reviewer"), label=Label.RIGHT)
    refused = [
        lambda: Verdict.objects.filter(pk=verdict.pk).update(headline="other"),
        lambda: Verdict.objects.filter(pk=verdict.pk).update(body={}),
        lambda: Verdict.objects.filter(pk=verdict.pk).delete(),
        lambda: verdict.findings.update(status="cause"),
        lambda: verdict.findings.all().delete(),
        lambda: Review.objects.filter(pk=review.pk).update(label="undecidable"),
        lambda: Review.objects.filter(pk=review.pk).delete(),
        lambda: Verdict.objects.filter(pk=verdict.pk).update(is_current=False),
    ]
    for change in refused:
        with pytest.raises(IntegrityError), transaction.atomic():
            change()


def test_an_attempt_can_be_erased_by_a_session_that_says_so(engine: object) -> None:
    verdict = _a_verdict(engine)
    record.record_review(verdict.pk, by=a_user("rita", "reviewer"), label=Label.RIGHT)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL inquest.erase = 'on'")
        verdict.attempt.delete()
    assert not Verdict.objects.exists()
    assert not Batch.objects.exists()
    assert Node.objects.exists()
