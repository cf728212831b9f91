"""The landing page: what needs a person now, what failed, what keeps failing, and how often we were wrong."""

from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from verdicts import permissions, wording
from verdicts.charts import whole_ticks, words
from verdicts.guard import Request, permitted
from verdicts.listing.facets import text_of
from verdicts.models import Attempt
from verdicts.overview.find import OFFENDER_DAYS, RIGHT_DAYS, WEEKS, Overview, overview

#: Domains that a chart tells apart; the others are one colour, and the table has them all.
MOST_DRAWN = 6


@require_safe
@permitted(permissions.may_read)
def page(request: Request) -> HttpResponse:
    """The overview; a store with nothing in it says how to begin."""
    found = overview(timezone.now())
    context: dict[str, Any] = {
        "section": "overview",
        "found": found,
        "tiles": _tiles(found),
        "figure": _figure(found) if any(week.total.count for week in found.weeks) else None,
        "weeks": WEEKS,
        "offender_days": OFFENDER_DAYS,
        "right_days": RIGHT_DAYS,
        "nothing_stored": not found.today and not Attempt.objects.exists(),
    }
    return render(request, "verdicts/overview.html", context)


def _tiles(found: Overview) -> list[dict[str, Any]]:
    """What waits for a person: the number, its name, and what it counts."""
    week = "attempts of the last 7 days"
    return [
        {"number": found.ambiguous, "name": "Ambiguous", "sub": f"several causes fit, not reviewed; {week}"},
        {"number": found.unattributed, "name": "Unattributed", "sub": f"evidence too thin, not reviewed; {week}"},
        {
            "number": found.degraded,
            "name": "Degraded coverage",
            "sub": f"failed with a source missing in part, not reviewed; {week}",
        },
        {
            "number": found.failed_attributions,
            "name": "Attributions that failed",
            "sub": "the engine gave up; ask again or look why",
        },
        {"number": found.not_analysed, "name": "Not analysed", "sub": "attempts without any verdict"},
    ]


def _figure(found: Overview) -> dict[str, Any]:
    """Failures by week and domain, as stacked bars; each bar leads to its list."""
    # One that is left over is drawn, too: "1 other" takes as much room as its name.
    most = MOST_DRAWN + (len(found.domains) == MOST_DRAWN + 1)
    drawn, rest = found.domains[:most], found.domains[most:]
    at = reverse("verdicts:list")
    starts = [f"{week.start:%d %b}" for week in found.weeks]
    last = found.weeks[-1].start + timedelta(weeks=1)
    data = [
        {
            "type": "bar",
            "name": words(text_of("domain", domain)),
            "x": starts,
            "y": [week.domains[domain].count for week in found.weeks],
            "customdata": [f"{at}?{week.domains[domain].query}" for week in found.weeks],
            "marker": _marker(domain),
            "hovertemplate": "%{y:,} in the week of %{x}",
        }
        for domain in drawn
    ]
    if rest:
        data.append(
            {
                "type": "bar",
                "name": f"{len(rest)} others",
                "x": starts,
                "y": [sum(week.domains[domain].count for domain in rest) for week in found.weeks],
                "customdata": [f"{at}?{week.total.query}" for week in found.weeks],
                "marker": _marker(""),
                "hovertemplate": "%{y:,} in the week of %{x}",
            }
        )
    return {
        "data": data,
        "layout": {
            "barmode": "stack",
            "height": 320,
            "xaxis": {"type": "category", "title": {"text": f"Week from (to {last:%d %b %Y})"}},
            "yaxis": {
                "title": {"text": "Attempts that failed"},
                "rangemode": "tozero",
                "tickformat": ",d",
                **whole_ticks(max(week.total.count for week in found.weeks)),
            },
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        },
    }


def _marker(domain: str) -> dict[str, Any]:
    """A domain looks the same in every week and at every visit, however often it occurs."""
    colour, pattern = wording.MARKS.get(domain, wording.MARK_OF_OTHERS)
    return {"color": colour, "pattern": {"shape": pattern}}


def as_data(found: Overview) -> dict[str, Any]:
    """The overview for the API: each number with the query of the list that it counts."""

    def number(of: Any) -> dict[str, Any]:
        return {"count": of.shown, "more": of.more, "query": of.query}

    return {
        "now": found.now.isoformat(),
        "latest_end": found.latest.isoformat() if found.latest else None,
        "needs_a_person": {
            "ambiguous": number(found.ambiguous),
            "unattributed": number(found.unattributed),
            "degraded_coverage": number(found.degraded),
            "failed_attributions": number(found.failed_attributions),
            "not_analysed": number(found.not_analysed),
            "blind_sources": [
                {
                    "cluster": source.cluster.name,
                    "name": source.name,
                    "source": source.source,
                    "since": source.blind_since.isoformat() if source.blind_since else None,
                    "error": source.check_body.get("summary") or source.error,
                }
                for source in found.blind
            ],
            "failing_discoveries": [
                {"cluster": str(row.cluster), "name": row.name, "failures": row.failures, "error": row.error}
                for row in found.failing
            ],
        },
        "failed_today": {
            "since": found.since.isoformat(),
            "total": number(found.today_total),
            "domains": {domain: number(of) for domain, of in found.today},
        },
        "weeks": [
            {
                "start": week.start.isoformat(),
                "total": number(week.total),
                "domains": {domain: number(of) for domain, of in week.domains.items() if of.count},
            }
            for week in found.weeks
        ],
        "repeat_offenders": {
            "nodes": [{"cluster": one.cluster, "name": one.name, **number(one.number)} for one in found.nodes],
            "shared_elements": [
                {"cluster": one.cluster, "name": one.name, **number(one.number)} for one in found.shared
            ],
            "ports": [
                {"cluster": one.cluster, "of": one.of, "owner": one.owner, "port": one.port, "count": one.blamed}
                for one in found.ports
            ],
        },
        "wrong": {
            "wrong": number(found.wrong),
            "decided": number(found.decided),
            "low": round(found.wrongness.low, 4),
            "high": round(found.wrongness.high, 4),
        },
    }
