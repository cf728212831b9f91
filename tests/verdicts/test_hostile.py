"""Evidence and callers that mean no good: one attempt's poison stays its own, and says what it is."""

from typing import Any

import pytest
from django.db import DataError

from rules.observation import Observation as GivenObservation
from rules.words import Domain, ReportStatus, Source
from tests.verdicts.builders import a_report, a_user, an_attempt, an_observation
from verdicts import conclude, limits, record
from verdicts.choices import Mode, RequestState
from verdicts.models import AttributionRequest, CollectorReport, Finding, Observation, Verdict

pytestmark = pytest.mark.django_db

LONG = "n" * 300
XID = "kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus."


def attributed(*observations: GivenObservation, **more: Any) -> Verdict:
    """The verdict on an attempt with this evidence, by the real engine."""
    attempt, _ = record.record_attempt(an_attempt(**more))
    record.add_observations(attempt.pk, observations)
    verdict = conclude.attribute_now(conclude.request_attribution(attempt.pk, Mode.SLOW).pk)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("source", "body"),
    [
        (Source.SYSLOG, f"Nov  3 02:10:58 {LONG} {XID}"),
        (Source.SCHEDULER, f"error: Nodes {LONG} not responding, setting DOWN"),
        (
            Source.APPLOG,
            f"{LONG}:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.1<1> with status=12 opcode=0 len=0",
        ),
    ],
)
def test_names_longer_than_the_columns_are_cut_there_and_whole_in_the_body(
    source: Source, body: str, sent: list[str]
) -> None:
    verdict = attributed(an_observation(source=source, body=body, node="", rank=None), nodes=[])
    assert LONG in verdict.body_json
    assert all(len(node) <= 255 for node in Finding.objects.values_list("node", flat=True))
    assert all(len(name) <= 255 for name in verdict.nodes.values_list("name", flat=True))


@pytest.mark.parametrize("error", [DataError("value too long for type"), MemoryError("no more"), ValueError("\x00")])
def test_an_attempt_that_cannot_be_attributed_ends_as_failed_with_the_reason(
    error: Exception, engine: list[Any], sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*args: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(conclude, "write_verdict", breaks)
    attempt, _ = record.record_attempt(an_attempt())
    request = conclude.request_attribution(attempt.pk, Mode.SLOW)
    for _ in range(limits.MAX_TRIES):
        AttributionRequest.objects.filter(pk=request.pk).update(due_at="2026-01-01T00:00:00Z")
        with pytest.raises(type(error)):
            conclude.attribute_now(request.pk)
    request.refresh_from_db()
    assert request.state == RequestState.FAILED
    assert type(error).__name__ in request.error
    assert conclude.attribute_now(request.pk) is None
    assert conclude.sweep() == 0


def test_secrets_are_taken_out_before_anything_is_stored(sent: list[str]) -> None:
    secret = "a1B2c3D4e5" * 4
    verdict = attributed(
        an_observation(
            source=Source.SYSLOG,
            body=f"{XID} WANDB_API_KEY={secret}",
            ref="https://ada:s3cretpass@host/log:1",
            attributes={"url": "https://ada:s3cretpass@host/"},
        ),
        image="docker://ada:s3cretpass@registry/x",
    )
    record.record_reports(verdict.attempt_id, [a_report(reason="https://ada:s3cretpass@host/ is down")])
    assert verdict.domain == Domain.GPU_HARDWARE
    stored = [*Observation.objects.values_list("body", "ref", "attributes"), verdict.attempt.body, verdict.body_json]
    stored += CollectorReport.objects.values_list("body", flat=True)
    assert not any(word in str(stored) for word in (secret, "s3cretpass"))
    assert "[redacted: secret " in verdict.body_json


def test_reports_of_thousands_of_files_are_read_back(engine: list[Any], sent: list[str]) -> None:
    attempt, _ = record.record_attempt(an_attempt())
    reports = [
        a_report(status=ReportStatus.ERROR, reason=f"{number:04}.log: " + "x" * 4000, read=10**15, kept=10**15)
        for number in range(3)
    ]
    record.record_reports(attempt.pk, reports)
    assert conclude.attribute_now(conclude.request_attribution(attempt.pk, Mode.SLOW).pk) is not None


def test_a_batch_key_of_control_characters_is_a_key(sent: list[str]) -> None:
    attempt, _ = record.record_attempt(an_attempt())
    first, again = (record.add_observations(attempt.pk, [an_observation()], key="\0" * 255) for _ in range(2))
    assert (first.batch, first.replayed, again.batch, again.replayed) == (first.batch, False, first.batch, True)


@pytest.mark.parametrize("until", ["0001-01-01", "9999-12-31", "1969-12-31T23:59:59"])
def test_a_time_from_which_nothing_can_be_reckoned_is_refused(client_of: Any, until: str) -> None:
    assert client_of("viewer").get("/api/v1/rules/drift", {"until": until}).status_code == 400


@pytest.mark.parametrize(
    "address",
    [
        "/verdicts/?before=9999-12-31T23:59:59-14:00",
        "/verdicts/?after=0001-01-01T00:00:00%2B14:00",
        "/verdicts/?text=%00",
        "/rules/?text=%00",
        "/rules/unrecognised/?text=%00",
        "/rules/unrecognised/?after=0001-01-01",
    ],
)
def test_a_filter_that_cannot_be_understood_is_said_on_the_page(client: Any, address: str) -> None:
    client.force_login(a_user("vera", "viewer"))
    assert client.get(address).status_code == 200


def test_evidence_from_the_ends_of_the_calendar_has_a_page(client: Any, sent: list[str]) -> None:
    lines = [
        an_observation(number, body=f"{stamp} RuntimeError: CUDA error: out of memory", timestamp=None)
        for number, stamp in enumerate(["0001-01-01T00:00:00", "9999-12-31T23:59:59", "9999-12-31T23:59:59Z"])
    ]
    verdict = attributed(*lines)
    client.force_login(a_user("vera", "viewer"))
    assert client.get(f"/verdicts/{verdict.pk}/").status_code == 200
