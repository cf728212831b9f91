"""The timeline as a figure for Plotly: a lane a row, a band where a time can lie, a mark where it was printed."""

import datetime as dt
from typing import Any

from rules.stamp import MICRO
from verdicts.charts import words
from verdicts.verdict_page.timeline import Mark, Timeline, status_word

ROW, HEAD = 46, 96
#: Told by shape as well as by colour.
LOOKS: dict[str, tuple[str, str]] = {
    "cause": ("var(--red)", "diamond"),
    "candidate": ("var(--amber)", "square"),
    "demoted": ("var(--blue)", "circle-open"),
    "interesting": ("var(--grey)", "triangle-up-open"),
    "attempt": ("var(--teal)", "line-ns-open"),
    "person": ("var(--violet)", "star"),
}
#: What stands at one time in one lane lies beneath each other, as parts of a row; what is blamed is drawn last.
BESIDE = {"demoted": -0.14, "interesting": -0.28, "attempt": 0.1}
NAMES = {
    "cause": "Cause",
    "candidate": "Candidate",
    "demoted": "Explained symptom",
    "interesting": "Kept, not blamed",
    "attempt": "Scheduler's word",
    "person": "Person or verdict",
}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - Plotly's axis has no zone; its title says which it is
_FIRST, _LAST = -62_135_596_800 * MICRO, 253_402_300_799 * MICRO
#: A name longer than this is cut above its lane.
LONGEST = 90


def figure(line: Timeline) -> dict[str, Any] | None:
    """What charts.js draws; None where no time can be drawn."""
    drawn = [mark for mark in line.drawn if mark.lane in line.lanes]
    if not drawn or not line.views:
        return None
    lanes = [lane for lane in line.lanes if any(mark.lane == lane for mark in drawn)]
    rows = {lane: len(lanes) - 1 - number for number, lane in enumerate(lanes)}
    data: list[dict[str, Any]] = []
    for status in reversed(LOOKS):
        marks = [mark for mark in drawn if mark.status == status]
        if marks:
            data += [*_bands(status, marks, rows), _marks(status, marks, rows)]
    if line.clock == "utc" and (read := [mark for mark in drawn if mark.read_micros is not None]):
        data.insert(0, _reads(read, rows))
    _, low, high = line.views[0]
    return {
        "data": data,
        "layout": {
            "height": HEAD + ROW * len(lanes),
            "showlegend": True,
            "legend": {
                "orientation": "h",
                "x": 0,
                "y": 1,
                "yanchor": "bottom",
                "itemclick": False,
                "traceorder": "reversed",
            },
            "margin": {"l": 8, "r": 12, "t": 56, "b": 44},
            "xaxis": {
                "type": "date",
                "range": [_at(low), _at(high)],
                "title": {"text": "UTC" if line.clock == "utc" else "time of the logs, without an offset"},
                "hoverformat": "%Y-%m-%d %H:%M:%S.%L",
            },
            "yaxis": {
                "range": [-0.6, len(lanes) - 0.25],
                "fixedrange": True,
                "showticklabels": False,
                "tickvals": list(range(len(lanes))),
                "zeroline": False,
                "automargin": False,
            },
            "annotations": [
                {
                    "x": 0,
                    "xref": "paper",
                    "xanchor": "left",
                    "y": row,
                    "yshift": 15,
                    "text": words(lane, LONGEST),
                    "showarrow": False,
                    "align": "left",
                    "font": {"color": "var(--ink-2)", "size": 12},
                }
                for lane, row in rows.items()
            ],
        },
    }


def view_steps(line: Timeline) -> list[tuple[str, dict[str, Any]]]:
    """Each stretch of time with what a button does to the chart."""
    return [(name, {"xaxis.range": [_at(low), _at(high)]}) for name, low, high in line.views]


def _at(micros: int) -> str:
    """A time as Plotly reads it, within the calendar."""
    micros = min(max(micros, _FIRST), _LAST)
    return (_EPOCH + dt.timedelta(microseconds=micros)).isoformat(sep=" ")


def _row(mark: Mark, rows: dict[str, int]) -> float:
    return rows[mark.lane] + BESIDE.get(mark.status, 0.0)


def _bands(status: str, marks: list[Mark], rows: dict[str, int]) -> list[dict[str, Any]]:
    """Where the times can lie, wide and faint; from the first to the last line, narrow."""
    colour, _ = LOOKS[status]
    can: tuple[list[Any], list[Any]] = ([], [])
    was: tuple[list[Any], list[Any]] = ([], [])
    for mark in marks:
        if mark.earliest is None or mark.latest is None:
            continue
        row = _row(mark, rows)
        can[0].extend([_at(mark.earliest.earliest), _at(mark.latest.latest), None])
        can[1].extend([row, row, None])
        if mark.last:
            was[0].extend([_at(mark.micros), _at(mark.end_micros), None])
            was[1].extend([row, row, None])
    plain = {"type": "scatter", "mode": "lines", "hoverinfo": "skip", "showlegend": False}
    wide = plain | {"x": can[0], "y": can[1], "opacity": 0.2, "line": {"color": colour, "width": 12}}
    narrow = plain | {"x": was[0], "y": was[1], "line": {"color": colour, "width": 3}}
    return [wide, narrow] if was[0] else [wide]


def _marks(status: str, marks: list[Mark], rows: dict[str, int]) -> dict[str, Any]:
    colour, symbol = LOOKS[status]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": NAMES[status],
        "x": [_at(mark.micros) for mark in marks],
        "y": [_row(mark, rows) for mark in marks],
        "customdata": [mark.link for mark in marks],
        "hovertext": [_hover(mark) for mark in marks],
        "hoverinfo": "text",
        "marker": {"color": colour, "symbol": symbol, "size": 13, "line": {"width": 2, "color": colour}},
    }


def _reads(marks: list[Mark], rows: dict[str, int]) -> dict[str, Any]:
    """When a collector read the line, apart from when it happened."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "Read by a collector",
        "x": [_at(mark.read_micros or 0) for mark in marks],
        "y": [_row(mark, rows) for mark in marks],
        "customdata": [mark.link for mark in marks],
        "hovertext": [words(f"read: {mark.title}") + "<br>" + words(mark.observed or "") for mark in marks],
        "hoverinfo": "text",
        "marker": {"color": "var(--ink-2)", "symbol": "x-thin-open", "size": 9, "line": {"width": 2}},
    }


def _hover(mark: Mark) -> str:
    until = (mark.end_micros - mark.micros) / MICRO
    said = [
        f"{status_word(mark.status)}: {mark.title}",
        mark.detail,
        f"{mark.first} {mark.within}" + (f", over {until:,.1f} s" if mark.last else ""),
        mark.versus,
        mark.why,
        f"read {mark.observed}" if mark.observed else "",
    ]
    return "<br>".join(words(text) for text in said if text)
