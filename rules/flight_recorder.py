"""NCCL flight-recorder dumps of PyTorch: what each rank had enqueued and completed, per process group.

A dump becomes one observation whose body is a line per group; `rules.desync` compares the ranks.
Dumps are JSON or pickles; a pickle is only read as plain data, anything that names code is refused.
https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
"""

import io
import json
import pickle
import re
from pathlib import Path
from typing import Any

from rules.files import Unreadable
from rules.observation import Observation
from rules.words import Source

MAX_DUMP = 256 << 20
_HEAD = 4096


def looks_like(path: Path) -> bool:
    """Whether a file is a flight-recorder dump; one that cannot be read is none, and says so when it is read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    if head[:1] == b"\x80" and b"pg_config" in head:
        return True
    return head.lstrip()[:1] == b"{" and (
        b'"pg_config"' in head or (b'"nccl_version"' in head and b'"entries"' in head)
    )


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
    except (
        ValueError,
        RecursionError,
        EOFError,
        pickle.UnpicklingError,
        IndexError,
        KeyError,
        AttributeError,
        TypeError,
    ) as error:
        raise Unreadable(f"a damaged flight-recorder dump: {error}") from error
    if not isinstance(data, dict):
        raise Unreadable("a flight-recorder dump that is no mapping")
    return data


def observation(path: Path, name: str, node: str, rank: int | None) -> Observation:
    """One observation for a dump: "flight recorder: rank R; group K (desc) ranks [...] <what> <number> …; …".

    Per group: what `pg_status` counts as enqueued, and the last collective's sequence number among the
    entries. Point-to-point numbers count per peer and cannot be compared between ranks. `rules.desync`
    reads it back with `parse`.
    """
    data = load(path)
    config = _mapping(data.get("pg_config"))
    status = _mapping(data.get("pg_status"))
    last = _last_numbers(data.get("entries"))
    parts = []
    for key in sorted(config, key=str):
        group = _mapping(config[key])
        desc = re.sub(r"[;()]", ",", str(group.get("desc", ""))[:80])
        ranks = "".join(ch for ch in str(group.get("ranks", ""))[:8000] if ch in "0123456789,")
        numbers = {"enqueued": _mapping(status.get(key)).get("last_enqueued_collective")} | last.get(str(key), {})
        shown = " ".join(f"{what} {n}" for what, n in numbers.items() if isinstance(n, int) and n >= 0)
        if ranks and shown:
            parts.append(f"group {str(key)[:20]} ({desc}) ranks [{ranks}] {shown}")
    who = "?" if rank is None else str(rank)
    return Observation(
        source=Source.PROGRESS,
        body=(f"{PREFIX}rank {who}; in flight {_pending(data.get('entries'))}; " + "; ".join(parts))[:60_000],
        ref=f"{name}:1",
        node=node,
        rank=rank,
        collector="files",
    )


PREFIX = "flight recorder: "
_GROUP = re.compile(r"group (\S+) \(([^()]*)\) ranks \[([0-9,]*)\]((?: [a-z0-9]+ \d+)+)")


Groups = dict[tuple[str, str, str], dict[str, int]]


def parse(body: str) -> tuple[int | None, int, Groups]:
    """Read an observation's body back: (rank, operations in flight, (group, desc, ranks) → numbers by kind)."""
    who = re.match(re.escape(PREFIX) + r"rank (\d+); in flight (\d+);", body)
    groups = {}
    for match in _GROUP.finditer(body):
        words = match[4].split()
        groups[match[1], match[2], match[3]] = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    return (int(who[1]), int(who[2]), groups) if who else (None, 0, groups)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _pending(entries: Any) -> int:
    """How many operations were enqueued and not completed."""
    listed = entries if isinstance(entries, list) else []
    return sum(1 for entry in listed if _mapping(entry).get("state") in ("scheduled", "started"))


def _last_numbers(entries: Any) -> dict[str, dict[str, int]]:
    """Per process group the last collective's number among the entries."""
    last: dict[str, dict[str, int]] = {}
    for entry in entries if isinstance(entries, list) else []:
        group, number = _mapping(entry).get("process_group"), _mapping(entry).get("collective_seq_id")
        if isinstance(group, (list, tuple)) and group and isinstance(number, int) and not entry.get("is_p2p"):
            numbers = last.setdefault(str(group[0]), {})
            numbers["collective"] = max(numbers.get("collective", 0), number)
    return last
