"""What another site concluded is in the lists, marked, and in no figure; what a drill makes up is in neither."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.verdicts.builders import a_user
from tests.verdicts.builders import an_attempt as given_attempt
from tests.verdicts.page_bodies import a_verdict, body
from verdicts import measure
from verdicts.choices import Label, Origin
from verdicts.fleet import elements as fleet_elements
from verdicts.fleet import find as fleet_find
from verdicts.fleet.find import Span
from verdicts.models import ListRow, Node, Verdict
from verdicts.overview.find import overview
from verdicts.quality import reckon as quality
from verdicts.record import record_attempt, record_review

pytestmark = pytest.mark.django_db

ENDED = timezone.now().replace(microsecond=0) - timedelta(hours=2)
SPAN = Span(datetime(2026, 1, 1, tzinfo=UTC), timezone.now() + timedelta(days=1))


def one(origin: Origin) -> Verdict:
    """A verdict that blames a node of its own name."""
    name = f"gpu-{origin.value}"
    given = given_attempt(origin.value, end=ENDED.isoformat(), nodes=[name], topology={"rack": {f"r-{name}": [name]}})
    attempt, _ = record_attempt(given, origin=origin)
    blamed = {"affected_nodes": [{"name": name, "gpus": [], "ranks": [], "links": []}]}
    return a_verdict(attempt, body(**blamed))


@pytest.fixture
def every(client: Client) -> dict[Origin, Verdict]:
    """One of each origin, reviewed; a reader is logged in."""
    found = {origin: one(origin) for origin in Origin}
    reviewer = a_user("rosa", "reviewer")
    for verdict in found.values():
        record_review(verdict.pk, by=reviewer, label=Label.RIGHT)
    client.force_login(a_user("ada", "viewer"))
    return found


def test_a_list_has_what_is_imported_marked_and_no_drill(every: dict[Origin, Verdict], client: Client) -> None:
    assert set(ListRow.objects.values_list("job_id", "origin")) == {("own", "own"), ("imported", "imported")}
    page = client.get("/verdicts/").content.decode()
    assert page.count(">Imported</span>") == 2  # the row's mark, and the facet's word
    assert "drill" not in page
    for origin in (Origin.OWN, Origin.IMPORTED):
        rows = client.get("/api/v1/verdicts", {"origin": origin.value}).json()["results"]
        assert [(row["id"], row["origin"]) for row in rows] == [(str(every[origin].pk), origin.value)]
        jobs = client.get("/api/v1/attempts", {"origin": origin.value}).json()["results"]
        assert [job["job_id"] for job in jobs] == [origin.value]
    assert client.get("/api/v1/verdicts", {"origin": "drill"}).status_code == 400
    assert {job["job_id"] for job in client.get("/api/v1/attempts").json()["results"]} == {"own", "imported"}
    # Whoever has its address sees it all the same.
    assert client.get(f"/verdicts/{every[Origin.DRILL].pk}/").status_code == 200


def test_figures_count_the_sites_own_alone(every: dict[Origin, Verdict], client: Client) -> None:
    found = overview(timezone.now())
    assert (found.today_total.count, found.decided.count, found.weeks[-1].total.count) == (1, 1, 1)
    assert client.get(f"/verdicts/?{found.today_total.query}").content.decode().count('class="row-headline"') == 1
    assert len(quality.measured(SPAN).cases) == quality.measured(SPAN).verdicts == 1
    assert quality.waiting(SPAN).count == 1
    assert [row.name for row in fleet_find.blamed(SPAN)] == ["gpu-own"]
    assert [element.name for element in fleet_elements.described()] == ["r-gpu-own"]
    assert [one.attempts for one in fleet_elements.compared("cluster", SPAN)] == [1]
    assert sum(written for written, _ in measure.verdicts().values()) == 1


def test_machines_of_another_site_are_not_of_the_fleet(every: dict[Origin, Verdict]) -> None:
    assert list(Node.objects.own().values_list("name", flat=True)) == ["gpu-own"]
    assert {node.name: node.blamed for node in Node.objects.for_list()}["gpu-imported"] == 0
    # One that this site has as well is.
    record_attempt(given_attempt("another", nodes=["gpu-imported"]))
    assert {node.name for node in Node.objects.own()} == {"gpu-own", "gpu-imported"}
