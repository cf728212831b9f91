"""The figures of `inquest bench attribution --json`, where a site keeps them in a file."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from verdicts.intervals import Share, share

MOST_BYTES = 8 << 20
KINDS = ("right", "admitted", "wrong", "overclaimed")


@dataclass(frozen=True)
class Contestant:
    """How one way of answering did on the labelled incidents."""

    name: str
    counts: dict[str, int]
    culprits: Share


@dataclass(frozen=True)
class Benchmark:
    """The figures, when they were written, or why there are none."""

    cases: int
    contestants: list[Contestant]
    written: datetime | None
    problem: str = ""


def benchmark() -> Benchmark | None:
    """What the file says; None where the settings name none."""
    if not settings.INQUEST_BENCH_FILE:
        return None
    path = Path(settings.INQUEST_BENCH_FILE)
    try:
        if path.stat().st_size > MOST_BYTES:
            return Benchmark(0, [], None, "the file is too large to be that of a benchmark")
        said = json.loads(path.read_text(encoding="utf-8"))
        cases = int(said["cases"])
        contestants = [_contestant(name, counts, cases) for name, counts in said["scores"].items()]
        return Benchmark(cases, contestants, datetime.fromtimestamp(path.stat().st_mtime, UTC))
    except OSError as error:
        return Benchmark(0, [], None, f"the file cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Benchmark(0, [], None, f"the file is not that of inquest bench attribution --json: {error!r}")


def _contestant(name: str, counts: dict[str, Any], cases: int) -> Contestant:
    known = {kind: int(counts[kind]) for kind in KINDS}
    return Contestant(str(name), known, share(known["wrong"] + known["overclaimed"], cases))
