"""Every page that takes no argument in its path answers an address that nobody meant: with a page or a refusal."""

from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests.verdicts.builders import a_user

pytestmark = pytest.mark.django_db

#: What pages read of an address, with what no field of theirs can mean.
NAMES = (
    *(
        "q",
        "query",
        "filter",
        "ruleset",
        "rule",
        "by",
        "order",
        "show",
        "kind",
        "state",
        "days",
        "weeks",
        "until",
        "after",
    ),
    *(
        "before",
        "page",
        "limit",
        "offset",
        "cursor",
        "cluster",
        "node",
        "attempt",
        "workload",
        "policy",
        "job",
        "origin",
    ),
)
VALUES = (
    "x",
    "//[x?a=b",
    "-1",
    "9" * 40,
    "\ud800".encode("utf-8", "surrogatepass").decode("latin1"),
    "\x00",
    "%",
    "'\"<b>",
)


def _addresses(patterns: list[URLPattern | URLResolver], start: str = "/") -> Iterator[str]:
    for one in patterns:
        address = start + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from _addresses(one.url_patterns, address)
        elif not set("<^(") & set(address):
            yield address


#: What these answer with has no end, or ends what is asked with.
_NOT_ASKED = ("/admin", "/accounts", "/static", "/metrics", "/api/v1/schema")
ADDRESSES = sorted({at for at in _addresses(get_resolver().url_patterns) if not at.startswith(_NOT_ASKED)})


@pytest.fixture
def client() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(a_user("ada", "administrator"))
    return client


@pytest.mark.parametrize("value", VALUES)
def test_no_page_fails_at_an_address(client: Client, value: str) -> None:
    assert len(ADDRESSES) > 40
    failed = [address for address in ADDRESSES if client.get(address, dict.fromkeys(NAMES, value)).status_code >= 500]
    assert not failed


def test_no_page_fails_at_one_parameter(client: Client) -> None:
    failed = [
        f"{address}?{name}"
        for address in ADDRESSES
        if not address.startswith("/api/")
        for name in NAMES
        if client.get(address, {name: "//[x"}).status_code >= 500
    ]
    assert not failed


def test_a_browser_that_says_it_is_nowhere_is_led_to_the_log_in_page() -> None:
    client = Client(raise_request_exception=False)
    response = client.get("/verdicts/", headers={"HX-Request": "true", "HX-Current-URL": "http://[x"})
    assert response.status_code == 200 and "next=" in response.headers["HX-Redirect"]


@pytest.mark.parametrize("text", ["own", "a&" * 1500, "&".join(f"a{n}=1" for n in range(400)), "domain=" + "x" * 5000])
@pytest.mark.parametrize(
    ("address", "field"),
    [("views", "query"), ("record-batches", "filter"), ("recovery/replays", "query")],
)
def test_what_is_no_filter_does_not_ask_for_everything(client: Client, address: str, field: str, text: str) -> None:
    said = {"name": "mine", "kind": "own", field: text}
    answer = client.post(f"/api/v1/{address}", said, content_type="application/json")
    assert answer.status_code == 400 and field in answer.content.decode(), answer.content
