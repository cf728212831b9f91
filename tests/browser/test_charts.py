"""Charts under the pages' own policy: drawn without an inline style, a script made of a string or a foreign request."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Visit
from verdicts.charts import words

FIGURE = {
    "data": [
        {"type": "scatter", "mode": "markers", "x": [1, 2, 3], "y": [3, 1, 2], "marker": {"color": "var(--red)"}},
        {"type": "bar", "x": [1, 2, 3], "y": [1, 2, 3], "xaxis": "x2", "yaxis": "y2", "customdata": ["#main"] * 3},
        {"type": "heatmap", "z": [[1, 2], [3, 4]], "xaxis": "x3", "yaxis": "y3", "colorbar": {"title": {"text": "n"}}},
    ],
    "layout": {"title": {"text": "Three kinds"}, "grid": {"rows": 1, "columns": 3, "pattern": "independent"}},
}


def draw(page: Page, figure: dict[str, Any], then: str = "/rules/drift/") -> None:
    """Show a figure on a page of the site, with the headers that the site sends."""
    source = json.dumps(figure).replace("<", "\\u003C")
    head = (
        '<link id="plotly.js-style-global" class="no-inline-styles" rel="stylesheet" '
        'href="/static/vendor/plotly/plotly.css"><script src="/static/vendor/plotly/plotly.min.js" defer></script>'
        '<script src="/static/verdicts/charts.js" defer></script>'
    )
    body = f'<div data-chart="figure"></div><script type="application/json" id="figure">{source}</script>'

    def with_chart(route: Route) -> None:
        answer = route.fetch()
        text = answer.text().replace("</head>", head + "</head>").replace("</main>", body + "</main>")
        route.fulfill(response=answer, body=text)

    page.route("**" + then, with_chart)
    page.goto(then)


def test_lines_bars_and_heat_maps_are_drawn_without_breaking_the_policy(visit: Visit) -> None:
    page = visit(group="viewer")
    draw(page, FIGURE)
    box = page.locator("[data-chart]")
    expect(box.locator(".scatterlayer .point")).to_have_count(3)
    expect(box.locator(".barlayer .point")).to_have_count(3)
    expect(box.locator(".heatmaplayer image")).to_have_count(1)
    expect(box.locator(".cbfills rect").first).to_be_attached()
    # The style sheet came: without it the drawing layers would not lie over each other.
    assert page.evaluate("getComputedStyle(document.querySelector('.main-svg')).position") == "absolute"
    expect(page.get_by_role("group", name="Chart: Three kinds")).to_be_visible()
    zoom = page.get_by_role("button", name=re.compile("zoom in", re.IGNORECASE))
    expect(zoom).to_be_visible()
    assert not page.evaluate("document.querySelectorAll('style').length")


def test_a_chart_follows_the_theme_and_prints_in_light(visit: Visit) -> None:
    page = visit(group="viewer")
    draw(page, FIGURE)

    def red() -> str:
        return str(page.evaluate("getComputedStyle(document.querySelector('.scatterlayer .point')).fill"))

    light = red()
    assert light == "rgb(156, 28, 20)"
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_function(
        "getComputedStyle(document.querySelector('.scatterlayer .point')).fill !== 'rgb(156, 28, 20)'"
    )
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(
        "getComputedStyle(document.querySelector('.scatterlayer .point')).fill === 'rgb(156, 28, 20)'"
    )
    assert page.evaluate("document.querySelector('.main-svg').getBoundingClientRect().width") == 640
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_function("document.querySelector('.main-svg').getBoundingClientRect().width > 1000")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_chart_fits_a_telephone_and_grows_with_its_window(visit: Visit) -> None:
    page = visit(group="viewer", width=320)
    draw(page, FIGURE)
    expect(page.locator(".main-svg").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function("document.querySelector('.main-svg').getBoundingClientRect().width > 900")


def test_text_out_of_a_log_is_text_in_a_chart(visit: Visit) -> None:
    page = visit(group="viewer")
    hostile = '<a href="https://evil.example/">x</a><b style="color:red">y</b> &lt; \x1b[31m %{x} <br>'
    draw(
        page,
        {
            "data": [{"type": "scatter", "mode": "text", "x": [1], "y": [words(hostile)], "text": [words(hostile)]}],
            "layout": {"title": {"text": words(hostile)}},
        },
    )
    shown = page.locator("[data-chart] text", has_text="evil.example")
    expect(shown.first).to_be_visible()
    assert page.locator("[data-chart] svg a").count() == 0
    assert page.locator("[data-chart] svg tspan[style]").count() == 0
    assert "&lt; \\x1b[31m %{x} <br>" in (shown.first.text_content() or "")
