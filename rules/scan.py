"""Matching all patterns in one pass over a buffer.

Hyperscan (Vectorscan) reports the end offset of every pattern in linear time, whatever the patterns
and the text; Python then touches only the lines that matched. A build without it falls back to `re`,
pattern by pattern, with the same answers (tests/rules/test_scan.py asserts it).
"""

import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

hyperscan: Any
try:
    hyperscan = importlib.import_module("hyperscan")
except ImportError:  # a platform without a wheel: slower, the same answers
    hyperscan = None

BACKEND = f"hyperscan-{hyperscan.__version__}" if hyperscan else "re"

_FLAGS = re.compile(r"^(\(\?[a-z]+\))?\^?")
#: A repeated tail, captured or not (".*", "(?P<code>[0-9]+)"): an automaton would report every character of it.
_TAIL = re.compile(
    r"(?P<open>\((?:\?P<\w+>|\?:)?)?(?P<one>\.|\\[dw]|\[(?:\\.|[^\\\]])+\])(?P<times>[*+]|\{\d+(?:,\d*)?\})\??(?P<close>\))?$"
)
#: How much of an overlong line is looked at before the first thing found in it.
MAX_BEFORE = 49_152
#: Lines that look like errors: what no rule claims of them becomes "unrecognised".
SUSPICIOUS = (
    r"(?i)(?:\b(?:error|fatal|panic|exception|failure|critical)\b[ \t]*[:\]=!(]|\bfailed (?:to|with)\b|\bfatal error\b"
    r"|\babort(?:ed|ing)\b|\bpanic\b|\bcorrupt(?:ed|ion)\b|\bsegfault\b|\bcore dumped\b)"
)


def prefilter(pattern: str) -> str:
    """The pattern without what only means something inside a message: "^", "$" and a captured rest.

    What the automaton finds this way is checked again inside the line with the whole pattern.
    """
    flags = _FLAGS.match(pattern)
    head = (flags[1] or "") if flags else ""
    body = pattern[flags.end() :] if flags else pattern
    if body.endswith("$") and not body.endswith(r"\$"):
        body = body[:-1]
    while tail := _TAIL.search(body):
        before = body[: tail.start()]
        if bool(tail["open"]) != bool(tail["close"]) or re.search(r"(?<!\\)(?:\\\\)*\\$", before):
            break  # half of a larger group, or an escaped character
        times = tail["times"]
        least = 0 if times == "*" else 1 if times == "+" else int(re.findall(r"\d+", times)[0])
        body = before + (tail["one"] if least == 1 else tail["one"] + f"{{{least}}}" if least else "")
        if least:
            break
    return head + body


def is_whole(pattern: str) -> bool:
    """Whether the automaton sees the whole pattern: nothing of it is left to be checked in the message alone."""
    body = pattern[re.match(r"(?:\(\?[a-z]+\))?", pattern).end() :]  # type: ignore[union-attr]
    return not body.startswith("^") and not (body.endswith("$") and not body.endswith(r"\$"))


def compile_automaton(patterns: Sequence[str]) -> bytes:
    """The serialised automaton of the patterns and of SUSPICIOUS, or b"" without hyperscan.

    Raises ValueError naming the pattern that the automaton refuses.
    """
    if hyperscan is None:
        return b""
    expressions = [prefilter(pattern).encode() for pattern in [*patterns, SUSPICIOUS]]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        database.compile(expressions=expressions, ids=list(range(len(expressions))), elements=len(expressions), flags=0)
    except hyperscan.HyperscanError as error:
        raise ValueError(_culprit([*patterns, SUSPICIOUS]) or str(error)) from error
    return bytes(hyperscan.dumpb(database))


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
    end = buffer.find(b"\n", offset)
    if end < 0:
        end = len(buffer)
    redrawn = buffer.find(b"\r", offset, end)
    return start, end if redrawn < 0 else redrawn


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
        self._database = None
        self._fallback: list[re.Pattern[bytes]] = []
        if backend == "hyperscan":
            self._database = hyperscan.loadb(
                automaton or compile_automaton(self.patterns), mode=hyperscan.HS_MODE_BLOCK
            )
            self._database.scratch = hyperscan.Scratch(self._database)
        else:
            self._fallback = [re.compile(prefilter(p).encode()) for p in [*self.patterns, SUSPICIOUS]]

    def hits(self, buffer: bytes) -> Iterator[tuple[int, int, list[int]]]:
        """The lines of `buffer` in which something occurs."""
        ends = self._by_automaton(buffer) if self._database is not None else self._by_re(buffer)
        ends.sort()
        start = end = -1
        ids: list[int] = []
        for offset, pattern in ends:
            if offset > end:
                if ids:
                    yield start, end, ids
                start, end = _line_around(buffer, offset)
                ids = [pattern]
            elif pattern not in ids:
                ids.append(pattern)
        if ids:
            yield start, end, ids

    def _by_automaton(self, buffer: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        append = found.append

        def on_match(pattern: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append((end, pattern))

        self._database.scan(buffer, match_event_handler=on_match)  # type: ignore[union-attr]
        return found

    def _by_re(self, buffer: bytes) -> list[tuple[int, int]]:
        return [(m.end(), index) for index, pattern in enumerate(self._fallback) for m in pattern.finditer(buffer)]
