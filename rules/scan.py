"""Matching all patterns in one pass over a buffer.

Hyperscan (Vectorscan) reports the end offset of every pattern in linear time, whatever the patterns
and the text; Python then touches only the lines that matched. Buffers of many lines go through a sieve first: an
automaton of rare texts, one of which a pattern cannot match without, and of the few patterns that have none.
Its speed hardly depends on the number of rules; the lines it lets through see the whole automaton, one by one, which
tells each pattern once however often a line of megabytes has it.
A build without Hyperscan falls back to `re`, pattern by pattern, with the same answers
(tests/rules/test_scan.py asserts it).
"""

import importlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from rules.literals import MIN_RARE, is_rare, required
from rules.trim import trimmed

hyperscan: Any
try:
    hyperscan = importlib.import_module("hyperscan")
except ImportError:  # a platform without a wheel: slower, the same answers
    hyperscan = None

#: Part of the cache key of a compiled ruleset; the number behind it is raised when the serialised form changes.
BACKEND = f"hyperscan-{hyperscan.__version__}-5" if hyperscan else "re"
#: A single line below this is looked at with the whole automaton at once.
SMALL = 8_192
#: From so many reports of one scan on those of one pattern in one line are told once.
DENSE = 20_000

_FLAGS = re.compile(r"^(\(\?[a-z]+\))?\^?")
#: How much of an overlong line is looked at before the first thing found in it.
MAX_BEFORE = 49_152
#: Lines that look like errors: what no rule claims of them becomes "unrecognised".
SUSPICIOUS = (
    r"(?i)(?:\b(?:error|fatal|panic|exception|failure|critical)\b[ \t]*[:\]=!(]|\bfailed (?:to|with)\b|\bfatal error\b"
    r"|\babort(?:ed|ing)\b|\bpanic\b|\bcorrupt(?:ed|ion)\b|\bsegfault\b|\bcore dumped\b)"
)


def prefilter(pattern: str) -> str:
    """The pattern without what only means something inside a message: "^", "$" and repeats at the end.

    What the automaton finds this way is checked again inside the line with the whole pattern.
    """
    flags = _FLAGS.match(pattern)
    head = (flags[1] or "") if flags else ""
    body = pattern[flags.end() :] if flags else pattern
    if body.endswith("$") and not body.endswith(r"\$"):
        body = body[:-1]
    return head + trimmed(body)


def is_whole(pattern: str) -> bool:
    """Whether the automaton sees the whole pattern: nothing of it is left to be checked in the message alone."""
    body = pattern[re.match(r"(?:\(\?[a-z]+\))?", pattern).end() :]  # type: ignore[union-attr]
    return not body.startswith("^") and not (body.endswith("$") and not body.endswith(r"\$"))


class _Compiled(msgspec.Struct, frozen=True, array_like=True):
    """The two automata, serialised."""

    whole: bytes
    sieve: bytes


def compile_automaton(patterns: Sequence[str]) -> bytes:
    """The serialised automata of the patterns and of SUSPICIOUS, or b"" without hyperscan.

    Raises ValueError naming the pattern that the automaton refuses.
    """
    if hyperscan is None:
        return b""
    expressions = [prefilter(pattern) for pattern in [*patterns, SUSPICIOUS]]
    try:
        whole = _database(list(enumerate(expressions)), once=True)
    except hyperscan.HyperscanError as error:
        raise ValueError(_culprit([*patterns, SUSPICIOUS]) or str(error)) from error
    compiled = _Compiled(hyperscan.dumpb(whole), hyperscan.dumpb(_database(_sieve(expressions))))
    return msgspec.msgpack.encode(compiled)


def _database(expressions: list[tuple[int, str]], *, once: bool = False) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[text.encode() for _, text in expressions],
        ids=[number for number, _ in expressions],
        elements=len(expressions),
        flags=hyperscan.HS_FLAG_SINGLEMATCH if once else 0,
    )
    return database


def _sieve(expressions: list[str]) -> list[tuple[int, str]]:
    """What a first, fast pass looks for: rare texts of which a pattern needs one, else the pattern itself.

    The numbers of rare texts begin behind the last pattern's: "look at this line with the whole automaton".
    """
    direct: list[tuple[int, str]] = []
    exact: set[str] = set()
    caseless: set[str] = set()
    for number, expression in enumerate(expressions):
        texts, ignore_case = required(expression)
        if not texts or not all(is_rare(text) and text.isascii() for text in texts):
            direct.append((number, expression))
        elif ignore_case:
            caseless.update(text.lower() for text in texts)
        else:
            exact.update(texts)
    caseless = _shortest(caseless, set())
    exact = _shortest(exact, caseless)
    rare = [*map(_literal, sorted(exact)), *("(?i)" + _literal(text) for text in sorted(caseless))]
    # A number each: the automaton's compiler takes seconds over many expressions of one number.
    return [*direct, *enumerate(rare, len(expressions))]


def _shortest(texts: set[str], covered: set[str]) -> set[str]:
    """The texts without those that contain another of them, or, in lower case, one of `covered`."""
    kept: set[str] = set()
    for text in sorted(texts, key=lambda t: (len(t), t)):
        parts = {text[i:j] for i in range(len(text)) for j in range(i + MIN_RARE, len(text) + 1)}
        if parts.isdisjoint(kept) and {part.lower() for part in parts}.isdisjoint(covered):
            kept.add(text)
    return kept


def _literal(text: str) -> str:
    """The text as an expression that means itself."""
    return "".join(ch if ch.isalnum() or ch in " _" else f"\\x{ord(ch):02x}" for ch in text)


def refusal(pattern: str) -> str:
    """Why the automaton refuses a pattern, or ""."""
    if hyperscan is None:
        return ""
    try:
        hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK).compile(
            expressions=[prefilter(pattern).encode()], ids=[0], elements=1, flags=0
        )
    except hyperscan.HyperscanError as error:
        return str(error)
    return ""


def _culprit(patterns: Sequence[str]) -> str:
    return next((f"pattern {p!r}: {reason}" for p in patterns if (reason := refusal(p))), "")


def _line_around(buffer: bytes, offset: int) -> tuple[int, int]:
    """The line in which something ends at `offset`: between newlines or bare carriage returns, as a bar redraws it."""
    start = buffer.rfind(b"\n", 0, offset) + 1
    start = buffer.rfind(b"\r", start, offset) + 1 or start
    if offset - start > MAX_BEFORE:
        start = offset - MAX_BEFORE
    return start, _line_end(buffer, offset)


def _line_end(buffer: bytes, offset: int) -> int:
    """Where the line ends in which something ends at `offset`."""
    end = buffer.find(b"\n", offset)
    if end < 0:
        end = len(buffer)
    redrawn = buffer.find(b"\r", offset, end)
    return end if redrawn < 0 else redrawn


class Automaton:
    """A compiled database that any number of threads may use: each has its own scratch space."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._scratch = hyperscan.Scratch(database)
        self._local = threading.local()

    def matches(self, buffer: bytes) -> list[tuple[int, int, int]]:
        """What matches where: (end, number, start); `start` is 0 unless the database was compiled to know it."""
        found: list[tuple[int, int, int]] = []
        append = found.append

        def on_match(number: int, start: int, end: int, _flags: int, _context: object) -> None:
            append((end, number, start))

        self._scan(buffer, on_match)
        return found

    def ends(self, buffer: bytes) -> list[tuple[int, int]]:
        """Where what ends: (offset, number). Of a pattern that a line has over and over not every end is told."""
        found: list[tuple[int, int]] = []
        append = found.append
        told: dict[int, int] = {}  # how far the line goes in which a pattern was last told

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            if len(found) >= DENSE:
                if end <= told.get(number, -1):
                    return
                told[number] = _line_end(buffer, end)
            append((end, number))

        self._scan(buffer, on_match)
        return found

    def _scan(self, buffer: bytes, on_match: Callable[[int, int, int, int, object], None]) -> None:
        scratch = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = self._scratch.clone()
        self._database.scan(buffer, match_event_handler=on_match, scratch=scratch)


def literals(texts: Sequence[str]) -> Automaton | None:
    """An automaton that says which of some texts occur, each once; None without hyperscan."""
    if hyperscan is None:
        return None
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[_literal(text).encode() for text in texts],
        ids=list(range(len(texts))),
        elements=len(texts),
        flags=hyperscan.HS_FLAG_SINGLEMATCH,
    )
    return Automaton(database)


def spanning(pattern: str) -> Automaton:
    """An automaton of one pattern that also says where a match starts. Raises ValueError when it cannot be had."""
    if hyperscan is None:
        raise ValueError("this needs Hyperscan, which is not installed here")
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        database.compile(expressions=[pattern.encode()], ids=[0], elements=1, flags=hyperscan.HS_FLAG_SOM_LEFTMOST)
    except hyperscan.HyperscanError as error:
        raise ValueError(str(error)) from error
    return Automaton(database)


def _loaded(serialised: bytes) -> Automaton:
    return Automaton(hyperscan.loadb(serialised, mode=hyperscan.HS_MODE_BLOCK))


class Scanner:
    """Finds which patterns occur in which lines of a buffer.

    `hits` yields (start, end, ids) in order of start, where ids are indexes into `patterns`;
    `len(patterns)` stands for SUSPICIOUS. A line ends at a newline or carriage return; `start` and `end` are
    byte offsets. Of a line of megabytes, `start` is not further than MAX_BEFORE from the first thing found.
    """

    def __init__(self, patterns: Sequence[str], *, automaton: bytes = b"", backend: str = "") -> None:
        self.patterns = tuple(patterns)
        self.suspicious = len(self.patterns)
        backend = backend or ("hyperscan" if hyperscan else "re")
        self._automata: tuple[Automaton, Automaton] | None = None
        self._fallback: list[re.Pattern[bytes]] = []
        if backend == "hyperscan":
            compiled = msgspec.msgpack.decode(automaton or compile_automaton(self.patterns), type=_Compiled)
            self._automata = _loaded(compiled.whole), _loaded(compiled.sieve)
        else:
            self._fallback = [re.compile(prefilter(p).encode()) for p in [*self.patterns, SUSPICIOUS]]

    def hits(self, buffer: bytes) -> Iterator[tuple[int, int, list[int]]]:
        """The lines of `buffer` in which something occurs."""
        if self._automata is None:
            ends = self._by_re(buffer)
        else:
            whole, sieve = self._automata
            at_once = len(buffer) < SMALL and b"\n" not in buffer and b"\r" not in buffer
            ends = (whole if at_once else sieve).ends(buffer)
        ends.sort()
        start = end = -1
        ids: list[int] = []
        for offset, pattern in ends:
            if offset > end:
                if ids and (exact := self._exact(buffer, start, end, ids)):
                    yield start, end, exact
                start, end = _line_around(buffer, offset)
                ids = [pattern]
            elif pattern not in ids:
                ids.append(pattern)
        if ids and (exact := self._exact(buffer, start, end, ids)):
            yield start, end, exact

    def _exact(self, buffer: bytes, start: int, end: int, ids: list[int]) -> list[int]:
        """The patterns in a line: as found, or by the whole automaton where the sieve only saw a rare text."""
        if self._automata is None or max(ids) <= self.suspicious:
            return ids
        whole, _ = self._automata
        return list(dict.fromkeys(pattern for _, pattern in sorted(whole.ends(buffer[start:end]))))

    def _by_re(self, buffer: bytes) -> list[tuple[int, int]]:
        return [(m.end(), index) for index, pattern in enumerate(self._fallback) for m in pattern.finditer(buffer)]
