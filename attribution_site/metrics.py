"""`/metrics` for Prometheus: the queue, the verdicts, and what the rules do not see.

Every number comes out of the database, so that it is the same whichever process is asked. Answered before host
names and logins are looked at, as the probes are: to loopback without a proxy in between, and to who has the token.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address

import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.registry import Collector

from attribution_site.health import ruleset_digest
from recovery import find
from recovery.drill import find as drills
from recovery.ledger import find as ledger_find
from recovery.progress import find as progress_find
from recovery.words import DrillState
from verdicts import measure
from verdicts.sources import find as source_find

log = structlog.get_logger("inquest.metrics")

#: Counting is not free: scrapes that come closer together than this share one answer.
FRESH_SECONDS = 10.0


class Numbers(Collector):
    """The site's numbers as Prometheus knows them."""

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not ask the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Ask the database for everything."""
        queue = measure.queue()
        requests = GaugeMetricFamily(
            "inquest_attribution_requests", "Attribution requests that are open or were given up.", labels=["state"]
        )
        for state, number in queue.requests.items():
            requests.add_metric([state], number)
        yield requests
        yield GaugeMetricFamily(
            "inquest_attribution_oldest_due_seconds",
            "For how long the oldest open attribution request has been due; 0 when none is.",
            value=queue.oldest_due_seconds,
        )
        verdicts = CounterMetricFamily(
            "inquest_verdicts", "Verdicts written, superseded ones too.", labels=["domain", "strength"]
        )
        standing = GaugeMetricFamily("inquest_standing_verdicts", "Verdicts that stand.", labels=["domain", "strength"])
        for (domain, strength), (written, stand) in measure.verdicts().items():
            verdicts.add_metric([domain, strength or "none"], written)
            standing.add_metric([domain, strength or "none"], stand)
        yield verdicts
        yield standing
        yield from _sources()
        yield from _rules()
        yield from _ledger()
        yield from _recovery()
        yield from _drills()
        yield from _progress()


def _sources() -> Iterator[Metric]:
    blind = GaugeMetricFamily(
        "inquest_source_blind", "1 for a source whose silence proves nothing.", labels=["cluster", "name", "source"]
    )
    for cluster, name, source, is_blind in measure.sources():
        blind.add_metric([cluster, name, source], int(is_blind))
    yield blind
    failures = GaugeMetricFamily(
        "inquest_discovery_failures", "Looks for attempts in a row that failed.", labels=["cluster", "name"]
    )
    succeeded = GaugeMetricFamily(
        "inquest_discovery_succeeded_timestamp_seconds",
        "When a look for attempts last succeeded.",
        labels=["cluster", "name"],
    )
    for cluster, name, number, at in measure.discoveries():
        failures.add_metric([cluster, name], number)
        succeeded.add_metric([cluster, name], at)
    yield failures
    yield succeeded
    gathering = source_find.gathering()
    tasks = GaugeMetricFamily("inquest_collection_tasks", "Sources to be read for attempts.", labels=["state"])
    tasks.add_metric(["waiting"], gathering.waiting)
    tasks.add_metric(["running"], gathering.running)
    yield tasks


def _progress() -> Iterator[Metric]:
    running = GaugeMetricFamily("inquest_attempts_running", "Attempts that are watched for hangs.", labels=["cluster"])
    blind = GaugeMetricFamily(
        "inquest_hang_detection_blind", "Of these, those whose hangs would not be seen.", labels=["cluster"]
    )
    for cluster, (watched, unseen) in progress_find.watched().items():
        running.add_metric([cluster], watched)
        blind.add_metric([cluster], unseen)
    yield running
    yield blind


def _rules() -> Iterator[Metric]:
    unrecognised = GaugeMetricFamily(
        "inquest_unrecognised_templates",
        "Templates of error lines that no rule knows, in attempts that ended within a week.",
        labels=["near_end"],
    )
    every, near_end = measure.unrecognised()
    unrecognised.add_metric(["any"], every)
    unrecognised.add_metric(["yes"], near_end)
    yield unrecognised
    found = measure.last_drift()
    if found is not None:
        signs = GaugeMetricFamily("inquest_rules_drift_signs", "Signs that the last daily look found.", labels=["kind"])
        for kind, number in found.signs.items():
            signs.add_metric([kind], number)
        yield signs
        silent = GaugeMetricFamily(
            "inquest_rule_silent", "1 for a rule that has gone silent while its family went on.", labels=["rule"]
        )
        for rule in found.silent:
            silent.add_metric([rule], 1)
        yield silent
        yield GaugeMetricFamily(
            "inquest_rules_drift_checked_timestamp_seconds",
            "When the last daily look for drift was taken.",
            value=found.checked_at,
        )
    if digest := ruleset_digest():
        info = GaugeMetricFamily("inquest_ruleset", "1, with the ruleset that this process uses.", labels=["digest"])
        info.add_metric([digest], 1)
        yield info


def _recovery() -> Iterator[Metric]:
    counts = find.needs_a_person()
    for name, said, count in (
        ("inquest_proposals_waiting", "Proposals that wait for a decision.", counts["waiting"]),
        ("inquest_actions_going_on", "Actions that are being carried out.", counts["going_on"]),
        (
            "inquest_actions_overdue",
            "Actions that should have ended: a person is needed.",
            counts["overdue"],
        ),
        ("inquest_exclusions_standing", "Nodes that are kept away.", counts["exclusions"]),
        ("inquest_exclusions_wrong", "Of these, those found to be wrong.", counts["wrong_exclusions"]),
        ("inquest_anomalies_open", "Crashes, hangs and stragglers that go on.", counts["anomalies"]),
    ):
        yield GaugeMetricFamily(name, said, value=count)


def _drills() -> Iterator[Metric]:
    standing = drills.standing()
    yield GaugeMetricFamily(
        "inquest_drill_overdue", "1 where no retention drill passed in time.", value=int(bool(standing.overdue))
    )
    if standing.last is not None:
        yield GaugeMetricFamily(
            "inquest_drill_passed",
            "1 where the last retention drill passed: every check was carried out and is as it should be.",
            value=int(standing.last.state == DrillState.PASSED),
        )
    if standing.passed is not None and standing.passed.finished_at is not None:
        yield GaugeMetricFamily(
            "inquest_drill_passed_timestamp_seconds",
            "When the last retention drill that passed ended.",
            value=standing.passed.finished_at.timestamp(),
        )


def _ledger() -> Iterator[Metric]:
    standing = ledger_find.standing()
    yield CounterMetricFamily("inquest_ledger_entries", "Entries of the decision ledger.", value=standing.entries)
    yield GaugeMetricFamily(
        "inquest_ledger_unsigned_entries",
        "Entries after the last signed checkpoint.",
        value=standing.entries - standing.signed,
    )
    if standing.signed_at is not None:
        yield GaugeMetricFamily(
            "inquest_ledger_checkpoint_timestamp_seconds",
            "When the last checkpoint was signed.",
            value=standing.signed_at.timestamp(),
        )
    failed = GaugeMetricFamily(
        "inquest_ledger_checkpoint_failed_timestamp_seconds",
        "When making or keeping a checkpoint was last told to fail, by what failed.",
        labels=["where"],
    )
    for where, at in standing.failures.items():
        failed.add_metric([where], at.timestamp())
    yield failed


class Answer:
    """The text of the last scrape, for a while."""

    def __init__(self, fresh_for: float) -> None:
        self._fresh_for = fresh_for
        self._lock = threading.Lock()
        self._made = float("-inf")
        self._text = b""
        self._registry = CollectorRegistry()
        self._registry.register(Numbers())

    def text(self) -> bytes:
        """The numbers as text. Raises DatabaseError."""
        with self._lock:
            if time.monotonic() - self._made >= self._fresh_for:
                self._text = generate_latest(self._registry)
                self._made = time.monotonic()
            return self._text


answer = Answer(FRESH_SECONDS)


def allowed(request: HttpRequest) -> bool:
    """Whether a request may read the numbers: it has the token, or comes from this machine and through no proxy.

    Behind a proxy on the same machine every request comes from loopback, so one that was passed on is not of here.
    """
    token = settings.INQUEST_METRICS_TOKEN
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if token and scheme.lower() == "bearer" and constant_time_compare(given.strip(), token):
        return True
    passed_on = any(
        name in request.headers for name in ("X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "X-Real-IP", "Via")
    )
    return not passed_on and _is_loopback(request.META.get("REMOTE_ADDR", ""))


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


class Metrics:
    """Answers `/metrics`; everything else goes on."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path != "/metrics":
            return self.get_response(request)
        headers = {"Cache-Control": "no-store"}
        if not allowed(request):
            text = "Metrics are read from this machine, or with INQUEST_METRICS_TOKEN as a bearer token.\n"
            return HttpResponse(text, status=403, content_type="text/plain", headers=headers)
        try:
            return HttpResponse(answer.text(), content_type=CONTENT_TYPE, headers=headers)
        except DatabaseError as error:
            log.warning("metrics cannot be counted", error=str(error))
            connection.close()
            return HttpResponse("the database cannot be used\n", status=503, content_type="text/plain", headers=headers)
