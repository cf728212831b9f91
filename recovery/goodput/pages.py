"""The page about goodput: what failures cost and what would have cost less. The figures are the API's."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from recovery.goodput import find, reckon
from recovery.goodput.reckon import Lost
from recovery.goodput.timings import PARTS
from recovery.models import ProgressSample
from verdicts.charts import words
from verdicts.fleet.forms import SpanForm
from verdicts.guard import Request, permitted
from verdicts.models import Attempt
from verdicts.permissions import may_read
from verdicts.wording import DOMAINS, plain

#: What a loss is made of, in words, and how it is drawn.
KINDS = {
    "replay": ("trained after the last checkpoint", "var(--blue)", ""),
    "hang": ("held while it hung", "var(--amber)", "/"),
    "restore": ("held until it trained again", "var(--violet)", "."),
}
#: Bars of the chart; the table has all causes.
MOST_DRAWN = 8


@require_safe
@permitted(may_read)
def page(request: Request) -> HttpResponse:
    """What failures of a time cost, by cause; how long recoveries took; what would have cost less."""
    form = SpanForm(request.GET)
    context: dict[str, Any] = {
        "section": "recovery",
        "tab": "goodput",
        "form": form,
        "parts": [*PARTS, "total"],
        "kinds": [(kind, text) for kind, (text, _, _) in KINDS.items()],
        "nothing_stored": not Attempt.objects.exists(),
    }
    if not form.errors and not context["nothing_stored"]:
        found = find.measured(form.span, form.cluster)
        context |= {
            "found": found,
            "progress_known": ProgressSample.objects.exists(),
            "losses": [("By cause", _losses(found.by_cause)), ("By cluster", _losses(found.by_cluster))],
            "times": [
                (
                    title,
                    [
                        (_title(name), n, [spreads[part] for part in (*PARTS, "total")])
                        for name, (n, spreads) in rows.items()
                    ],
                )
                for title, rows in (
                    ("By who recovered it", found.by_hand_or_not),
                    ("By cause", found.by_cause_times),
                    ("By cluster", found.by_cluster_times),
                )
            ],
            "lost_figure": _lost_figure(found.by_cause) if any(row.total for row in found.by_cause) else None,
            "time_figure": _time_figure(found.totals) if found.totals else None,
        }
    return render(request, "recovery/goodput.html", context)


def _title(name: str) -> str:
    """A domain as everywhere else, with what may stand after a comma; any other name as it is."""
    first, comma, rest = name.partition(", ")
    return (DOMAINS[first].text if first in DOMAINS else plain(first)) + comma + rest


def _losses(rows: Sequence[Lost]) -> list[tuple[str, Lost, list[tuple[float, int, int]]]]:
    """Each row with its parts: GPU-hours, of how many failures, of how many not known."""
    return [
        (_title(row.cause), row, [(row.hours[kind], row.known[kind], row.unknown[kind]) for kind in reckon.KINDS])
        for row in rows
    ]


def _lost_figure(rows: Sequence[Lost]) -> dict[str, Any]:
    """Lost GPU-hours by cause, stacked by what they are made of."""
    drawn = list(rows[:MOST_DRAWN])
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "name": text,
                "y": [words(_title(row.cause)) for row in drawn],
                "x": [round(row.hours[kind], 2) for row in drawn],
                "marker": {"color": colour, "pattern": {"shape": shape}},
                "hovertemplate": "%{x:,.1f} GPU-hours",
            }
            for kind, (text, colour, shape) in KINDS.items()
        ],
        "layout": {
            "barmode": "stack",
            "height": 120 + 36 * len(drawn),
            "xaxis": {"title": {"text": "GPU-hours"}, "rangemode": "tozero"},
            "yaxis": {"autorange": "reversed", "automargin": True},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        },
    }


def _time_figure(totals: Sequence[float]) -> dict[str, Any]:
    """How long until it trained again, as the share that had by a time."""
    minutes = [seconds / 60 for seconds in totals]
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "line": {"shape": "hv", "color": "var(--blue)"},
                "x": [round(value, 2) for value in minutes],
                "y": [round(100 * (place + 1) / len(minutes), 1) for place in range(len(minutes))],
                "hovertemplate": "%{y:.0f} % within %{x:,.1f} min",
                "showlegend": False,
            }
        ],
        "layout": {
            "height": 300,
            "xaxis": {"title": {"text": "minutes from the failure until it trained again"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "recoveries, %"}, "range": [0, 105]},
        },
    }
