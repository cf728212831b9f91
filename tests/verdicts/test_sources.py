"""The contract check: what a source's answer means, what is stored of it, and where it is shown."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from datetime import timezone as zone
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from rules.ruleset import load_ruleset
from rules.words import Source
from tests.verdicts.builders import a_user, an_attempt
from verdicts import clusters, measure, record, waking
from verdicts.collecting import gather
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.config import Clusters, ClusterSettings
from verdicts.collectors.sink import Sink
from verdicts.collectors.slurm import SlurmDiscovery
from verdicts.collectors.source import Probe, SourceSettings
from verdicts.collectors.static import StaticDiscovery
from verdicts.models import Cluster, CollectionTask, Discovery, SourceState
from verdicts.sources import check as source_check
from verdicts.sources import find as source_find
from verdicts.sources import standing as sources
from verdicts.sources.check import Checked, judge

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
NODES = ["gpu-01", "gpu-02"]


class Probed(SourceSettings, tag="probed", frozen=True, kw_only=True):
    """A source whose look finds what the test says."""

    def collect(self, ask: Ask, out: Sink) -> None:
        out.stream(node=ask.nodes[0]).feed(b"x")

    def probe(self, nodes: Any, budget: Budget) -> Probe:
        found = FOUND[self.name]
        if isinstance(found, Exception):
            raise found
        return found


FOUND: dict[str, Probe | Exception] = {}


def looked(source: Source = Source.SYSLOG, found: Probe | SourceError | None = None, **more: Any) -> Checked:
    said = {"newest": NOW - timedelta(seconds=5), "nodes": frozenset(NODES)} | more
    settings = Probed(name="loki-a", source=source)
    cluster = ClusterSettings(name="alpha", source=[settings])  # type: ignore[list-item]
    return judge(cluster, settings, found or Probe(**said), NODES, load_ruleset(), NOW)


def test_a_source_with_fresh_data_of_every_node_sees() -> None:
    checked = looked()
    assert (checked.health, checked.fix) == ("sees", [])
    assert "2 of 2 nodes" in checked.summary
    assert checked.rules >= checked.rules_only_here > 0


@pytest.mark.parametrize(
    ("more", "health", "words"),
    [
        ({"found": SourceError("http://loki:3100: connection refused")}, "blind", "connection refused"),
        ({"newest": None}, "blind", "Do the agents"),
        ({"newest": NOW - timedelta(hours=2)}, "blind", "agents"),
        ({"nodes": frozenset({"10.0.0.1:9100"})}, "blind", "its labels say 10.0.0.1:9100"),
        ({"nodes": frozenset({"gpu-01"})}, "degraded", "Nothing came lately of gpu-02"),
        ({"server_time": NOW + timedelta(seconds=90)}, "degraded", "Keep both machines in time"),
        ({"newest": NOW + timedelta(minutes=9)}, "degraded", "Set the clocks"),
        (
            {"newest": NOW - timedelta(seconds=100), "arrived": NOW - timedelta(seconds=10)},
            "degraded",
            "Set lag to 135",
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(more: dict[str, Any], health: str, words: str) -> None:
    checked = looked(**more)
    assert checked.health == health
    assert words in " ".join([checked.summary, *checked.fix])


def test_the_newest_record_is_told_in_utc_as_the_page_shows_it() -> None:
    elsewhere = NOW.astimezone(zone(timedelta(hours=2)))
    assert looked(newest=elsewhere - timedelta(seconds=5)).newest == "2026-11-30T11:59:55+00:00"


def test_silence_is_normal_for_kinds_that_speak_seldom() -> None:
    assert looked(Source.GPU_EVENTS, newest=None, nodes=frozenset()).health == "sees"
    assert looked(Source.APPLOG, newest=NOW - timedelta(days=2)).health == "sees"


@pytest.fixture
def alpha(monkeypatch: pytest.MonkeyPatch, db: None, sent: list[str]) -> Iterator[ClusterSettings]:
    sources.forget()
    clusters.cluster_row.cache_clear()
    syslog = Probed(name="loki-a", source=Source.SYSLOG)
    metrics = Probed(name="prom-a", source=Source.NODE_METRICS)
    cluster = ClusterSettings(name="alpha", source=[syslog, metrics])  # type: ignore[list-item]
    for module in (source_check, source_find, gather):
        monkeypatch.setattr(module, "current_clusters", lambda: Clusters(cluster=[cluster]))
    record.record_attempt(an_attempt())
    now = timezone.now()
    FOUND["loki-a"] = Probe(newest=now, nodes=frozenset(NODES))
    FOUND["prom-a"] = Probe(newest=now, nodes=frozenset(NODES))
    yield cluster
    FOUND.clear()


def test_a_source_is_blind_from_the_moment_it_was_seen_to_be(alpha: ClusterSettings) -> None:
    assert [one.health for one in source_check.check()] == ["sees", "sees"]
    FOUND["loki-a"] = SourceError("connection refused")
    source_check.check()
    since = SourceState.objects.get(name="loki-a").blind_since
    assert since is not None
    source_check.check()
    assert SourceState.objects.get(name="loki-a").blind_since == since
    assert ("alpha", "loki-a", "syslog", True) in measure.sources()
    assert [row.name for row in source_find.blind()] == ["loki-a"]
    FOUND["loki-a"] = Probe(newest=timezone.now(), nodes=frozenset(NODES))
    source_check.check()
    assert SourceState.objects.get(name="loki-a").blind_since is None


def test_a_fault_of_a_check_is_a_result_not_the_end(alpha: ClusterSettings) -> None:
    FOUND["loki-a"] = ZeroDivisionError("x")
    first, second = source_check.check()
    assert (first.health, second.health) == ("blind", "sees")
    assert "a fault of Inquest" in first.fix[0]


def test_an_answer_that_makes_no_sense_is_a_result_not_the_end(alpha: ClusterSettings) -> None:
    FOUND["loki-a"] = Probe(newest=timezone.now().replace(tzinfo=None))
    first, second = source_check.check()
    assert (first.health, second.health) == ("blind", "sees")
    assert "a fault of Inquest: TypeError" in first.fix[0]


def test_what_a_store_says_is_kept_without_secrets_and_not_at_any_length(
    alpha: ClusterSettings, as_: Callable[..., Client], client_of: Callable[..., APIClient]
) -> None:
    secret = "hunter2hunter2hunter2"
    FOUND["loki-a"] = ZeroDivisionError(f"Authorization: Bearer {secret} {'x' * 10_000}")
    notes = (f"postgresql://u:{secret}@db/x", "\x00<script>alert(1)</script>", *["many"] * 1000)
    FOUND["prom-a"] = Probe(newest=timezone.now(), nodes=frozenset(NODES), version=f"password={secret}", notes=notes)
    said = repr(source_check.check())
    stored = repr(list(SourceState.objects.values_list("check_body", flat=True)))
    page = as_("viewer").get("/sources/").content.decode()
    api = client_of("operator").get("/api/v1/sources").content.decode()
    for text in (said, stored, page, api):
        assert secret not in text
        assert len(text) < 60_000
    assert "<script>alert" not in page


PLACES = ["/sources/", "/api/v1/sources", "/api/v1/discoveries", "/attempts/{}/collection/"]
PLACES += ["/api/v1/attempts/{}/collections"]


@pytest.mark.parametrize("place", PLACES)
def test_who_may_not_read_sees_no_source_and_no_collection(
    alpha: ClusterSettings, as_: Callable[..., Client], place: str
) -> None:
    attempt, _ = record.record_attempt(an_attempt())
    where = place.format(attempt.pk)
    assert Client().get(where).status_code in (302, 401, 403)
    assert as_().get(where).status_code == 403
    assert as_("viewer").get(where).status_code == 200


@pytest.mark.parametrize("place", ["/sources/check/", "/attempts/{}/collect/"])
def test_what_begins_something_needs_the_right_to_it_and_the_forms_own_token(
    alpha: ClusterSettings, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "wake_task", lambda *_, **__: True)
    attempt, _ = record.record_attempt(an_attempt())
    where = place.format(attempt.pk)
    for group, status in (("viewer", 403), ("reviewer", 403), ("operator", 302)):
        client = Client()
        client.force_login(a_user(group, group))
        assert client.post(where).status_code == status
        assert client.get(where).status_code in (403, 405)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(a_user("another", "operator"))
    assert strict.post(where).status_code == 403


def test_what_a_hostile_cluster_says_is_text_on_the_page_of_a_collection(
    alpha: ClusterSettings, as_: Callable[..., Client]
) -> None:
    attempt, _ = record.record_attempt(an_attempt("<script>alert(1)</script>"))
    gather.ask(attempt.pk)
    evil = "<img src=x onerror=alert(2)>\u202egnp"
    CollectionTask.objects.update(reason=evil, error=evil, status="error", state="failed")
    cluster = attempt.cluster
    Discovery.objects.create(cluster=cluster, name="slurm", error=evil, notes=[evil])
    page = as_("viewer").get(f"/attempts/{attempt.pk}/collection/").content.decode()
    assert "&lt;img src=x" in page
    assert "<img src=x" not in page
    assert "<script>alert" not in page


def test_one_source_or_cluster_can_be_chosen(alpha: ClusterSettings) -> None:
    assert [one.name for one in source_check.check(name="prom-a")] == ["prom-a"]
    assert source_check.check(cluster="beta") == []


def test_the_page_says_of_each_source_what_to_mend(alpha: ClusterSettings, as_: Callable[..., Client]) -> None:
    viewer = as_("viewer")
    page = viewer.get("/sources/").content.decode()
    assert "not checked" in page
    FOUND["loki-a"] = Probe(newest=timezone.now(), nodes=frozenset({"<b>n1</b>"}))
    source_check.check()
    page = viewer.get("/sources/").content.decode()
    assert "none of the cluster&#x27;s nodes is in its labels" in page
    assert "<b>n1</b>" not in page
    assert "Not configured: applog" in page


def test_without_a_clusters_file_the_page_says_how_to_begin(
    db: None, monkeypatch: pytest.MonkeyPatch, as_: Callable[..., Client]
) -> None:
    monkeypatch.setattr(source_find, "current_clusters", Clusters)
    assert "INQUEST_CLUSTERS_FILE" in as_("viewer").get("/sources/").content.decode()


def test_checking_now_needs_the_right_to_it(
    alpha: ClusterSettings,
    monkeypatch: pytest.MonkeyPatch,
    as_: Callable[..., Client],
    client_of: Callable[..., APIClient],
) -> None:
    assert as_("viewer").post("/sources/check/").status_code == 403
    asked: list[str] = []
    monkeypatch.setattr(waking, "wake_task", lambda name, **_: not asked.append(name))
    operator = client_of("operator")
    assert operator.post("/api/v1/sources/check").status_code == 202
    assert asked == ["verdicts.check_sources"]
    monkeypatch.setattr(waking, "wake_task", lambda *_, **__: False)
    assert operator.post("/api/v1/sources/check").status_code == 409


def test_the_api_lists_sources_with_their_checks(alpha: ClusterSettings, client_of: Callable[..., APIClient]) -> None:
    source_check.check()
    listed = client_of("viewer").get("/api/v1/sources").json()
    assert [(one["name"], one["health"]) for one in listed] == [("loki-a", "sees"), ("prom-a", "sees")]
    assert listed[0]["check"]["nodes_known"] == 2


def test_a_collection_is_asked_for_and_followed_through_the_api(
    alpha: ClusterSettings, client_of: Callable[..., APIClient]
) -> None:
    attempt, _ = record.record_attempt(an_attempt())
    where = f"/api/v1/attempts/{attempt.pk}/collections"
    assert client_of("viewer").post(where).status_code == 403
    operator = client_of("operator")
    asked = operator.post(where)
    assert asked.status_code == 202
    assert {task["state"] for task in asked.json()["tasks"]} == {"pending"}
    assert operator.post(where).json()["id"] == asked.json()["id"]
    gather.work()
    done = operator.get(f"/api/v1/collections/{asked.json()['id']}").json()
    assert {task["status"] for task in done["tasks"]} == {"ok"}
    assert done["finished_at"] is not None
    assert len(operator.get(where).json()) == 1


def test_the_collection_page_polls_while_a_round_is_open(alpha: ClusterSettings, as_: Callable[..., Client]) -> None:
    viewer = as_("viewer")
    attempt, _ = record.record_attempt(an_attempt())
    address = f"/attempts/{attempt.pk}/collection/"
    assert "No source was asked" in viewer.get(address).content.decode()
    gather.ask(attempt.pk)
    page = viewer.get(address).content.decode()
    assert "every 2s" in page
    assert "waits" in page
    gather.work()
    page = viewer.get(address).content.decode()
    assert "every 2s" not in page
    assert page.count("collected</span>") == 2


def test_a_source_that_is_asked_by_job_is_not_blind_for_want_of_nodes() -> None:
    checked = looked(Source.APPLOG, nodes=frozenset(), jobs=frozenset({"4711"}))
    assert (checked.health, checked.nodes_asked) == ("sees", 0)
    assert "asked by job" in checked.summary


def test_a_look_for_attempts_that_fails_is_told_of(
    alpha: ClusterSettings, monkeypatch: pytest.MonkeyPatch, as_: Callable[..., Client]
) -> None:
    found = StaticDiscovery(name="folder", folder="/nowhere")
    cluster = ClusterSettings(name="alpha", source=alpha.source, discovery=[found])
    monkeypatch.setattr(source_find, "current_clusters", lambda: Clusters(cluster=[cluster]))
    row = Discovery.objects.create(
        cluster=clusters.cluster_row("alpha"), name="folder", failures=2, error="no <b>way</b>"
    )
    assert source_find.failing() == [row]
    page = as_("viewer").get("/").content.decode()
    assert "Attempts are not found" in page
    assert "no &lt;b&gt;way&lt;/b&gt;" in page
    monkeypatch.setattr(source_find, "current_clusters", lambda: Clusters(cluster=[alpha]))
    assert source_find.failing() == [], "one that is no longer in the file fails nobody"


def test_how_late_data_is_is_told_only_where_the_store_knows_it() -> None:
    seldom = looked(Source.APPLOG, newest=NOW - timedelta(hours=9))
    assert (seldom.age_seconds, seldom.late_seconds) == (9 * 3600, None)
    measured = looked(newest=NOW - timedelta(seconds=9), arrived=NOW - timedelta(seconds=9))
    assert (measured.age_seconds, measured.late_seconds) == (9, 0)


def test_a_pattern_that_never_matched_is_a_finding_once_jobs_have_ended(alpha: ClusterSettings) -> None:
    nothing = Probe(nothing="no file below /logs matches *.out", notes=("no file below /logs matches *.out",))
    settings = Probed(name="loki-a", source=Source.APPLOG)
    cluster = ClusterSettings(name="alpha", source=[settings])  # type: ignore[list-item]
    assert judge(cluster, settings, nothing, [], load_ruleset(), NOW).health == "sees", "nobody has run yet"
    found = judge(cluster, settings, nothing, [], load_ruleset(), NOW, without=3)
    assert (found.health, found.summary) == (
        "blind",
        "no file below /logs matches *.out for the last 3 attempts that ended",
    )
    attempt, _ = record.record_attempt(an_attempt("4712", end=timezone.now().isoformat()))
    assert source_check._without("alpha", "loki-a") >= 1, "a source that was never asked: by the attempts that ended"
    gather.ask(attempt.pk)
    gather.work()
    assert source_check._without("alpha", "loki-a") == 0, "it gave something for the latest"


def test_what_a_cluster_cannot_have_is_not_missing() -> None:
    slurm = ClusterSettings(name="alpha", discovery=[SlurmDiscovery(name="slurm")])
    assert Source.KUBERNETES not in source_check.unconfigured(slurm)
    assert Source.SCHEDULER in source_check.unconfigured(slurm)


def test_a_dry_check_writes_nothing(alpha: ClusterSettings) -> None:
    tried = ClusterSettings(name="never-heard-of", source=alpha.source)
    found = source_check.check(of=Clusters(cluster=[tried]), store=False)
    assert [one.health for one in found] == ["sees", "sees"]
    assert not SourceState.objects.exists()
    assert not Cluster.objects.filter(name="never-heard-of").exists()


def test_a_source_that_went_out_of_the_file_is_told_of(alpha: ClusterSettings) -> None:
    source_check.check()
    SourceState.objects.filter(name="loki-a").update(name="old-loki", answered_at=timezone.now())
    assert [row.name for row in source_check.no_longer()] == ["old-loki"]
