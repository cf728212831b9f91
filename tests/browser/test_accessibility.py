"""Every page under axe-core, in both themes, on a telephone and on a desk: no serious and no critical issue.

The pages are those of the address table itself, so that a new one is looked at from its first day. A page with
a parameter needs a value for it in `samples`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone
from playwright.sync_api import Page

from recovery import brakes, exclusions, propose
from recovery.ledger import entries as ledger
from recovery.models import Anomaly, Drill, Exclusion, Hold, Policy, Proposal, Replay
from recovery.record import batch
from recovery.replay.words import ReplayKind
from recovery.words import ActionKind, AnomalyKind, BrakeKind, EntryKind, ExclusionKind, VetoKind
from rules.words import Domain
from tests.browser.conftest import SCHEMES, Visit
from tests.browser.test_console import too_wide
from tests.browser.test_rules import a_store
from tests.recovery.acting import a_failed_attempt
from tests.recovery.policy_builders import a_policy, a_scope
from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import a_verdict, ambiguous_body, an_attempt, nvlink_attempt, nvlink_body
from tests.verdicts.test_fleet import NOW, a_failure
from tests.verdicts.test_fleet_ports import a_port_down
from tests.verdicts.test_quality import a_case, reviewed
from tests.verdicts.test_unrecognised import FLUX, digest
from verdicts.models import Attempt, Node

AXE = (Path(__file__).parent / "vendor/axe-core/axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
#: Not pages of ours to judge: the admin is Django's, the API answers with JSON, Swagger UI is a vendor's
#: page, and single sign-on leads to the provider.
#: Files to take away, which are there only when they are made.
FILES = ("recovery:drill-report", "recovery:replay-export", "recovery:batch-whole", "recovery:batch-record")
NOT_OURS = ("admin/", "api/", "accounts/logout/", "accounts/sso/")
WIDTHS = (320, 1280)
#: What else another theme could break: the page is the same but for its colours.
COLOURS = ["color-contrast", "link-in-text-block"]


def samples() -> dict[str, Any]:
    """Something to show on every page, and a value for each parameter of an address."""
    a_store()
    good = a_verdict(nvlink_attempt(), nvlink_body())
    a_verdict(an_attempt("77", end=(timezone.now() - timedelta(hours=1)).isoformat()), ambiguous_body())
    a_fleet()
    some_reviews()
    waiting = an_attempt("4711")
    proposal = a_recovery()
    with transaction.atomic():
        said = {"nodes": ["gpu-017"], "plan": "ab" * 32}
        ledger.record(
            EntryKind.PROPOSAL_REJECTED,
            actor=ledger.Actor("user:ada"),
            subject=good,
            body=said,
            erasable={"text": "no"},
        )
    return {
        "proposal_id": proposal.pk,
        "name": "leave-out-gpus",
        "scope_id": a_scope(Policy.objects.get()).pk,
        "promotion_id": good.pk,
        "anomaly_id": Anomaly.objects.get().pk,
        "exclusion_id": Exclusion.objects.get().pk,
        "incident_id": good.pk,
        "brake_id": good.pk,
        "veto_id": good.pk,
        "number": 1,
        "verdict_id": good.pk,
        "attempt_id": waiting.pk,
        "rule_id": "gpu.off-the-bus",
        "digest": digest(FLUX),
        "sample": "xid149",
        "form": "csv",
        "view_id": good.pk,
        "subscription_id": good.pk,
        "node_id": Node.objects.get(name="n1").pk,
        "kind": "switch",
        "batch_id": batch.ask("", by=a_user("lena-of-the-samples", "lead"), via="console").pk,
        "element": "leaf-1",
        **what_is_kept(waiting),
    }


def what_is_kept(attempt: Attempt) -> dict[str, Any]:
    """A hold, a replay and a drill, by the parameters of their addresses."""
    lea = a_user("lea-of-the-samples", "lead")
    day = timezone.now().date() + timedelta(days=30)
    hold = Hold.objects.create(attempt=attempt, reason="a dispute", owner=lea, review_on=day, placed_by=lea)
    replay = Replay.objects.create(kind=ReplayKind.OWN.value, actor="user:lea", total=1)
    drill = Drill.objects.create(via="console", asked_by=lea)
    return {"hold_id": hold.pk, "replay_id": replay.pk, "drill_id": drill.pk}


def a_recovery() -> Proposal:
    """A proposal that waits, a node that is kept away, a brake and a veto."""
    a_failed_attempt("1", nodes=["gpu-[01-64]"], workload="other")
    ada = a_user("ada-of-the-samples", "lead")
    made = propose.propose_by_hand(
        a_failed_attempt("4713"), ActionKind.RESTART_EXCLUDING, ["gpu-03"], by=ada, reason="it fell off the bus"
    )
    row = Proposal.objects.get(pk=made.pk)
    exclusions.make(row, "gpu-03", ExclusionKind.JOB)
    alpha = row.attempt.cluster
    a_policy(a_user("pat-of-the-samples", "policy admin"))
    brakes.pull(alpha, BrakeKind.STOP, "too many at once", ada)
    brakes.set_veto(alpha, VetoKind.NODE, "gpu-09", by=ada, reason="in use")
    Anomaly.objects.create(
        attempt=row.attempt, kind=AnomalyKind.HANG.value, observed_at=timezone.now(), said="No step for 12 minutes."
    )
    return row


def a_fleet() -> None:
    """Failures of some nodes on one switch, one of them again and again."""
    today = (timezone.now() - NOW) / timedelta(days=1)
    for node, days, more in (
        ("n1", 1, {}),
        ("n1", 4, {"rule": "gpu.needs-reset", "image": "train:1"}),
        ("n2", 9, {"image": "train:2", "gpu": "GPU-0b6b1a1e-very-long-identifier-0123456789"}),
        ("n3", 2, {"shared_element": {"kind": "switch", "name": "leaf-1", "nodes": ["n1", "n2", "n3"]}}),
    ):
        a_failure(node, days=days - today, **more)
    a_port_down(3 - today)


def some_reviews() -> None:
    """Verdicts that people called right and wrong."""
    rita = a_user("rita-of-the-samples", "reviewer")
    for domain, strength, actual in (
        (Domain.GPU_HARDWARE, "strong", None),
        (Domain.GPU_HARDWARE, "weak", Domain.NETWORK_FABRIC),
        (Domain.STORAGE, "moderate", None),
    ):
        reviewed(a_case(domain, strength), rita, actual=actual)


def patterns(found: Any = None, prefix: str = "", namespace: str = "") -> Iterator[tuple[str, str, list[str]]]:
    """The route, name and parameters of each address of the site."""
    for pattern in (found or get_resolver()).url_patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from patterns(pattern, route, f"{pattern.namespace}:" if pattern.namespace else namespace)
        elif isinstance(pattern, URLPattern) and pattern.name:
            yield route, namespace + pattern.name, list(pattern.pattern.converters)


def pages(values: dict[str, Any], client: Client) -> list[str]:
    """The addresses that answer a reader with a page."""
    found = []
    for route, name, parameters in patterns():
        if route.startswith(NOT_OURS) or name in FILES:
            continue
        unknown = [parameter for parameter in parameters if parameter not in values]
        assert not unknown, f"{name} takes {unknown}: give samples() a value, so that the page can be looked at"
        address = reverse(name, kwargs={parameter: values[parameter] for parameter in parameters})
        answer = client.get(address)
        if answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/html"):
            # What has no head of its own is part of another page.
            if b"<html" in answer.content:
                found.append(address)
        else:
            assert answer.status_code in (200, 302, 405), f"{address} answers {answer.status_code}"
    return found


def issues(page: Page, colours: bool = False) -> list[str]:
    """What axe-core finds that is serious or critical, with the places; with `colours`, of these alone."""
    # Evaluated by the browser's debugger, which the page's own policy against foreign scripts does not concern.
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(AXE)
    only = {"type": "rule", "values": COLOURS} if colours else {"type": "tag", "values": RULES}
    result = page.evaluate("only => axe.run(document, {runOnly: only, resultTypes: ['violations']})", only)
    return [
        f"{issue['id']} ({issue['impact']}): {issue['help']}: "
        + "; ".join(f"{node['target']} {node['html'][:160]}" for node in issue["nodes"][:4])
        for issue in result["violations"]
        if issue["impact"] in ("serious", "critical")
    ]


def looked_at(page: Page, address: str, scheme: str) -> list[str]:
    """The issues of one page at every width."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    answer = page.goto(address)
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("document.readyState === 'complete' && document.fonts.status === 'loaded'")
        found += [f"{address} {scheme} {width} px: {issue}" for issue in issues(page, colours=scheme == "dark")]
        found += [f"{address} {width} px: wider than the window: {item}" for item in too_wide(page)]
    assert answer is not None
    return found


def test_no_page_has_a_serious_or_critical_issue(visit: Visit) -> None:
    values = samples()
    client = Client()
    reader = a_user("everything", "viewer", "operator", "reviewer", "lead", "policy admin")
    client.force_login(reader)
    found = pages(values, client)
    assert len(found) > 10
    found.append(reverse("verdicts:port") + "?owner=leaf-3&port=Ethernet5%2F1")
    page = visit(group="administrator")
    problems = [problem for scheme in SCHEMES for address in found for problem in looked_at(page, address, scheme)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_log_in_page_and_what_is_shown_instead_of_a_page(visit: Visit, scheme: str) -> None:
    page = visit("/accounts/login/")
    assert looked_at(page, "/accounts/login/?next=/verdicts/", scheme) == []


def test_pages_that_stand_where_there_is_none(visit: Visit, site: str) -> None:
    page = visit("/accounts/login/")
    client = Client()
    client.force_login(a_user("ada", "viewer"))
    shown = {name: _rendered(name) for name in ("400.html", "500.html", "403_csrf.html")}
    shown |= {address: client.get(address).content.decode() for address in ("/nothing/", "/upload/")}
    for name, text in shown.items():
        for scheme in SCHEMES:
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            # Not opened by its address: a browser complains of every status but 200 in its console.
            page.set_content(text.replace('"/static/', f'"{site}/static/'))
            assert issues(page) == [], (name, scheme)


def _rendered(name: str) -> str:
    return render_to_string(name, {"request_id": "abcdefgh-1234"}, request=HttpRequest())
