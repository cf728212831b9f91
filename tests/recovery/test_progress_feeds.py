"""Progress that Inquest looks for itself: in logs of attempts that run, and in metrics."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from recovery.models import ProgressFeed, ProgressReading, RankProgress
from recovery.progress import feeds as progress_feeds
from recovery.progress import record as progress
from tests.recovery.test_progress import an_attempt
from verdicts import clusters
from verdicts.collectors.config import Clusters, ConfigError, read_clusters

Configure = Callable[[str], Clusters]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Write a clusters file and have it be this process's."""

    def write(text: str) -> Clusters:
        path = tmp_path / "clusters.toml"
        path.write_text(text)
        found = read_clusters(path)
        monkeypatch.setattr(progress_feeds, "current_clusters", lambda: found)
        return found

    clusters.cluster_row.cache_clear()
    return write


def logs(folder: Path) -> str:
    return f"""
[[cluster]]
name = "alpha"
[[cluster.source]]
kind = "files"
name = "logs"
source = "applog"
root = "{folder}"
paths = ["{{job_id}}.out"]
[[cluster.progress]]
kind = "log"
name = "steps"
source = "logs"
every = 60
"""


@pytest.mark.django_db
def test_the_log_of_a_running_attempt_is_read_for_steps_and_for_what_can_end_it(
    tmp_path: Path, configure: Configure
) -> None:
    configure(logs(tmp_path))
    attempt, ended = an_attempt("77"), an_attempt("78", end="2026-03-01T11:00:00Z")
    now = datetime.now(UTC)
    stamp = (now - timedelta(seconds=30)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    lines = [
        f"{stamp} iteration      100/   5000 | consumed samples: 1 | elapsed time per iteration (ms): 2000.0 | lm loss: 1 |",
        f"{stamp} successfully saved checkpoint at iteration      90 to /ckpt",
        f"{stamp} iteration      110/   5000 | consumed samples: 1 | elapsed time per iteration (ms): 2000.0 | lm loss: 1 |",
        f"{stamp} [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ]
    (tmp_path / "77.out").write_text("\n".join(lines) + "\n")
    (tmp_path / "78.out").write_text("inquest: step=5\n")
    fatal = progress_feeds.work()
    found = progress.latest(attempt.pk)
    assert found is not None and (found.step_max, found.checkpoint_step) == (110, 90)
    assert progress.latest(ended.pk) is None
    reading = ProgressReading.objects.get()
    assert reading.lines == 4 and reading.signs == 1 and reading.read_until is not None and reading.said == ""
    assert {line.rank for line in fatal[attempt.pk]} == {3}
    assert progress_feeds.work() == {}  # not due yet
    assert ProgressFeed.objects.get().failures == 0


@pytest.mark.django_db
def test_lines_without_times_move_the_log_only_where_there_are_more_of_them(
    tmp_path: Path, configure: Configure
) -> None:
    configure(logs(tmp_path))
    an_attempt("77")
    (tmp_path / "77.out").write_text("inquest: step=5 rank=0\nhello\n")
    progress_feeds.work()
    first = ProgressReading.objects.get().wrote_at
    assert first is not None and RankProgress.objects.get().step == 5
    ProgressReading.objects.update(tried_at=datetime(2026, 1, 1, tzinfo=UTC))
    progress_feeds.work()
    assert ProgressReading.objects.get().wrote_at == first


@pytest.mark.django_db
def test_a_source_that_cannot_be_read_is_said_and_not_taken_for_silence(tmp_path: Path, configure: Configure) -> None:
    configure(logs(tmp_path / "gone"))
    an_attempt("77")
    for _ in range(progress_feeds.FAILURES):
        ProgressReading.objects.update(tried_at=datetime(2026, 1, 1, tzinfo=UTC))
        progress_feeds.work()
    feed, reading = ProgressFeed.objects.get(), ProgressReading.objects.get()
    assert feed.failures == progress_feeds.FAILURES and "gone" in feed.error
    assert reading.read_until is None and reading.said


METRICS = """
[[cluster]]
name = "alpha"
[[cluster.progress]]
kind = "prometheus"
name = "steps"
server = {{ url = "{url}" }}
step = "max by (job_id, rank) (train_step)"
step_seconds = "avg by (job_id, rank) (train_step_seconds)"
"""


@pytest.mark.django_db
def test_one_question_tells_of_all_jobs_and_a_series_that_is_gone_is_unknown(
    httpserver: HTTPServer, configure: Configure
) -> None:
    configure(METRICS.format(url=httpserver.url_for("/").rstrip("/")))
    told, untold = an_attempt("77"), an_attempt("78")

    def answer(values: dict[tuple[str, str], str]) -> dict[str, object]:
        result = [
            {"metric": {"job_id": job, "rank": rank}, "value": [1.0, value]} for (job, rank), value in values.items()
        ]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}

    httpserver.expect_ordered_request("/api/v1/query").respond_with_json(
        answer({("77", "0"): "40", ("77", "1"): "NaN", ("99", "0"): "7"})
    )
    httpserver.expect_ordered_request("/api/v1/query").respond_with_json(
        answer({("77", "0"): "1.5", ("77", "1"): "1.6"})
    )
    progress_feeds.work()
    rows = {row.rank: (row.step, row.step_seconds) for row in RankProgress.objects.filter(attempt=told)}
    assert rows == {0: (40, 1.5), 1: (None, 1.6)}
    assert progress.latest(untold.pk) is None
    readings = {one.attempt_id: one for one in ProgressReading.objects.all()}
    assert readings[told.pk].read_until is not None
    assert readings[untold.pk].read_until is None and "no series" in readings[untold.pk].said


def test_a_feed_names_a_source_of_logs_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "clusters.toml"
    path.write_text(logs(tmp_path).replace('source = "logs"', 'source = "other"'))
    assert tomllib.loads(path.read_text())
    with pytest.raises(ConfigError, match=r"progress 'steps': source: 'other' is no source of applog"):
        read_clusters(path)
