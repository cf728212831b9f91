"""How often verdicts are wrong: counted from reviews, with intervals, and with what the figures do not say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings
from rest_framework.test import APIClient

from rules.words import Domain
from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import a_verdict, an_attempt, body
from verdicts.choices import Label
from verdicts.fleet.find import Span
from verdicts.models import Verdict
from verdicts.quality import reckon as quality
from verdicts.record import record_review

pytestmark = pytest.mark.django_db

GPU, NET, HOST = Domain.GPU_HARDWARE, Domain.NETWORK_FABRIC, Domain.HOST_HARDWARE


def span() -> Span:
    now = timezone.now()
    return Span(now - timedelta(days=30), now + timedelta(minutes=1))


_jobs = iter(range(10**6))


def a_case(said: str, strength: str = "strong", cluster: str = "alpha") -> Verdict:
    end = (timezone.now() - timedelta(hours=1)).isoformat()
    attempt = an_attempt(f"q{next(_jobs)}", end=end, cluster=cluster)
    return a_verdict(attempt, body(attributed_domain=said, strength=strength or None))


def reviewed(verdict: Verdict, by: Any, *, actual: Domain | None = None, label: Label | None = None) -> None:
    record_review(verdict.pk, by=by, label=label or (Label.WRONG if actual else Label.RIGHT), actual_domain=actual)


@pytest.fixture
def rita() -> Any:
    return a_user("rita", "reviewer")


@pytest.fixture
def some(rita: Any) -> None:
    """Six right and two wrong of the GPU, one wrong of the network, one ambiguous that was right, three not reviewed."""
    for _ in range(6):
        reviewed(a_case(GPU), rita)
    for _ in range(2):
        reviewed(a_case(GPU, "weak"), rita, actual=NET)
    reviewed(a_case(NET, "moderate"), rita, actual=GPU)
    reviewed(a_case("ambiguous", ""), rita)
    for _ in range(3):
        a_case(HOST, "weak")


def test_wrong_among_what_was_decided_on(some: None) -> None:
    found = quality.measured(span())
    assert (found.wrong.count, found.wrong.whole) == (3, 10)
    assert found.wrong.low == pytest.approx(0.0667, abs=1e-4)
    assert found.wrong.high == pytest.approx(0.6525, abs=1e-4)
    assert (found.decided.count, found.decided.whole) == (10, 13)


def test_the_matrix_has_what_was_said_against_what_it_was(some: None) -> None:
    found = quality.measured(span())
    matrix = {said: dict(zip(found.domains, numbers, strict=True)) for said, numbers, _ in found.matrix}
    assert matrix["gpu_hardware"] == {"gpu_hardware": 6, "network_fabric": 2, "ambiguous": 0}
    assert matrix["network_fabric"]["gpu_hardware"] == 1
    assert matrix["ambiguous"]["ambiguous"] == 1


def test_precision_and_recall_of_each_domain(some: None) -> None:
    found = {one.domain: one for one in quality.measured(span()).by_domain}
    gpu, net = found["gpu_hardware"], found["network_fabric"]
    assert (gpu.precision.count, gpu.precision.whole) == (6, 8)
    assert (gpu.recall.count, gpu.recall.whole) == (6, 7)
    assert (net.precision.count, net.precision.whole) == (0, 1)
    assert (net.recall.count, net.recall.whole) == (0, 2)


def test_the_curve_goes_from_few_and_sure_to_all(some: None) -> None:
    strong, moderate, weak = quality.measured(span()).points
    assert (strong.coverage.count, strong.coverage.whole) == (6, 13)
    assert (strong.risk.count, strong.risk.whole) == (0, 6)
    assert (moderate.risk.count, moderate.risk.whole) == (1, 7)
    assert (weak.coverage.count, weak.risk.count, weak.risk.whole) == (12, 3, 9)


def test_what_is_not_reviewed_bounds_the_figure(some: None) -> None:
    found = quality.measured(span())
    assert found.extremes == (3 / 13, 6 / 13)
    # Weak verdicts are wrong more often and reviewed less: weighted by how many there are, the share rises.
    assert found.weighted is not None
    assert found.wrong.value is not None
    assert found.weighted > found.wrong.value
    weak = next(one for one in found.strata if one.strength == "weak")
    assert (weak.verdicts, weak.decided.count, weak.wrong.count) == (5, 2, 2)


def test_disagreement_and_doubt_are_no_decision(rita: Any) -> None:
    bob = a_user("bob", "reviewer")
    disputed, agreed, doubtful = a_case(GPU), a_case(GPU), a_case(GPU)
    reviewed(disputed, rita)
    reviewed(disputed, bob, actual=NET)
    reviewed(agreed, rita, actual=NET)
    reviewed(agreed, bob, actual=NET)
    reviewed(doubtful, rita, label=Label.UNDECIDABLE)
    found = quality.measured(span())
    assert [(case.said, case.actual) for case in found.cases] == [("gpu_hardware", "network_fabric")]
    assert (found.disputed, found.undecidable) == (1, 1)
    assert (found.agreement.count, found.agreement.whole) == (1, 2)


def test_only_the_standing_review_of_the_standing_verdict_counts(rita: Any) -> None:
    verdict = a_case(GPU)
    reviewed(verdict, rita, actual=NET)
    reviewed(verdict, rita)
    assert quality.measured(span()).wrong.count == 0
    a_verdict(verdict.attempt, body(attributed_domain="storage"), number=2)
    assert quality.measured(span()).cases == []


def test_of_one_cluster_or_ruleset(some: None, rita: Any) -> None:
    reviewed(a_case(GPU, cluster="beta"), rita)
    assert quality.measured(span(), cluster="beta").wrong.whole == 1
    digest = Verdict.objects.first().ruleset.digest[:12]  # type: ignore[union-attr]
    assert quality.measured(span(), ruleset=digest).wrong.whole == 11
    assert quality.measured(span(), ruleset="0" * 12).cases == []


def test_who_still_waits_counts_as_the_longest() -> None:
    for number in range(3):
        a_case(GPU)
        an_attempt(f"w{number}")
    found = quality.waiting(span())
    assert (found.count, found.without) == (3, 3)
    # Of six nobody knows the 99th hundredth.
    assert found.percentiles[99] is None
    assert sum(number for _, number in found.steps) == 3


# --- The page -----------------------------------------------------------------------------------


def text(answer: Any) -> str:
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())).replace("\xa0", " ")


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(a_user("ada", "viewer"))
    return client


def test_the_page_says_the_share_its_bounds_and_its_n(reader: Client, some: None) -> None:
    page = text(reader.get("/quality/"))
    assert "30.0 % 6.7 % to 65.2 %, 3 of 10" in page
    assert "People choose what they review" in page
    assert "75.0 %" in page


def test_the_empty_states_differ(reader: Client) -> None:
    assert "There is no verdict yet" in text(reader.get("/quality/"))
    a_case(GPU)
    assert "1 standing verdict of this time, none decided on" in text(reader.get("/quality/"))


def test_a_benchmark_that_is_kept_is_shown_and_a_broken_file_is_said(
    reader: Client, settings: Settings, tmp_path: Path, some: None
) -> None:
    assert "INQUEST_BENCH_FILE" in text(reader.get("/quality/"))
    file = tmp_path / "bench.json"
    settings.INQUEST_BENCH_FILE = str(file)
    assert "cannot be read" in text(reader.get("/quality/"))
    for content in ("{", "[]", '{"cases": "x"}', '{"cases": 1, "scores": {"a": {}}}'):
        file.write_text(content)
        assert "is not that of inquest bench" in text(reader.get("/quality/"))
    tally = {"right": 40, "admitted": 7, "wrong": 2, "overclaimed": 1}
    file.write_text(json.dumps({"cases": 50, "scores": {"inquest explain": tally}, "missed": []}))
    assert "3 of 50" in text(reader.get("/quality/"))


def test_the_time_that_is_chosen_on_the_page_is_the_time_that_is_counted(reader: Client, some: None) -> None:
    offered = {"": 30, "7": 7, "90": 90, "365": 365}
    for asked, days in offered.items():
        form = reader.get("/quality/", {"days": asked}).context["form"]
        span = form.span
        assert (span.before - span.after).days == days
        pick = next(pick for pick in form.selects if pick.name == "days")
        assert [option.text for option in pick.options if option.chosen] == [
            "a year" if days == 365 else f"{days} days"
        ]


def test_it_costs_the_same_for_any_number_of_reviews(
    reader: Client, some: None, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    reader.get("/quality/")
    with django_assert_max_num_queries(14):
        reader.get("/quality/")


def test_the_api_has_the_same_figures(client_of: Callable[..., APIClient], some: None) -> None:
    api = client_of("viewer")
    said = api.get("/api/v1/quality", {"days": "90"}).json()
    assert said["wrong"]["count"] == 3
    assert said["matrix"]["gpu_hardware"]["network_fabric"] == 2
    assert [point["risk"]["count"] for point in said["coverage_risk"]] == [0, 1, 3]
    assert api.get("/api/v1/quality", {"days": "2"}).status_code == 400
