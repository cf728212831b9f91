"""NCCL flight-recorder dumps of PyTorch: what each rank had enqueued and completed, per process group.

A dump becomes one observation whose body is a line per group; `rules.desync` compares the ranks.
Dumps are JSON or pickles; a pickle is only read as plain data, anything that names code is refused.
https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
"""

import io
import json
import pickle
from pathlib import Path
from typing import Any

from rules.files import Unreadable
from rules.observation import Observation
from rules.words import Source

MAX_DUMP = 256 << 20
_HEAD = 4096


def looks_like(path: Path) -> bool:
    """Whether a file is a flight-recorder dump."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head[:1] == b"\x80" and b"pg_config" in head + b"":
        return True
    return head.lstrip()[:1] == b"{" and (b'"pg_config"' in head or b'"nccl_version"' in head and b'"entries"' in head)


class _PlainUnpickler(pickle.Unpickler):
    """Reads dicts, lists, texts and numbers; refuses every name of code, so that a dump cannot run any."""

    def find_class(self, module: str, name: str) -> Any:
        raise Unreadable(f"the pickle names {module}.{name}: only plain data is read")


def load(path: Path) -> dict[str, Any]:
    """The dump as plain data. Raises Unreadable."""
    if path.stat().st_size > MAX_DUMP:
        raise Unreadable(f"a flight-recorder dump of more than {MAX_DUMP} bytes")
    raw = path.read_bytes()
    try:
        data = _PlainUnpickler(io.BytesIO(raw)).load() if raw[:1] == b"\x80" else json.loads(raw)
    except Unreadable:
        raise
    except (ValueError, RecursionError, EOFError, pickle.UnpicklingError, IndexError, KeyError, AttributeError, TypeError) as error:
        raise Unreadable(f"a damaged flight-recorder dump: {error}") from error
    if not isinstance(data, dict):
        raise Unreadable("a flight-recorder dump that is no mapping")
    return data


def observation(path: Path, name: str, node: str, rank: int | None) -> Observation:
    """One observation for a dump: "flight recorder: rank R; group G (desc) ranks [...] enqueued a started b completed c; …"."""
    data = load(path)
    config = data.get("pg_config") if isinstance(data.get("pg_config"), dict) else {}
    status = data.get("pg_status") if isinstance(data.get("pg_status"), dict) else {}
    parts = []
    for key in sorted(config, key=str):
        group = config[key] if isinstance(config[key], dict) else {}
        state = status.get(key) if isinstance(status.get(key), dict) else {}
        numbers = [str(state.get(f"last_{what}_collective", "?")) for what in ("enqueued", "started", "completed")]
        desc = str(group.get("desc", ""))[:80].replace(";", ",")
        ranks = "".join(ch for ch in str(group.get("ranks", ""))[:4000] if ch in "0123456789,[] ")
        parts.append(f"group {str(key)[:20]} ({desc}) ranks {ranks} enqueued {numbers[0]} started {numbers[1]} completed {numbers[2]}")
    who = "?" if rank is None else str(rank)
    return Observation(
        source=Source.PROGRESS,
        body=f"flight recorder: rank {who}; " + "; ".join(parts)[:60_000],
        ref=f"{name}:1",
        node=node,
        rank=rank,
        collector="files",
    )
