"""The pages and the API about rules: the catalogue, one rule, and what the rules cover."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.paginator import Paginator
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import a_verdict, an_attempt, body, evidence, finding, nvlink_attempt, nvlink_body
from tests.verdicts.test_pages import page_of, text_of
from verdicts.conclude import current_ruleset
from verdicts.rulebook import catalogue

pytestmark = pytest.mark.django_db

RULES, COVERAGE = "/rules/", "/rules/coverage/"
OFF_THE_BUS = "/rules/gpu.off-the-bus/"
Visitor = Callable[..., Client]
Clients = Callable[..., APIClient]


@pytest.fixture
def as_(client: Client) -> Visitor:
    """The client, logged in as somebody of the groups named."""

    def log_in(*groups: str) -> Client:
        client.force_login(a_user("-".join(groups) or "nobody", *groups))
        return client

    return log_in


def off_the_bus(job: str = "1", *, days_ago: float = 1, status: str = "causes", **more: Any) -> Any:
    """A stored verdict with a finding of gpu.off-the-bus, whose attempt ended some days ago."""
    end = (timezone.now() - timedelta(days=days_ago)).isoformat()
    found = finding(
        "f1",
        "gpu.off-the-bus",
        "The GPU stopped answering on the PCIe bus",
        domain="gpu_hardware",
        symptom="gpu_off_bus",
        strength="moderate",
        evidence=[evidence("NVRM: Xid (PCI:0000:65:00): 79", "syslog/n.log:1")],
        **more,
    )
    return a_verdict(an_attempt(job, end=end), body(**{status: [found]}))


# --- Who may see what ---------------------------------------------------------------------------

PAGES = [RULES, OFF_THE_BUS, COVERAGE, "/rules/unrecognised/", "/rules/drift/"]
API = ["rules", "rules/gpu.off-the-bus", "rules/coverage", "rules/unrecognised", "rules/drift"]


@pytest.mark.parametrize("address", PAGES)
def test_who_is_not_logged_in_is_sent_to_log_in(client: Client, address: str) -> None:
    assert client.get(address)["Location"].startswith("/accounts/login/?next=/rules/")


@pytest.mark.parametrize("address", PAGES)
def test_a_viewer_may_read_and_an_account_without_a_role_may_not(as_: Visitor, address: str) -> None:
    assert as_("viewer").get(address).status_code == 200
    assert as_().get(address).status_code == 403


@pytest.mark.parametrize("address", API)
def test_the_api_has_the_same_rights(client_of: Clients, address: str) -> None:
    assert client_of("viewer").get(f"/api/v1/{address}").status_code == 200
    assert client_of().get(f"/api/v1/{address}").status_code == 403
    assert APIClient().get(f"/api/v1/{address}").status_code == 401


@pytest.mark.parametrize("address", PAGES)
def test_pages_are_read_only(as_: Visitor, address: str) -> None:
    assert as_("lead").post(address).status_code == 405


def test_no_page_has_an_inline_script_or_style(as_: Visitor) -> None:
    client = as_("viewer")
    for address in PAGES:
        response = client.get(address)
        html = response.content.decode()
        assert "unsafe" not in response["Content-Security-Policy"]
        assert not re.search(r"<script(?![^>]*\bsrc=)", html)
        assert not re.search(r"<style|\sstyle=|\son\w+=", html)
        assert not re.search(r'(?:src|action)="(?:https?:)?//', html)


# --- The catalogue ------------------------------------------------------------------------------


def test_the_catalogue_counts_what_is_stored_in_thirty_days_and_knows_the_last_match(as_: Visitor) -> None:
    off_the_bus("1")
    off_the_bus("2", days_ago=2)
    off_the_bus("3", days_ago=40)
    page = as_("viewer").get(RULES, {"text": "stopped answering on the PCIe", "subject": "gpu"})
    said = text_of(page)
    assert "The GPU stopped answering on the PCIe bus" in said
    assert "2 attempts 2 findings" in said
    assert "1 day ago" in said


def test_a_superseded_verdict_is_not_counted(as_: Visitor) -> None:
    verdict = off_the_bus("1")
    a_verdict(verdict.attempt, body(), number=2)
    assert "never stored" in text_of(as_("viewer").get(RULES, {"text": "gpu.off-the-bus"}))


FILTERS: list[tuple[dict[str, Any], Callable[[Any], bool]]] = [
    ({"subject": ["gpu", "nvlink"]}, lambda rule: rule.subject in ("gpu", "nvlink")),
    ({"domain": "storage"}, lambda rule: rule.domain == "storage"),
    ({"role": "noise"}, lambda rule: rule.role == "noise"),
    ({"maturity": "draft"}, lambda rule: rule.maturity == "draft"),
    ({"source": "kubernetes"}, lambda rule: "kubernetes" in rule.match.sources),
    ({"symptom": "gpu_off_bus"}, lambda rule: rule.symptom == "gpu_off_bus"),
]


@pytest.mark.parametrize(("query", "wanted"), FILTERS, ids=[str(query) for query, _ in FILTERS])
def test_the_filters_of_page_and_api_are_the_same(
    as_: Visitor, client_of: Clients, query: dict[str, Any], wanted: Callable[[Any], bool]
) -> None:
    expected = {rule.id for rule in current_ruleset().rules if wanted(rule)}
    page = as_("viewer").get(RULES, query).context["page"]
    assert page.paginator.count == len(expected)
    assert {row.rule.id for row in page.object_list} <= expected
    answer = client_of("viewer", "lead").get("/api/v1/rules", {**query, "limit": 500}).json()
    assert {row["id"] for row in answer["results"]} == expected


@pytest.mark.parametrize(
    "query", [{"domain": "nonsense"}, {"nonsense": "1"}, {"order": "size"}, {"role": "x"}], ids=str
)
def test_a_filter_that_is_not_understood_finds_nothing_and_says_so(
    as_: Visitor, client_of: Clients, query: dict[str, str]
) -> None:
    said = text_of(as_("viewer").get(RULES, query))
    assert "Nothing was looked for" in said
    assert "0 rules" in said
    refused = client_of("viewer", "lead").get("/api/v1/rules", query)
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["attr"] == next(iter(query))


def test_sorted_by_findings_and_by_last_match_with_the_never_found_last(as_: Visitor) -> None:
    off_the_bus("1")
    a_verdict(an_attempt("2", end=timezone.now().isoformat()), body(causes=[finding("f1", "kernel.pcie-fatal", "AER")]))
    client = as_("viewer")
    rows = client.get(RULES, {"order": "-last"}).context["page"].object_list
    assert [row.rule.id for row in rows[:2]] == ["kernel.pcie-fatal", "gpu.off-the-bus"]
    rows = client.get(RULES, {"order": "last"}).context["page"].object_list
    assert [row.rule.id for row in rows[:2]] == ["gpu.off-the-bus", "kernel.pcie-fatal"]
    rows = client.get(RULES, {"order": "-findings"}).context["page"].object_list
    assert {row.rule.id for row in rows[:2]} == {"gpu.off-the-bus", "kernel.pcie-fatal"}


def test_the_catalogue_has_pages_and_swaps_its_results_alone(as_: Visitor) -> None:
    client = as_("viewer")
    first, second = (client.get(RULES, {"page": number}).context["page"].object_list for number in (1, 2))
    assert not {row.rule.id for row in first} & {row.rule.id for row in second}
    part = client.get(RULES, headers={"HX-Request": "true", "HX-Target": "results"})
    assert "<html" not in part.content.decode()
    assert 'id="results"' in part.content.decode()


def test_rules_that_leave_no_finding_are_not_called_unused(as_: Visitor, client_of: Clients) -> None:
    assert "leaves no finding" in text_of(as_("viewer").get(RULES, {"role": "noise"}))
    answer = client_of("viewer", "lead").get("/api/v1/rules", {"role": "noise"}).json()
    assert answer["results"][0]["findings"] is None


# --- One rule -----------------------------------------------------------------------------------


def test_a_rule_says_what_it_means_matches_explains_and_advises(as_: Visitor) -> None:
    off_the_bus()
    page = as_("viewer").get(OFF_THE_BUS)
    said, html = text_of(page), page.content.decode()
    rule = current_ruleset().by_id["gpu.off-the-bus"]
    for words in (
        rule.title,
        rule.meaning,
        rule.impact.replace("'", "&#x27;"),
        rule.check,
        rule.now,
        "gpu/off-the-bus.toml",
        current_ruleset().digest[:12],
        "shipped",
        "in 1 attempt",
        "Expected: matches 1",
    ):
        assert words in said, words
    assert 'href="/verdicts/?symptom=gpu_off_bus"' in html
    assert 'href="/verdicts/?rule=gpu.off-the-bus"' in html
    assert 'href="/verdicts/?rule=gpu.off-the-bus&amp;status=cause"' in html
    assert 'href="/rules/kernel.pcie-fatal/"' in html  # explains it
    assert 'href="/rules/gpu.needs-reset/"' in html  # is explained by it
    for link in rule.links:
        assert f'href="{link}" rel="noopener noreferrer external"' in html


def test_the_server_s_directories_are_not_shown(as_: Visitor, client_of: Clients) -> None:
    folder = str(catalogue.CATALOGUE)
    assert folder not in as_("viewer").get(OFF_THE_BUS).content.decode()
    assert folder not in client_of("viewer", "lead").get("/api/v1/rules/gpu.off-the-bus").content.decode()


def test_every_rule_has_a_page(as_: Visitor) -> None:
    client = as_("viewer")
    seen = set()
    for rule in current_ruleset().rules:
        # One of each kind: subject, role and whether it has decoders, conditions or examples of incidents.
        kind = (rule.subject, rule.role, bool(rule.match.decode), bool(rule.match.where), bool(rule.confirms))
        if kind not in seen:
            seen.add(kind)
            assert client.get(f"/rules/{rule.id}/").status_code == 200, rule.id


def test_a_rule_that_is_gone_is_told_from_one_that_never_was(as_: Visitor, client_of: Clients) -> None:
    a_verdict(an_attempt("1"), body(causes=[finding("f1", "gpu.of-old", "Of old")]))
    client = as_("viewer")
    gone = client.get("/rules/gpu.of-old/")
    assert gone.status_code == 404
    assert "in the ruleset in force" in text_of(gone)
    never = client.get("/rules/gpu.never-was/")
    assert never.status_code == 404
    assert "There is nothing at this address" in text_of(never)
    assert client_of("viewer", "lead").get("/api/v1/rules/gpu.of-old").status_code == 404


def test_only_addresses_of_the_web_become_links() -> None:
    rule = current_ruleset().by_id["gpu.off-the-bus"]
    shown = catalogue.view(current_ruleset(), rule.id)
    assert shown is not None
    given = type(rule)(
        **{**{f: getattr(rule, f) for f in rule.__struct_fields__}, "links": ["javascript:alert(1)", "https://x/"]}
    )
    shown = type(shown)(**{**vars(shown), "rule": given})
    assert shown.addresses == ["https://x/"]
    assert shown.references == ["javascript:alert(1)"]


def test_the_api_has_a_rule_with_its_examples_and_its_use(client_of: Clients) -> None:
    off_the_bus()
    answer = client_of("viewer").get("/api/v1/rules/gpu.off-the-bus").json()
    assert answer["use"]["attempts"] == 1
    assert answer["use"]["made_of"] == {"cause": 1}
    assert answer["examples"][0]["expect"]["matches"] == 1
    assert answer["ruleset"] == current_ruleset().digest
    assert "kernel.pcie-fatal" in answer["explained_by"]


# --- On a verdict -------------------------------------------------------------------------------


def test_a_verdict_leads_to_its_rules_and_says_what_keeps_a_cause_from_being_strong(as_: Visitor) -> None:
    verdict = off_the_bus(why="the node is not known; the kernel log was not collected")
    page = as_("viewer").get(page_of(verdict))
    assert 'href="/rules/gpu.off-the-bus/"' in page.content.decode()
    said = text_of(page)
    assert "What keeps it from being strong: the node is not known; the kernel log was not collected." in said


def test_a_candidate_says_it_too_and_a_strong_cause_has_nothing_to_say(as_: Visitor) -> None:
    client = as_("viewer")
    verdict = off_the_bus("1", status="candidates", why="the rule is a draft")
    assert "What keeps it from being strong: the rule is a draft." in text_of(client.get(page_of(verdict)))
    assert "keeps it from" not in text_of(client.get(page_of(a_verdict(nvlink_attempt(), nvlink_body()))))


# --- Coverage -----------------------------------------------------------------------------------


def test_the_coverage_map_has_every_published_class_and_every_xid(as_: Visitor, client_of: Clients) -> None:
    table = catalogue.coverage_map(current_ruleset())
    page = as_("viewer").get(COVERAGE)
    html, said = page.content.decode(), text_of(page)
    assert len(re.findall(r'class="col-class"', html)) == sum(len(one.classes) for one in table.taxonomies)
    assert len(re.findall(r'class="col-xid"', html)) == len(table.xids)
    assert "419" in said
    assert f"{sum(1 for xid in table.xids if xid.rules)} of {len(table.xids)} Xid numbers have one" in said
    answer = client_of("viewer", "lead").get("/api/v1/rules/coverage").json()
    assert [one["id"] for one in answer["taxonomies"]] == [one.id for one in table.taxonomies]
    assert answer["ruleset"] == current_ruleset().digest


def test_the_gaps_alone_can_be_asked_for(as_: Visitor, client_of: Clients) -> None:
    page = as_("viewer").get(COVERAGE, {"show": "gaps"})
    classes = [entry for one in page.context["taxonomies"] for entry in one.classes]
    assert classes
    assert not any(entry.rules for entry in classes)
    assert page.content.decode().count('class="chip amber open">no rule') == len(classes)
    answer = client_of("viewer", "lead").get("/api/v1/rules/coverage", {"show": "gaps"}).json()
    assert not any(xid["rules"] for xid in answer["xids"])


# --- Budgets: they may only shrink --------------------------------------------------------------

LIST_QUERIES = 7
RULE_QUERIES = 12
COVERAGE_QUERIES = 4


def test_the_pages_cost_the_same_whatever_is_stored(
    as_: Visitor, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client = as_("viewer")
    for number in range(8):
        if number in (1, 7):
            for address, queries in ((RULES, LIST_QUERIES), (OFF_THE_BUS, RULE_QUERIES), (COVERAGE, COVERAGE_QUERIES)):
                client.get(address)
                with django_assert_num_queries(queries):
                    client.get(address)
        off_the_bus(str(number))


def test_a_list_of_several_pages_says_where_it_goes_on() -> None:
    page = Paginator(range(2500), 1).page(1001)
    request = RequestFactory().get("/rules/", {"page": "1001", "q": "a&b"})
    html = render_to_string("rules/_pager.html", {"page": page, "part": True}, request=request)
    assert 'href="?page=1000&amp;q=a%26b"' in html
    assert 'href="?page=1002&amp;q=a%26b"' in html
    assert "Page 1,001 of 2,500" in html
    assert 'hx-target="#results"' in html
