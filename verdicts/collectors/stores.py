"""What the collectors of log stores share: times, which part of a window is read first, entries that become lines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from rules.keep import LineReader
from verdicts.collectors.ask import Ask, SourceError
from verdicts.collectors.labels import Nodes, some
from verdicts.collectors.sink import Sink

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 10**9
HOUR = 3600 * SECOND

#: Name, node and rank of a stream of lines.
Key = tuple[str, str, int | None]


def nanoseconds(moment: datetime) -> int:
    """Nanoseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


def moment(nanos: int) -> datetime:
    """That as a time, to the microsecond."""
    return EPOCH + timedelta(microseconds=nanos // 1000)


def stamp(nanos: int) -> str:
    """That in words, to the second."""
    return f"{moment(nanos):%Y-%m-%dT%H:%M:%SZ}"


@lru_cache(maxsize=65_536)
def _seconds(text: str) -> int:
    """The seconds since 1970 of "2026-11-30T11:00:00"."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def parse_time(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 time, as precise as it is written. Raises ValueError."""
    if not text.endswith("Z"):
        return nanoseconds(datetime.fromisoformat(text).astimezone(UTC))
    return _seconds(text[:19]) * SECOND + (int(text[20:-1].ljust(9, "0")[:9]) if text[19:20] == "." else 0)


def spans(ask: Ask) -> list[tuple[int, int]]:
    """The attempt's window in parts, the last one first: where a budget ends, it was spent on how the attempt ended.

    Each part is twice as long as the one after it, up to a day: what ran for a week is a dozen questions.
    """
    begin, end = nanoseconds(ask.begin), nanoseconds(ask.end)
    out, size = [], HOUR
    while end > begin:
        # A rest of less than half a part is not worth a question of its own.
        start = end - size if end - begin > size + size // 2 else begin
        out.append((start, end))
        end, size = start, min(2 * size, 24 * HOUR)
    return out


class Batch:
    """Entries of one answer, by the stream that they belong to, until they are read as lines."""

    def __init__(self, out: Sink, part: str = "") -> None:
        self._out, self._part = out, part
        self._entries: dict[Key, tuple[list[int], list[str]]] = {}
        self.nodes: set[str] = set()

    def add(self, key: Key, times: list[int], texts: list[str]) -> None:
        """Take entries of a stream."""
        if not times:
            return
        held = self._entries.get(key)
        if held is None:
            self._entries[key] = (times, texts)
        else:
            held[0].extend(times)
            held[1].extend(texts)
        self.nodes.add(key[1])

    def feed(self) -> None:
        """Read them, each stream in the order of its times."""
        for (name, node, rank), (times, texts) in self._entries.items():
            label = f"{name or node}{self._part}" if self._part else name
            feed(self._out.stream(label, node=node, rank=rank), times, texts)
        self._entries.clear()


def feed(reader: LineReader, times: list[int], texts: list[str]) -> None:
    """Read entries as lines: an entry of several lines is as many, with one time."""
    if times != sorted(times):
        order = sorted(range(len(times)), key=times.__getitem__)
        times, texts = [times[index] for index in order], [texts[index] for index in order]
    data = "\n".join(texts)
    if data.count("\n") >= len(texts):
        times, data = _split(times, texts)
    reader.feed(data.encode("utf-8", "backslashreplace") + b"\n", times)


def _split(times: Sequence[int], texts: Sequence[str]) -> tuple[list[int], str]:
    all_times: list[int] = []
    all_lines: list[str] = []
    for time, text in zip(times, texts, strict=True):
        lines = text.rstrip("\r\n").split("\n")
        all_times += [time] * len(lines)
        all_lines += lines
    return all_times, "\n".join(all_lines)


def halves(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """A part of a window as two, the later first."""
    middle = (begin + end) // 2
    yield middle, end
    yield begin, middle


def look_for(heard: set[str], ask: Ask, out: Sink, label: str, values: Callable[[int, int], Iterable[str]]) -> None:
    """Say which of the attempt's nodes are not quiet but unknown to a store: nothing of theirs came in for a day.

    `values` are those that the nodes' label has in a window.
    """
    silent = [node for node in ask.nodes if node not in heard]
    if not silent:
        return
    try:
        found = values(nanoseconds(ask.begin) - 24 * HOUR, nanoseconds(ask.end))
    except SourceError as error:
        out.note(f"whether it knows {some(silent)} was not answered: {error}")
        return
    known = Nodes(ask.nodes).all_known(found)
    if unknown := [node for node in silent if node not in known]:
        out.partial(f"no {label} means {some(unknown)}: no log of theirs comes in here")
