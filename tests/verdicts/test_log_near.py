"""A few lines around the one that shows a cause, on the verdict's page."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.verdicts.page_bodies import a_verdict, an_attempt, body, evidence, finding
from verdicts.logs.near import Near, beside
from verdicts.models import Attempt, Observation

pytestmark = pytest.mark.django_db


def a_log(attempt: Attempt, *numbers: int) -> None:
    """Stored lines of one file."""
    Observation.objects.bulk_create(
        Observation(
            attempt=attempt, digest=str(number), source="syslog", ref=f"n1.log:{number}", file="n1.log", line=number,
            body=f"line {number} <b>",
        )
        for number in numbers
    )  # fmt: skip


def near_causes(attempt: Attempt, given: dict[str, Any]) -> dict[str, Near]:
    return beside(attempt, given, []).near


def test_the_nearest_stored_lines_stand_around_the_line_of_a_cause(as_: Callable[..., Client]) -> None:
    attempt = an_attempt()
    a_log(attempt, 3, 88, 96, 97, 100, 101, 109, 111, 500)
    Observation.objects.filter(line=100).update(body="Xid 79\nthat goes on")
    shows = evidence("Xid 79", "n1.log:100", source="syslog", file="n1.log", line=100)
    given = body(causes=[finding("f1", "gpu.off-the-bus", "Lost", evidence=[shows])], attributed_domain="gpu_hardware")
    near = near_causes(attempt, given)["n1.log:100"]
    assert [line.line for line in near.before] == [96, 97]
    assert [line.line for line in near.after] == [109], "101 is inside the record, 111 too far away"
    verdict = a_verdict(attempt, given | {"strength": "weak"})
    page = as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])).content.decode()
    assert "line 97 &lt;b&gt;" in page
    assert "line 500" not in page


def test_a_line_without_neighbours_or_number_stays_alone() -> None:
    attempt = an_attempt()
    a_log(attempt, 100)
    shows = [evidence("Xid 79", "n1.log:100", file="n1.log", line=100), evidence("x", "loose:1") | {"line": None}]
    assert near_causes(attempt, body(causes=[finding("f1", "a.b", "Lost", evidence=shows[:1])])) == {}
    assert near_causes(attempt, body(causes=[finding("f1", "a.b", "Lost", evidence=shows[1:])])) == {}
