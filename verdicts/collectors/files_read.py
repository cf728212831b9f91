"""Reading one file: what of it lies within the attempt's window, unpacked, as lines for the rules."""

import io
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, cast

from rules import files, flight_recorder, formats, read
from rules.keep import LineReader
from rules.stamp import MICRO, Stamp, place
from verdicts.collectors.ask import Budget
from verdicts.collectors.files_guard import Guard, Opened
from verdicts.collectors.sink import Sink

PIECE = 1 << 20
#: How far apart two looks of the search for the window's beginning may end, and how much one look reads.
CLOSE, LOOK = 2 << 20, 1 << 16
#: Of a part that is too long its beginning, and as much of its end as there is room for.
HEAD = 1 << 20
#: Lines looked at for one with a time.
TRIED = 200
#: A time without a zone, where none is known, may be of any.
ANY_ZONE = 14 * 3600 * MICRO


@dataclass(frozen=True)
class Window:
    """The attempt's window, in microseconds since 1970, and the zone of times that name none."""

    begin: int
    end: int
    zone: str

    @classmethod
    def of(cls, begin: datetime, end: datetime, zone: str) -> "Window":
        """The window between two moments."""
        return cls(round(begin.timestamp() * MICRO), round(end.timestamp() * MICRO), zone)

    def times(self, stamp: Stamp | None) -> tuple[int, int] | None:
        """The earliest and latest moment that a stamp can mean; None for seconds since boot and none at all."""
        if stamp is None or stamp.clock == "boot":
            return None
        placed = place(stamp, near=self.begin, utc_offset=self.zone)
        slack = 0 if placed.clock == "utc" else ANY_ZONE
        return placed.micros - slack, placed.micros + slack + placed.step

    def before(self, raw: bytes) -> bool | None:
        """Whether a line was written before the window; None where it has no time."""
        found = self.times(_stamp(raw))
        return None if found is None else found[1] < self.begin

    def after(self, raw: bytes) -> bool | None:
        """Whether a line was written after the window; None where it has no time."""
        found = self.times(_stamp(raw))
        return None if found is None else found[0] > self.end

    def not_after(self, raw: bytes) -> bool | None:
        """Whether a line was written before the window's end; None where it has no time."""
        found = self.after(raw)
        return None if found is None else not found


def _first(lines: Iterable[bytes], asked: Callable[[bytes], bool | None]) -> bool:
    """What is said of the first line that has a time; False where none near has one."""
    answers = (answer for line in islice(lines, TRIED) if (answer := asked(line)) is not None)
    return next(answers, False)


def _stamp(raw: bytes) -> Stamp | None:
    return read.parse(raw[:400].decode("utf-8", "replace")).stamp


class Raw(io.RawIOBase):
    """An opened file as a stream, up to the size that it had when it was opened."""

    def __init__(self, guard: Guard, file: Opened) -> None:
        self._guard, self._file, self._at = guard, file, 0
        self.cut_short = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset if whence == io.SEEK_SET else self._at + offset if whence == io.SEEK_CUR else self._file.size
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        wanted = min(len(view), self._file.size - self._at)
        if wanted <= 0:
            return 0
        data = self._guard.read(self._file, wanted, self._at)
        self.cut_short |= not data
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


@dataclass(frozen=True)
class Reading:
    """One file that is read: `room` is what it may take of the budget so that others get theirs."""

    guard: Guard
    file: Opened
    name: str
    node: str
    rank: int | None
    window: Window
    budget: Budget
    room: int
    out: Sink

    def take(self) -> None:
        """Read it. Raises OSError, files.Unreadable and BudgetSpent; what was read until then is kept."""
        raw = Raw(self.guard, self.file)
        buffered = cast("IO[bytes]", io.BufferedReader(raw, PIECE))
        head = buffered.read(4096)
        buffered.seek(0)
        if b"pg_config" in head or b'"nccl_version"' in head:
            self._dump(buffered)
        elif files.is_packed(head) or head.startswith((b"\xff\xfe", b"\xfe\xff", files.JOURNAL_EXPORT)):
            self._through(files.pieces(buffered, self.file.size), packed=True)
        elif files.is_binary(head):
            raise files.Unreadable("a binary file, not text")
        else:
            self._parts(raw)
        if raw.cut_short:
            self.out.partial(f"{self.name}: became shorter while it was read: is it copied and truncated?")

    def _dump(self, buffered: IO[bytes]) -> None:
        """A flight recorder's dump is read as a whole, from a copy that cannot hang."""
        if self.file.size > flight_recorder.MAX_DUMP:
            raise files.Unreadable(f"a flight-recorder dump of more than {flight_recorder.MAX_DUMP >> 20} MiB")
        with tempfile.NamedTemporaryFile(prefix="inquest-dump-") as copy:
            while data := buffered.read(PIECE):
                self.budget.left()
                copy.write(data)
            copy.flush()
            self.out.file(Path(copy.name), self.budget, name=self._ref(), node=self.node, rank=self.rank)

    def _ref(self) -> str:
        return f"{self.out.collector}/{self.name}"

    def _parts(self, raw: Raw) -> None:
        """The parts of a plain file that lie in the window: all of it, or its beginning and its end."""
        begin = end = 0
        if self.file.size > 2 * CLOSE:
            begin, end = self._search(self.window.before), self._search(self.window.not_after)
        end = min(self.file.size, end + 2 * CLOSE) if end else self.file.size
        parts = [(begin, end)]
        if end - begin > self.room > HEAD:
            parts = [(begin, begin + HEAD), (end - (self.room - HEAD), end)]
            self.out.partial(
                f"{self.name}: {(end - begin) >> 20} MiB; its first {HEAD >> 20} MiB and its last"
                f" {(self.room - HEAD) >> 20} MiB were read"
            )
        for start, stop in parts:
            raw.seek(start)
            self._through(self._pieces(raw, start, stop), at=start)

    def _pieces(self, raw: Raw, start: int, stop: int) -> Iterator[bytes]:
        """A part of a file from its first whole line on."""
        inside = start == 0
        left = stop - start
        while left > 0 and (data := raw.read(min(PIECE, left))):
            left -= len(data)
            if not inside:
                cut = data.find(b"\n") + 1
                data, inside = data[cut:] if cut else b"", cut > 0
            if data:
                yield data

    def _search(self, earlier: Callable[[bytes], bool | None]) -> int:
        """A place where lines are still `earlier`, and `CLOSE` behind which they are no more.

        Lines are taken to be in the order of their times. 0 where they have none.
        """
        low, high = 0, self.file.size
        while high - low > CLOSE:
            middle = (low + high) // 2
            lines = self.guard.read(self.file, LOOK, middle).split(b"\n")[1:-1][:TRIED]
            said = next((answer for line in lines if (answer := earlier(line)) is not None), None)
            if said is None:
                return 0
            low, high = (middle, high) if said else (low, middle)
        return low

    def _through(self, given: Iterator[bytes], *, at: int = 0, packed: bool = False) -> None:
        """Lines to the rules, those outside the window left out."""
        reader: LineReader | None = None
        rewrite: formats.Rewriter | None = None
        begun = False
        total = 0
        for block in files.whole_lines(given):
            if reader is None:
                reader = self.out.stream(f"{self.name}@{at}" if at else self.name, node=self.node, rank=self.rank)
                rewrite = formats.rewriter(block.data[:65_536].decode("utf-8", "replace"))
            self.budget.take(len(block.data))
            total += len(block.data)
            data, line = (rewrite(block.data) if rewrite else block.data), block.line
            if not begun:
                skipped = self._leading(data)
                line += data.count(b"\n", 0, skipped)
                data = data[skipped:]
                begun = bool(data)
            kept, over = self._trailing(data)
            if kept:
                reader.block(kept, line)
                reader.lines += kept.count(b"\n") + (not kept.endswith(b"\n"))
            if over:
                return
            if packed and total > self.room:
                self.out.partial(f"{self.name}: more than {self.room >> 20} MiB unpacked; the rest was not read")
                return

    def _leading(self, data: bytes) -> int:
        """Where in a block the first line is that does not lie before the window; its length where none is."""
        lines = data.split(b"\n")
        if not _first(lines, self.window.before):
            return 0
        if _first(reversed(lines), self.window.before):
            return len(data)
        keep = bisect_left(range(len(lines)), True, key=lambda i: not _first(lines[i:], self.window.before))
        # Lines without a time belong to the one before them.
        while keep < len(lines) and self.window.before(lines[keep]) is None:
            keep += 1
        return sum(map(len, lines[:keep])) + keep

    def _trailing(self, data: bytes) -> tuple[bytes, bool]:
        """A block up to the last line that does not lie after the window, and whether the window is over."""
        lines = data.split(b"\n")
        if not _first(reversed(lines), self.window.after):
            return data, False
        keep = bisect_left(range(len(lines)), True, key=lambda i: _first(lines[i:], self.window.after))
        while keep < len(lines) and self.window.after(lines[keep]) is None:
            keep += 1
        return b"\n".join(lines[:keep]), True
