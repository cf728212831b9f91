"""The query API of Prometheus, as VictoriaMetrics, Thanos and Mimir speak it too."""

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.http import Refused, get_json
from verdicts.collectors.server import Server
from verdicts.collectors.sink import Sink

#: A server refuses more points than this for one series.
MAX_POINTS = 11_000


class Series(msgspec.Struct, frozen=True):
    """One series of an answer: its last value (instant) or its values; histograms are passed over."""

    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = []

    @property
    def points(self) -> list[tuple[float, str]]:
        """Its points of either form."""
        return [self.value] if self.value is not None else self.values


class _Data(msgspec.Struct, frozen=True):
    result: list[Series] = []


class _Answer(msgspec.Struct, frozen=True):
    """An answer; `isPartial` is VictoriaMetrics's word, Thanos says it in `warnings`."""

    status: str
    data: _Data | None = None
    error: str = ""
    errorType: str = ""  # noqa: N815 - as it is sent
    warnings: list[str] = []
    infos: list[str] = []
    isPartial: bool = False  # noqa: N815 - as it is sent


class _Build(msgspec.Struct, frozen=True):
    version: str = ""


class _BuildAnswer(msgspec.Struct, frozen=True):
    data: _Build = _Build()


@dataclass(frozen=True)
class Api:
    """One server, asked within one budget. Gaps that an answer admits are told to `out`, where there is one."""

    server: Server
    budget: Budget
    out: Sink | None = None

    def instant(self, query: str, at: float | None = None) -> list[Series]:
        """The value of each series at a moment, or now. Raises SourceError."""
        form = {"query": query, "nocache": "1", **({"time": f"{at:.3f}"} if at is not None else {})}
        return self._series("/api/v1/query", form)

    def between(self, query: str, start: float, end: float, step: float) -> list[Series]:
        """The values of each series at every step. Raises SourceError."""
        form = {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}", "nocache": "1"}
        return self._series("/api/v1/query_range", form)

    def now(self) -> datetime:
        """The server's own clock. Raises SourceError."""
        for series in self.instant("vector(time())"):
            for at, _ in series.points:
                return datetime.fromtimestamp(at, UTC)
        raise SourceError(f"{self.server.url}: it does not say what time it has")

    def version(self) -> str:
        """What it calls itself; "" where it does not say. Raises SourceError only when it cannot be spoken to."""
        try:
            return get_json(self.server, "/api/v1/status/buildinfo", self.budget, _BuildAnswer).data.version
        except Refused:
            return ""

    def _series(self, path: str, form: dict[str, str]) -> list[Series]:
        left = self.budget.left()
        form = {**form, "timeout": f"{max(left, 1):.0f}s"}
        # VictoriaMetrics answers from a cache that moves the steps unless it is told not to.
        answer = get_json(self.server, path, self.budget, _Answer, form=form)
        if answer.status != "success" or answer.data is None:
            what = ": ".join(part for part in (answer.errorType, answer.error) if part)
            raise SourceError(f"{self.server.url}{path}: {what[:300] or 'an answer without data'}")
        if self.out is not None:
            if answer.isPartial:
                self.out.partial("the store says that its answer is partial: a part of it was not reached")
            for warning in answer.warnings[:5]:
                self.out.partial(f"the store warns: {' '.join(warning.split())[:200]}")
            for info in answer.infos[:5]:
                self.out.note(f"the store notes: {' '.join(info.split())[:200]}")
        return answer.data.result
