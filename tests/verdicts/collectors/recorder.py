"""What the tests of log stores share: a question, and a sink that remembers every line it was given."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache

from rules.attempt import Attempt, CollectorReport
from rules.keep import LineReader
from rules.ruleset import Ruleset, load_ruleset
from rules.words import Source
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import SourceSettings
from verdicts.collectors.stores import nanoseconds

BEGIN = datetime(2026, 11, 30, 10, tzinfo=UTC)
NANOS = nanoseconds(BEGIN)
SECOND = 10**9
XID = "kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus."


@cache
def the_ruleset() -> Ruleset:
    return load_ruleset()


def an_ask(
    nodes: Sequence[str] = ("gpu-01", "gpu-02"),
    *,
    job_id: str = "4711",
    minutes: float = 30,
    seconds: float = 20,
    megabytes: int = 64,
    workload: str = "llama",
) -> Ask:
    ruleset = the_ruleset()  # the budget begins when it is there
    return Ask(
        cluster="alpha",
        attempt=Attempt(job_id=job_id, workload=workload, nodes=list(nodes)),
        begin=BEGIN,
        end=BEGIN + timedelta(minutes=minutes),
        nodes=tuple(nodes),
        budget=Budget.of(seconds=seconds, megabytes=megabytes),
        ruleset=ruleset,
    )


class _Reader(LineReader):
    """A reader that says what it was fed."""

    fed: list[tuple[int, str]]

    def feed(self, data: bytes, times: Sequence[int] | None = None) -> None:
        super().feed(data, times)
        assert times is not None
        self.fed += zip(times, data.decode().removesuffix("\n").split("\n"), strict=True)


@dataclass
class Recorder(Sink):
    """A sink whose lines can be looked at."""

    fed: dict[tuple[str, str, int | None], list[tuple[int, str]]] = field(default_factory=dict)

    def stream(self, name: str = "", *, node: str = "", rank: int | None = None) -> LineReader:
        key = (name, node, rank)
        if key not in self.fed:
            reader = _Reader(
                source=self.source, name=name, node=node, rank=rank, ruleset=self.ruleset, collector=self.collector
            )
            reader.fed = self.fed[key] = []
            self._streams[key] = reader
        return self._streams[key]

    def lines_of(self, node: str = "") -> list[str]:
        """All lines in the order of their times, of one node where given."""
        found = [entry for (_, name, _), fed in self.fed.items() for entry in fed if node in {"", name}]
        return [line for _, line in sorted(found, key=lambda entry: entry[0])]


def collected(
    settings: SourceSettings, ask: Ask | None = None, source: Source = Source.SYSLOG
) -> tuple[Recorder, CollectorReport]:
    """What a source gives for a question, and its report."""
    out = Recorder(collector=settings.name, source=source, ruleset=the_ruleset())
    error: SourceError | None = None
    try:
        settings.collect(ask or an_ask(), out)
    except SourceError as raised:
        error = raised
    _, report = out.close(error)
    return out, report


def times(count: int, step: int = SECOND, begin: int = NANOS) -> list[int]:
    return [begin + index * step for index in range(count)]


def entries(lines: Sequence[str], step: int = SECOND, begin: int = NANOS) -> list[tuple[int, str]]:
    return list(zip(times(len(lines), step, begin), lines, strict=True))
