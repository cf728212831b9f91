"""The attempt that a drill makes up: collected by the site's own collectors, and marked as nobody's.

Its files are real files, one of its sources is a server that never answers, and its verdict comes from the site's
workers. It belongs to no named cluster, so that there is no scheduler that anything could be sent to.
"""

import secrets
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from recovery.drill.planted import Planted, plant
from rules.attempt import Attempt as GivenAttempt
from rules.words import Source
from verdicts import conclude
from verdicts.choices import Mode, Origin, RequestState
from verdicts.collecting.collected import store_collected
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.files import Files
from verdicts.collectors.loki import Loki
from verdicts.collectors.server import Server
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import SourceSettings
from verdicts.evidence import given_attempt
from verdicts.models import Attempt, AttributionRequest, Verdict
from verdicts.record import record_attempt
from verdicts.redaction import current_redactor

#: How long each source may take. The silent one takes all of it.
FILES_LIMIT, SILENT_LIMIT = 10.0, 2.0
LASTED, ENDED = timedelta(minutes=10), timedelta(minutes=1)
#: A verdict is waited for so long; a worker may have taken it.
VERDICT_SECONDS = 60.0
#: The source that never answers, and what therefore must be listed as missing.
SILENT, SILENT_SOURCE = "drill-silent", Source.FABRIC_MANAGER
MUST_BE_MISSING = frozenset({f"source:{SILENT_SOURCE}"})


class NotMade(Exception):
    """The attempt could not be made; the message says why."""


@dataclass(frozen=True)
class Sample:
    """What was made: by `marker` its evidence can be told from everything else."""

    attempt: UUID
    job_id: str
    node: str
    marker: str
    planted: Sequence[Planted]
    limits: dict[str, float]
    verdict: Verdict
    lines: int


def make() -> Sample:
    """Make an attempt up, collect its evidence and have its verdict made. Raises NotMade."""
    name = secrets.token_hex(4)
    now = timezone.now().astimezone(UTC).replace(microsecond=0)
    planted = plant(emails=current_redactor().emails)
    marker = f"drill marker {secrets.token_hex(8)}"
    node = f"drill-node-{name}"
    given = GivenAttempt(
        job_id=f"retention-drill-{now:%Y%m%dT%H%M%SZ}-{name}",
        scheduler="static",
        submit_time=(now - ENDED - LASTED - timedelta(minutes=1)).isoformat(),
        start=(now - ENDED - LASTED).isoformat(),
        end=(now - ENDED).isoformat(),
        state="FAILED",
        reason=f"made up for a retention drill, {planted[0].line}",
        user="inquest-drill",
        nodes=[node],
    )
    attempt, _ = record_attempt(given, origin=Origin.DRILL)
    with tempfile.TemporaryDirectory(prefix="inquest-drill-") as folder, _silence() as silent:
        sources = _sources(Path(folder), node, now - ENDED, planted, marker, silent)
        kept = sum(_collect(attempt.pk, source) for source in sources)
    return Sample(
        attempt=attempt.pk,
        job_id=given.job_id,
        node=node,
        marker=marker,
        planted=planted,
        limits={source.name: source.seconds for source in sources},
        verdict=_verdict(attempt.pk),
        lines=kept,
    )


@contextmanager
def _silence() -> Iterator[str]:
    """A server of our own that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def _sources(
    folder: Path, node: str, ended: datetime, planted: Sequence[Planted], marker: str, silent: str
) -> list[SourceSettings]:
    """The sources, with their files written."""
    kernel, job = [], []
    for number, one in enumerate(planted):
        at = (ended - timedelta(seconds=60 - number)).isoformat()
        fault = f"NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus. {marker} {number}: {one.line}"
        kernel.append(f"{at} {node} kernel: {fault}")
        job.append(f"{at} RuntimeError: CUDA error: {marker} {number}: {one.line}")
    (folder / f"{node}.log").write_text("\n".join(kernel) + "\n")
    (folder / "rank0.out").write_text("\n".join(job) + "\n")
    root = str(folder)
    return [
        Files(name="drill-syslog", source=Source.SYSLOG, root=root, paths=["{node}.log"], seconds=FILES_LIMIT),
        Files(name="drill-applog", source=Source.APPLOG, root=root, paths=["rank{rank}.out"], seconds=FILES_LIMIT),
        Loki(
            name=SILENT,
            source=SILENT_SOURCE,
            server=Server(url=silent),
            selector='job="drill"',
            node_label="node",
            seconds=SILENT_LIMIT,
        ),
    ]


def _collect(attempt_id: UUID, source: SourceSettings) -> int:
    """Collect one source as the workers do; how many lines were kept."""
    attempt = Attempt.objects.select_related("cluster").get(pk=attempt_id)
    assert attempt.started_at is not None
    assert attempt.ended_at is not None
    given = given_attempt(attempt)
    ask = Ask(
        cluster=attempt.cluster.name,
        attempt=given,
        begin=attempt.started_at,
        end=attempt.ended_at + ENDED,
        nodes=tuple(given.nodes),
        budget=Budget.of(seconds=source.seconds, megabytes=source.megabytes),
        ruleset=conclude.current_ruleset(),
    )
    sink = Sink(source.name, source.source, conclude.current_ruleset(), current_redactor())
    error: SourceError | None = None
    try:
        source.collect(ask, sink)
    except SourceError as said:
        error = said
    observations, report = sink.close(error, empty="nothing came")
    with transaction.atomic():
        held = Attempt.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=attempt_id)
        store_collected(held, observations, report)
    return report.kept


def _verdict(attempt_id: UUID) -> Verdict:
    """Have the verdict made, here or by whichever worker was faster. Raises NotMade."""
    request = conclude.request_attribution(attempt_id, Mode.SLOW)
    end = time.monotonic() + VERDICT_SECONDS
    if (verdict := conclude.attribute_now(request.pk, owner="retention drill")) is not None:
        return verdict
    while time.monotonic() < end:
        row = AttributionRequest.objects.select_related("verdict").get(pk=request.pk)
        if row.state == RequestState.DONE and row.verdict is not None:
            return row.verdict
        if row.state == RequestState.FAILED:
            raise NotMade(f"its attribution failed: {row.error}")
        time.sleep(0.1)
    raise NotMade(f"no verdict within {VERDICT_SECONDS:g} s: are workers running?")
