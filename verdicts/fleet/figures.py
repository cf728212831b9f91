"""Charts of the fleet as plain data. The table beside each has the same numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from verdicts.charts import words
from verdicts.fleet.find import NodeRow, Span, causes
from verdicts.fleet.ports import Sighting
from verdicts.models import ListRow, Node

MOST_ROWS = 20
MOST_COLUMNS = 14
WEEK = timedelta(weeks=1)


def _heat(
    x: list[str], y: list[str], z: list[list[int]], at: list[list[str]], what: str, axes: tuple[str, str], foot: int
) -> dict[str, Any]:
    """A heat map with its axes named; nothing is not coloured, so that it cannot be read as a little.

    `foot` is the room for the names below, which are turned.
    """
    return {
        "data": [
            {
                "type": "heatmap",
                "x": x,
                "y": y,
                "z": [[number or None for number in row] for row in z],
                "text": [[str(number) if number else "" for number in row] for row in z],
                "customdata": at,
                "texttemplate": "%{text}",
                "hovertemplate": f"%{{y}}, %{{x}}: %{{z}} {what}<extra></extra>",
                "colorscale": [[0, "var(--blue-bg)"], [1, "var(--blue-line)"]],
                "showscale": False,
                "xgap": 2,
                "ygap": 2,
            }
        ],
        "layout": {
            "height": 36 + foot + 26 * len(y),
            "margin": {"t": 36, "b": foot, "l": 10, "r": 10},
            "xaxis": {"type": "category", "tickangle": -35, "automargin": True, "title": {"text": axes[0]}},
            "yaxis": {
                "type": "category",
                "autorange": "reversed",
                "automargin": True,
                "title": {"text": axes[1], "standoff": 16},
            },
        },
    }


def _listed(**query: str) -> str:
    return f"{reverse('verdicts:list')}?{urlencode(query)}"


@dataclass(frozen=True)
class Heat:
    """Nodes by symptom: the columns, and for each node a number for each column."""

    symptoms: list[str]
    rows: list[tuple[NodeRow, list[int]]]


def nodes_by_symptom(rows: Sequence[NodeRow]) -> Heat:
    """For what the most often blamed nodes were blamed, the most frequent symptoms first."""
    shown = [row for row in rows if row.symptoms][:MOST_ROWS]
    totals: dict[str, int] = {}
    for row in shown:
        for symptom, number in row.symptoms:
            totals[symptom] = totals.get(symptom, 0) + number
    symptoms = sorted(totals, key=lambda symptom: (-totals[symptom], symptom))[:MOST_COLUMNS]
    return Heat(symptoms, [(row, [dict(row.symptoms).get(symptom, 0) for symptom in symptoms]) for row in shown])


def heat_map(heat: Heat, span: Span) -> dict[str, Any] | None:
    """The same as a chart; each field leads to its verdicts."""
    if not heat.symptoms:
        return None
    time = {"after": span.after.isoformat(), "before": span.before.isoformat()}
    several = len({row.cluster for row, _ in heat.rows}) > 1
    return _heat(
        [words(symptom) for symptom in heat.symptoms],
        [words(f"{row.name} ({row.cluster or 'no cluster'})" if several else row.name, 48) for row, _ in heat.rows],
        [numbers for _, numbers in heat.rows],
        [[_listed(node=row.name, symptom=symptom, **time) for symptom in heat.symptoms] for row, _ in heat.rows],
        "verdicts",
        ("Symptom (the number in a field: verdicts)", "Node"),
        130,
    )


def weeks_of(span: Span) -> list[datetime]:
    """The Mondays from which the weeks of a time count, UTC."""
    first = span.after.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = first - timedelta(days=first.weekday())
    found = []
    while monday < span.before:
        found.append(monday)
        monday += WEEK
    return found


def symptoms_by_week(rows: Sequence[ListRow], span: Span) -> list[tuple[str, list[int]]]:
    """For what a node was blamed, week by week; the most frequent first."""
    return _by_week(((symptom, row.happened_at) for row in rows for symptom in causes(row)), span)


def sightings_by_week(seen: Sequence[Sighting], span: Span) -> list[tuple[str, list[int]]]:
    """What was seen at a port, week by week; the most frequent first."""
    return _by_week({(one.verdict, one.symptom): (one.symptom, one.at) for one in seen}.values(), span)


def _by_week(times: Iterable[tuple[str, datetime]], span: Span) -> list[tuple[str, list[int]]]:
    weeks = weeks_of(span)
    counted: dict[str, list[int]] = {}
    for symptom, at in times:
        place = next((index for index in range(len(weeks) - 1, -1, -1) if weeks[index] <= at), None)
        if place is not None:
            counted.setdefault(symptom, [0] * len(weeks))[place] += 1
    return sorted(counted.items(), key=lambda item: (-sum(item[1]), item[0]))[:MOST_COLUMNS]


def node_over_time(node: Node, counted: Sequence[tuple[str, list[int]]], span: Span) -> dict[str, Any] | None:
    """The same as a heat map; each field leads to the verdicts of its week."""
    return _over_time(counted, span, node=node.name)


def port_over_time(counted: Sequence[tuple[str, list[int]]], span: Span) -> dict[str, Any] | None:
    """What was seen at a port as a heat map; each field leads to that symptom's verdicts of its week."""
    return _over_time(counted, span)


def _over_time(counted: Sequence[tuple[str, list[int]]], span: Span, **narrowed: str) -> dict[str, Any] | None:
    if not counted:
        return None
    weeks = weeks_of(span)
    return _heat(
        [f"{week:%Y-%m-%d}" for week in weeks],
        [words(symptom) for symptom, _ in counted],
        [numbers for _, numbers in counted],
        [
            [
                _listed(**narrowed, symptom=symptom, after=week.isoformat(), before=(week + WEEK).isoformat())
                for week in weeks
            ]
            for symptom, _ in counted
        ],
        "verdicts in the week from there",
        ("Week from Monday, UTC (the number in a field: verdicts)", "Symptom"),
        90,
    )
