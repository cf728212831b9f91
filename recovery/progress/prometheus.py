"""Progress from metrics: an expression for each kind of number, whose series are the ranks of all jobs of a cluster."""

import math
from dataclasses import dataclass, field

from recovery.progress.record import Sign
from rules.attempt import MAX_RANK
from verdicts.collectors.ask import Budget
from verdicts.collectors.progress_settings import PrometheusFeed
from verdicts.collectors.prometheus_api import Api, Series

#: Counters of steps beyond this are no counters.
MOST = 2**53 - 1


@dataclass
class Answer:
    """Signs by job id, and what could not be used."""

    signs: dict[str, list[Sign]] = field(default_factory=dict)
    series: int = 0
    without_job: int = 0


def ask(feed: PrometheusFeed) -> Answer:
    """Ask for how far all jobs are. Raises SourceError.

    A series that is gone is unknown progress: its job is not in the answer, whatever it was before.
    """
    api = Api(feed.server, Budget.of(seconds=feed.seconds, megabytes=feed.megabytes))
    asked = {
        "step": feed.step,
        "checkpoint_step": feed.checkpoint_step,
        "collective": feed.collective,
        "step_seconds": feed.step_seconds,
    }
    found: dict[tuple[str, int | None], dict[str, int | float]] = {}
    places: dict[tuple[str, int | None], tuple[str, str]] = {}
    answer = Answer()
    for name, query in asked.items():
        if not query:
            continue
        for series in api.instant(query):
            answer.series += 1
            job = series.metric.get(feed.job_label, "")
            value = _value(series, whole=name != "step_seconds")
            if not job:
                answer.without_job += 1
            elif value is not None:
                key = (job, _rank(series.metric.get(feed.rank_label, "") if feed.rank_label else ""))
                numbers = found.setdefault(key, {})
                # Two series of one rank: an exporter that was started anew leaves the old one for minutes.
                numbers[name] = max(value, numbers.get(name, value))
                places.setdefault(key, (_label(series, feed.node_label), _label(series, feed.gpu_label)))
    for (job, rank), numbers in found.items():
        node, gpu = places[job, rank]
        answer.signs.setdefault(job, []).append(Sign(rank=rank, node=node, gpu=gpu, **numbers))  # type: ignore[arg-type]
    return answer


def _value(series: Series, *, whole: bool) -> int | float | None:
    """The newest number of a series; None where it is none."""
    for _, text in reversed(series.points):
        try:
            value = float(text)
        except ValueError:
            return None
        if not math.isfinite(value) or value < 0 or value > MOST or (not whole and not 0 < value <= 7 * 86_400):
            return None
        return int(value) if whole else value
    return None


def _rank(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= MAX_RANK else None


def _label(series: Series, name: str) -> str:
    return series.metric.get(name, "")[:255] if name else ""
