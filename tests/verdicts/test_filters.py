"""The filters of the verdict list, which API and page share."""

from collections.abc import Callable
from typing import Any

import pytest
from django.http import QueryDict
from rest_framework.test import APIClient

from rules.verdict import AffectedNode
from rules.words import Domain, State, Strength
from tests.verdicts.builders import a_finding, a_user, an_attempt, an_engine_verdict, an_observation
from verdicts import conclude, record
from verdicts.choices import Label, Mode
from verdicts.listing.filters import VerdictFilter
from verdicts.models import ListRow, Verdict

pytestmark = pytest.mark.django_db

CASES: dict[str, dict[str, Any]] = {
    "gpu": {"attempt": {"end": "2026-11-03T02:00:00Z"}, "verdict": {}},
    "store": {
        "attempt": {"end": "2026-11-04T02:00:00Z", "cluster": "beta", "workload": "vision"},
        "verdict": {
            "attributed_domain": Domain.STORAGE,
            "strength": Strength.WEAK,
            "headline": "Probably the file system.",
            "causes": [a_finding(1, rule="storage.stale", symptom="stale_handle", domain=Domain.STORAGE)],
            "demoted": [],
            "affected_nodes": [],
        },
    },
    "fine": {
        "attempt": {"end": "2026-11-05T02:00:00Z"},
        "verdict": {
            "terminal_state": State.SUCCEEDED,
            "attributed_domain": Domain.NO_FAILURE,
            "strength": None,
            "headline": "It succeeded.",
            "causes": [],
            "demoted": [],
            "affected_nodes": [],
        },
    },
    "live": {
        "attempt": {"end": None, "start": "2026-11-01T00:00:00Z"},
        "verdict": {
            "terminal_state": State.RUNNING,
            "attributed_domain": Domain.NO_FAILURE,
            "strength": None,
            "headline": "It runs.",
            "causes": [],
            "demoted": [],
            "affected_nodes": [AffectedNode(name="gpu-02", gpus=[], ranks=[], links=[])],
        },
    },
}


@pytest.fixture
def stored(engine: list[Any]) -> None:
    """One verdict for each case; the job id is the case's name."""
    for name, case in CASES.items():
        attempt, _ = record.record_attempt(an_attempt(name, **case["attempt"]))
        record.add_observations(attempt.pk, [an_observation(1)])
        engine.append(lambda given, *_rest, _more=case["verdict"], mode: an_engine_verdict(given, **_more, mode=mode))
        conclude.attribute_now(conclude.request_attribution(attempt.pk, Mode.SLOW).pk)
        engine.pop()


def _found(query: str) -> list[str]:
    chosen = VerdictFilter(QueryDict(query), queryset=ListRow.objects.all())
    assert chosen.is_valid(), chosen.errors
    found = [row.job_id for row in chosen.qs]
    assert [row.job_id for rows in chosen.found().every(2) for row in rows] == found
    return found


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", ["fine", "store", "gpu", "live"]),
        ("cluster=beta", ["store"]),
        ("cluster=beta&cluster=alpha", ["fine", "store", "gpu", "live"]),
        ("domain=storage", ["store"]),
        ("domain=storage&domain=gpu_hardware", ["store", "gpu"]),
        ("state=succeeded", ["fine"]),
        ("strength=strong", ["gpu"]),
        ("strength=none", ["fine", "live"]),
        ("strength=none&strength=weak", ["fine", "store", "live"]),
        ("node=gpu-01", ["gpu"]),
        ("node=gpu-02", ["live"]),
        ("symptom=stale_handle", ["store"]),
        ("symptom=nccl_*", ["gpu"]),
        ("symptom=nccl_*&status=cause", []),
        ("symptom=nccl_*&status=demoted&status=cause", ["gpu"]),
        ("rule=storage.*", ["store"]),
        ("workload=vision", ["store"]),
        ("job=gpu", ["gpu"]),
        ("text=file+system", ["store"]),
        ("text=FILE+nothing", []),
        ("text=gpu-01", ["gpu"]),
        ("after=2026-11-04T00:00:00Z", ["fine", "store", "live"]),
        ("before=2026-11-04T03:00:00%2B01:00", ["gpu", "live"]),
        ("after=2026-11-04&before=2026-11-05", ["store", "live"]),
        ("order=ended", ["live", "gpu", "store", "fine"]),
        ("order=job", ["fine", "gpu", "live", "store"]),
        ("order=-strength", ["gpu", "store", "fine", "live"]),
        ("order=cluster,job", ["fine", "gpu", "live", "store"]),
        ("review=none", ["fine", "store", "gpu", "live"]),
        ("review=any", []),
    ],
)
def test_what_a_query_finds(stored: None, query: str, wanted: list[str]) -> None:
    assert _found(query) == wanted


def test_reviews_are_looked_for_by_their_standing_label(stored: None) -> None:
    reviewer = a_user("rita", "reviewer")
    verdict = Verdict.objects.get(attempt__job_id="gpu")
    record.record_review(verdict.pk, by=reviewer, label=Label.RIGHT)
    record.record_review(verdict.pk, by=reviewer, label=Label.UNDECIDABLE)
    assert _found("review=undecidable") == ["gpu"]
    assert _found("review=right") == []
    assert _found("review=none") == ["fine", "store", "live"]


@pytest.mark.parametrize(
    "query", ["domain=nowhere", "state=gone", "after=yesterday", "order=colour", "attempt=7", "text=%00"]
)
def test_a_value_that_makes_no_sense_is_an_error(stored: None, client_of: Callable[..., APIClient], query: str) -> None:
    answer = client_of("viewer").get(f"/api/v1/verdicts?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["attr"] == query.partition("=")[0]
