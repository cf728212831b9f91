"""What is kept of a stream of lines: one pass of the automaton, work only on lines that matched.

What is kept is bounded: per stream, rule and place the first and the last few lines, the rest as a count.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from rules import extract, fingerprint, formats, read, scan
from rules.observation import MAX_BODY, Observation
from rules.redact import PLAIN, Redactor, marks
from rules.ruleset import Ruleset
from rules.stamp import Stamp, epoch, parse_stamp
from rules.words import Role, Source

#: Lines kept per file, rule and place: the first and the last.
KEEP_FIRST, KEEP_LAST = 12, 8
#: Distinct rules and places per file before the rest is only counted.
MAX_KEYS = 20_000
#: Unrecognised templates per file, and lines per file that are masked to find them.
MAX_TEMPLATES, MAX_MASKED = 200, 20_000
#: A matched line is cut to this; the pattern has seen it whole.
MAX_LINE = 16_384
#: What follows the cut, until secrets are taken out: half of one is not known for what it is.
OVERHANG = 1_024
#: How far back a line without a time looks for one, and a traceback for its frames.
LOOK_BACK_LINES, LOOK_BACK_BYTES = 40, 16_384


@dataclass
class _Kept:
    """The lines of one rule at one place."""

    first: list[Observation] = field(default_factory=list)
    last: deque[Observation] = field(default_factory=lambda: deque(maxlen=KEEP_LAST))
    folded: int = 0

    def add(self, observation: Observation) -> None:
        if len(self.first) < KEEP_FIRST:
            self.first.append(observation)
            return
        if len(self.last) == KEEP_LAST:
            self.folded += 1
        self.last.append(observation)

    def all(self) -> Iterator[Observation]:
        """The kept lines; what was folded is counted on the last of the first ones."""
        *head, middle = self.first
        yield from head
        yield msgspec.structs.replace(middle, count=middle.count + self.folded) if self.folded else middle
        yield from self.last


@dataclass(slots=True)
class _Settled:
    """Lines of one set of harmless patterns that have come often enough to be only counted."""

    kept: _Kept
    times: int = 0
    last: bytes = b""
    number: int = 0
    at: int | None = None

    def count(self, data: bytes, start: int, end: int, number: int, at: int | None) -> None:
        """One more such line; the last of them is remembered."""
        self.times += 1
        self.last, self.number, self.at = data[start : min(end, start + MAX_LINE + OVERHANG)], number, at


@lru_cache(maxsize=8)
def plain_patterns(ruleset: Ruleset) -> frozenset[int]:
    """Patterns of progress and noise rules that fire wherever the automaton sees them, and say no more than that.

    Every iteration of a training prints such a line: once some are kept, the rest is only counted.
    """
    plain = {ruleset.scanner.suspicious}
    for index, (pattern, owner) in enumerate(zip(ruleset.patterns, ruleset.owners, strict=True)):
        rule = ruleset.rules[owner]
        match = rule.match
        conditional = match.none or match.decode or match.where or match.unless or rule.maps or rule.state
        if rule.role in (Role.NOISE, Role.PROGRESS) and not conditional and scan.is_whole(pattern):
            plain.add(index)
    return frozenset(plain)


class LineReader:
    """One pass over the lines of one stream: a file, one node's log in a store, one container's output.

    `name` begins the references of its lines ("name:line"). `lines`, `bytes`, `first` and `last` say what was read.
    """

    def __init__(
        self,
        *,
        source: Source,
        name: str,
        ruleset: Ruleset,
        node: str = "",
        rank: int | None = None,
        collector: str = "files",
        redactor: Redactor = PLAIN,
    ) -> None:
        self.ruleset, self._redactor = ruleset, redactor
        self._source, self._name, self._node, self._rank, self._collector = source, name, node, rank, collector
        self.lines = self.bytes = self.dropped = 0
        self.first: str | None = None
        self.last: str | None = None
        self._rewrite: formats.Rewriter | None = None
        self._begun = False
        self._before = b""
        self._times: Sequence[int] = ()
        self._times_from = self._within = 0
        self._kept: dict[object, _Kept] = {}
        self._templates: dict[str, tuple[Observation, int, int]] = {}
        self._masked = 0
        self._tail: deque[tuple[bytes, int, int | None]] = deque(maxlen=400)
        self._plain = plain_patterns(ruleset)
        self._times_seen: dict[tuple[int, ...], int] = {}
        self._settled: dict[tuple[int, ...], _Settled] = {}

    def feed(self, data: bytes, times: Sequence[int] | None = None, *, within: int = 0) -> None:
        """Take whole lines, joined by newlines, the last with or without one.

        `times` are nanoseconds since 1970, one for each line, as the store has them: they stand where a line
        prints no time of its own, and say when a line that does was there to be read. What a line tells of may have
        happened up to `within` seconds after its time: what is looked at now and then is seen between two looks.
        """
        if not data:
            return
        size = len(data)
        if not data.endswith(b"\n"):
            data += b"\n"  # or the next feed's first line would go on where this one's last ended
        whole = data.count(b"\n")
        if times is not None and len(times) != whole:
            raise ValueError(f"{len(times)} times for {whole} lines")
        if not self._begun and (sample := data[:65_536].decode("utf-8", "replace")).strip():
            self.use(formats.rewriter(sample))
        if times:
            low, high = _written(min(times)), _written(max(times))
            self.first = min(filter(None, (self.first, low)), default=None)
            self.last = max(filter(None, (self.last, high)), default=None)
        self._times, self._times_from, self._within = times or (), self.lines + 1, within
        self.block(data, self.lines + 1)
        self._times = ()
        self.lines += whole
        self.bytes += size - len(data)

    def use(self, rewrite: "formats.Rewriter | None") -> None:
        """Say how blocks become plain lines, once, before the first that says anything."""
        self._rewrite, self._begun = rewrite, True

    def block(self, raw: bytes, line: int) -> None:
        """Scan whole lines, or one piece of an overlong one, of which the first has the number `line`."""
        data = self._rewrite(raw) if self._rewrite else raw
        scanner = self.ruleset.scanner
        unknown = [scanner.suspicious]
        if self.first is None:
            self.first = _any_stamp(data[:LOOK_BACK_BYTES].split(b"\n"))
        counted = 0
        for start, end, ids in scanner.hits(data):
            line += data.count(b"\n", counted, start)
            counted = start
            if self._masked > MAX_MASKED and ids == unknown:
                # Enough of them are known by their template: of the rest only the end of the stream matters.
                self._tail.append((data[start : min(end, start + MAX_LINE + OVERHANG)], line, self._time(line)))
            elif (settled := self._settled.get(tuple(ids))) is not None:
                settled.count(data, start, end, line, self._time(line))
            else:
                self._hit(data, start, end, ids, line, self._before)
        self.bytes += len(raw)
        enough = len(data) >= LOOK_BACK_BYTES
        self._before = data[-LOOK_BACK_BYTES:] if enough else (self._before + data)[-LOOK_BACK_BYTES:]

    def end(self) -> None:
        """Say that nothing more comes: where the store gave no times, the last dated line ends the range."""
        self.last = self.last or _any_stamp(reversed(self._before.split(b"\n"))) or self.first

    def why_dropped(self) -> str:
        """What to say where more was found than is kept."""
        return f"more than {MAX_KEYS} distinct findings; {self.dropped} lines were only counted"

    def _time(self, line: int) -> int | None:
        """The store's time of a line, nanoseconds; None where it has none."""
        return self._times[line - self._times_from] if self._times else None

    def _hit(self, data: bytes, start: int, end: int, ids: list[int], number: int, before: bytes) -> None:
        text = data[start : min(end, start + 4 * MAX_LINE)].decode("utf-8", "backslashreplace")
        kept = self._line(text[: MAX_LINE + OVERHANG], ids, number, data, start, before)
        if kept is None or not self._plain.issuperset(ids):
            return
        key = tuple(ids)
        times = self._times_seen[key] = self._times_seen.get(key, 0) + 1
        if times >= KEEP_FIRST:
            self._settled[key] = _Settled(kept)

    def _line(self, text: str, ids: list[int], number: int, data: bytes, start: int, before: bytes) -> "_Kept | None":
        """Take in one line; what it was kept with, or None where no rule fires or nothing more can be kept."""
        observation = self._observation(text, number, self._time(number))
        line = text[:MAX_LINE]
        record = read.parse(line)
        found = extract.on_line(self.ruleset, line, ids, observation, record)
        if not found:
            if self.ruleset.scanner.suspicious in ids:
                self._suspicious(observation, record, number)
            return None
        places = tuple((s.rule.id, *sorted(s.locus.items()), *sorted(s.maps.items())) for s in found)
        key = (record.host, record.rank, places)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= MAX_KEYS:
                self.dropped += 1
                return None
            kept = self._kept[key] = _Kept()
        if len(kept.first) < KEEP_FIRST or any(s.rule.role is not Role.NOISE for s in found):
            observation = self._with_context(observation, record, data, start, before)
        kept.add(observation)
        return kept

    def _observation(self, text: str, number: int, at: int | None) -> Observation:
        return Observation(
            source=self._source,
            body=text,
            ref=f"{self._name}:{number}",
            node=self._node,
            rank=self._rank,
            observed_timestamp=_written(at) if at is not None else None,
            collector=self._collector,
        )

    def _with_context(
        self, observation: Observation, record: read.Record, data: bytes, start: int, before: bytes
    ) -> Observation:
        """Add what only the lines around can say: a time for a line without one, the frame of an exception."""
        attributes: dict[str, str | int] = {}
        stamp: Stamp | None = record.stamp
        if stamp is None and observation.observed_timestamp:
            stamp = parse_stamp(observation.observed_timestamp)
            if self._within:
                attributes["within"] = self._within
        undated = stamp is None and record.uptime is None
        if undated or _may_end_traceback(data, start, before):
            back = data[max(0, start - LOOK_BACK_BYTES) : start]
            if len(back) < LOOK_BACK_BYTES:
                back = before[-(LOOK_BACK_BYTES - len(back)) :] + back
            lines = back.split(b"\n")[:-1][-LOOK_BACK_LINES:]
            if undated and (stamp := _near_stamp(lines)) is not None:
                attributes["within"] = 60
            if frame := _frame(lines):
                attributes["frame"] = frame
        timestamp = str(stamp) if stamp is not None else None
        return msgspec.structs.replace(observation, timestamp=timestamp, attributes=attributes)

    def _suspicious(self, observation: Observation, record: read.Record, number: int) -> None:
        """Count a line that looks like an error and that no rule knows, by its template."""
        self._masked += 1
        if self._masked > MAX_MASKED:
            self._tail.append((observation.body.encode(), number, self._time(number)))
            return
        self._template(observation, record.message, number)

    def _template(self, observation: Observation, message: str, number: int) -> None:
        key = fingerprint.template(message)
        first, count, _ = self._templates.get(key, (observation, 0, 0))
        if count or len(self._templates) < MAX_TEMPLATES:
            self._templates[key] = (first, count + 1, number)

    def _close(self, settled: _Settled) -> None:
        """Add what was only counted: the last line as an observation, the others as its fold."""
        if not settled.times:
            return
        settled.kept.folded += settled.times - 1
        text = settled.last.decode("utf-8", "backslashreplace")
        last = self._observation(text, settled.number, settled.at)
        if read.parse(text).stamp is None:
            last = msgspec.structs.replace(last, timestamp=last.observed_timestamp)
        settled.kept.add(last)

    def observations(self) -> list[Observation]:
        """What was kept, without secrets."""
        for raw, number, at in self._tail:
            observation = self._observation(raw.decode("utf-8", "backslashreplace"), number, at)
            self._template(observation, read.parse(observation.body).message, number)
        self._tail.clear()
        for settled in self._settled.values():
            self._close(settled)
        self._settled.clear()
        out = [o for kept in self._kept.values() for o in kept.all()]
        for first, count, last in self._templates.values():
            attributes: dict[str, str | int] = {"from_end": self.lines - last}
            out.append(msgspec.structs.replace(first, count=count, attributes=attributes))
        clean = map(self.clean, out)
        return [msgspec.structs.replace(o, body=o.body[:MAX_LINE]) if len(o.body) > MAX_LINE else o for o in clean]

    def clean(self, observation: Observation) -> Observation:
        """What leaves here has no secrets; done at the end, for what is kept, and not for every line that matched."""
        attributes = {
            name: self._redactor.redact(value) if isinstance(value, str) else value
            for name, value in observation.attributes.items()
        }
        body = self._redactor.redact(observation.body)[:MAX_BODY]
        return msgspec.structs.replace(observation, body=body, attributes=attributes)


def redactions(observation: Observation) -> int:
    """How many secrets were taken out of one record."""
    values = (value for value in observation.attributes.values() if isinstance(value, str))
    return marks(observation.body) + sum(map(marks, values))


def _written(nanoseconds: int) -> str | None:
    """A store's time as stamps are written; None beyond the years that can be."""
    stamp = epoch(nanoseconds // 1000)
    return str(stamp) if stamp is not None else None


def _any_stamp(lines: object) -> str | None:
    for index, raw in enumerate(lines):  # type: ignore[var-annotated,arg-type]
        if index > 200:
            return None
        record = read.parse(raw[:400].decode("utf-8", "replace"))
        if record.stamp or record.uptime:
            return str(record.stamp or record.uptime)
    return None


def _near_stamp(lines: list[bytes]) -> Stamp | None:
    """The stamp of the nearest dated line before."""
    for raw in reversed(lines):
        stamp = read.parse(raw[:400].decode("utf-8", "replace")).stamp
        if stamp is not None:
            return stamp
    return None


def _may_end_traceback(data: bytes, start: int, before: bytes) -> bool:
    """Whether the line before is one that a traceback can have just before its exception."""
    if start == 0:
        previous = before[before.rfind(b"\n", 0, len(before) - 1) + 1 :]
    else:
        previous = data[data.rfind(b"\n", 0, start - 1) + 1 : start]
    text = previous[:400].decode("utf-8", "replace")
    return bool(_FRAME.search(text) or _INDENTED.match(text))


_INDENTED = re.compile(r".{0,80}?(?:^|[\]:|] ?)[ \t]{2,}\S")
_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>[^\n]+)')
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|<frozen|<string>|/torch/|lib/python")


def _frame(lines: list[bytes]) -> str:
    """The innermost frame in the user's own code of a traceback that ends just before; "" when there is none."""
    frames = []
    for raw in reversed(lines):
        text = raw.decode("utf-8", "replace")
        if match := _FRAME.search(text):
            frames.append(f"{match['file']}:{match['line']} in {match['name'].strip()}")
        elif "Traceback (most recent call last)" in text:
            break
        elif not frames and not _INDENTED.match(text):
            return ""
    return next((f for f in frames if not _LIBRARY.search(f)), frames[0] if frames else "")
