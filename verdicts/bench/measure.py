"""How long the console's pages take, beside the bare SQL that they need and the rendering of their rows.

A page is asked for in this process, through every middleware, by a logged-in reader. Its statements are then
sent again as they were, without the ORM, and its rows rendered again with the same context (of a page without rows the
whole template, of an API's answer its rows as plain data and the JSON): what the page took beyond both is what the code
around them costs.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db import connection
from django.template import Template
from django.template.loader import render_to_string
from django.test import Client
from django.test.signals import template_rendered
from django.test.utils import instrumented_test_render  # type: ignore[attr-defined]

from verdicts.models import ListRow

READER = "bench-reader"
_MAY = ("view_verdict", "review_verdict", "request_attribution")


@dataclass(frozen=True)
class Measured:
    """One page: times in milliseconds, how many statements, and how it compares with the bare work."""

    name: str
    address: str
    rows: int
    p50: float
    p95: float
    queries: int
    sql: float
    rendering: float

    @property
    def ratio(self) -> float:
        """The page's time over that of its bare SQL and of rendering its rows once."""
        return self.p50 / (self.sql + self.rendering)


def addresses() -> list[tuple[str, str]]:
    """What is asked for: pages and API calls, with filters alone and by two, near the top and far down."""
    blamed = ListRow.objects.filter(is_current=True, domain="gpu_hardware").order_by("-happened_at").first()
    if blamed is None:
        raise RuntimeError("there is nothing to measure: fill the database first")
    middle = ListRow.objects.order_by("id").values_list("happened_at", flat=True)[:1].get()
    node, day, after = blamed.nodes[0], f"{middle:%Y-%m-%d}", f"{blamed.happened_at:%Y-%m}-01"
    lists = {
        "all": "",
        "domain": "domain=gpu_hardware",
        "domain, cluster": "domain=gpu_hardware&cluster=atlas",
        "domain, state (few)": "domain=facility&state=hung",
        "domain, state (none)": "domain=no_failure&state=failed",
        "state, strength": "state=failed&strength=strong",
        "cluster, user": f"cluster=atlas&user={blamed.user}",
        "symptom, state (none)": "symptom=nccl_watchdog_timeout&state=succeeded",
        "node, domain": f"node={node}&domain=gpu_hardware",
        "node, domain (none)": f"node={node}&domain=no_failure",
        "symptom, cluster": "symptom=nccl_watchdog_timeout&cluster=delta",
        "symptom*, state": "symptom=nccl_*&state=hung",
        "review, domain": "review=wrong&domain=storage",
        "coverage, missing": "coverage=degraded&missing=syslog",
        "time, state": f"after={after}&state=failed",
        "time range": f"after={day}&before={day}T12:00Z",
        "text": "text=fell+off+the+bus",
        "text, domain": f"text={node}&domain=gpu_hardware",
        "text, state (none)": "text=fell&state=succeeded",
        "account, ruleset": f"account={blamed.account}&ruleset={blamed.ruleset[:12]}",
        "order by domain": "order=domain&cluster=atlas",
    }
    found = [("overview", "/")]
    found += [(f"list: {name}", f"/verdicts/?{query}") for name, query in lists.items()]
    found += [("verdict", f"/verdicts/{blamed.verdict_id}/")]
    found += [
        ("API: verdicts", "/api/v1/verdicts"),
        ("API: domain, cluster", f"/api/v1/verdicts?{lists['domain, cluster']}"),
    ]
    found += [("API: overview", "/api/v1/overview")]
    return found


def measure(times: int) -> Iterator[Measured]:
    """Measure each address so many times."""
    reader, _ = User.objects.get_or_create(username=READER)
    reader.user_permissions.set(Permission.objects.filter(content_type__app_label="verdicts", codename__in=_MAY))
    client = Client()
    client.force_login(reader)
    try:
        with _telling():
            far = _far_down(client, 99)
        for name, address in [*addresses(), ("list: page 100", far)]:
            yield _measured(client, name, address, times)
    finally:
        client.logout()
        reader.delete()


@contextmanager
def _telling() -> Iterator[None]:
    """Templates tell when they are rendered and with what, as they do for Django's own test client.

    Never while a page is timed: each template that is included would copy its whole context.
    """
    usual = Template._render  # type: ignore[attr-defined]  # noqa: SLF001 -- what Django's own test environment replaces
    Template._render = instrumented_test_render  # type: ignore[attr-defined]  # noqa: SLF001
    try:
        yield
    finally:
        Template._render = usual  # type: ignore[attr-defined]  # noqa: SLF001


def _far_down(client: Client, pages: int) -> str:
    """The address of a page that is so many pages on."""
    address = "/verdicts/"
    for _ in range(pages):
        following = client.get(address, headers={"HX-Request": "true", "HX-Target": "results"}).context["next"]
        if not following:
            break
        address = f"/verdicts/{following}"
    return address


def _measured(client: Client, name: str, address: str, times: int) -> Measured:
    for _ in range(3):
        answer = client.get(address)
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}")
    with _telling(), _recorded() as statements, _rendered() as renderings:
        answer = client.get(address)
    work = (lambda: client.get(address), lambda: _replay(statements), _rendering(answer, renderings))
    # In turn, so that whatever else the machine does meanwhile slows all three.
    taken, sql, rendering = zip(*([_timed(one) for one in work] for _ in range(times)), strict=True)
    return Measured(
        name=name,
        address=address,
        rows=len(_lines(answer)),
        p50=median(taken),
        p95=sorted(taken)[min(max(times * 95 // 100, 1), times - 1)],
        queries=len(statements),
        sql=median(sql),
        rendering=median(rendering),
    )


def _timed(work: Callable[[], Any]) -> float:
    """How long it takes, in milliseconds."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def _lines(answer: Any) -> list[Any]:
    """The rows of a list's page."""
    context = answer.context
    return list(context["answer"].lines) if context is not None and "answer" in context else []


def _rendering(answer: Any, renderings: list[tuple[Any, Any]]) -> Callable[[], Any]:
    """What renders a list's rows, or of another page the outermost template, or of an API its rows and the JSON."""
    if lines := _lines(answer):
        told = {"lines": lines, "may_choose": answer.context["may_choose"]}
        return lambda: render_to_string("verdicts/_list_rows.html", told)
    if not renderings:
        return lambda: answer.accepted_renderer.render(_plain(answer.data), "application/json", {})
    template, context = renderings[0]
    return lambda: template.render(context)


def _plain(data: Any) -> Any:
    """An API's answer with its rows made plain anew, as a template makes text of the rows that it is given."""
    rows = data.get("results")
    return {**data, "results": rows.serializer.to_representation(rows.serializer.instance)} if rows else data


@contextmanager
def _recorded() -> Iterator[list[tuple[str, Any]]]:
    statements: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield statements


@contextmanager
def _rendered() -> Iterator[list[tuple[Any, Any]]]:
    found: list[tuple[Any, Any]] = []

    def note(template: Any, context: Any, **_: Any) -> None:
        found.append((template, context))

    template_rendered.connect(note)
    try:
        yield found
    finally:
        template_rendered.disconnect(note)


def _replay(statements: list[tuple[str, Any]]) -> None:
    with connection.cursor() as cursor:
        for sql, params in statements:
            if sql.lstrip("( ").upper().startswith(("SELECT", "WITH", "SET LOCAL")):
                cursor.execute(sql, params)
                while cursor.description is None and cursor.nextset():
                    pass
                cursor.fetchall()


def as_row(measured: Measured) -> dict[str, Any]:
    """A measurement as it is kept for a later comparison."""
    return {**asdict(measured), "ratio": measured.ratio}
