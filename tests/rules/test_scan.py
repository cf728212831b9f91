"""One pass over a buffer, with two backends that must agree."""

import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules import scan
from rules.examples import rule_files
from rules.rule import parse_rule
from rules.ruleset import CATALOGUE, load_ruleset
from rules.scan import Scanner, prefilter

PATTERNS = [
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:]+)[^)\n]*\): 79,",
    r"^slurmstepd: error:",
    r"(?i)out of memory",
    r"Killed process (?P<pid>\d+) \((?P<name>[^)\n]*)\)",
    r"iteration +\d+/ *\d+",
    r"exited with (?P<rest>.*)",
]
WORDS = ["NVRM: Xid (PCI:0000:65:00): 79, x", "slurmstepd: error: a", "Out Of Memory", "Killed process 12 (py)", "iteration 3/ 9",
         "exited with code 1", "error", "plain", "\r", "é", "\x00", "fatal"]  # fmt: skip
FAST, PLAIN = Scanner(PATTERNS), Scanner(PATTERNS, backend="re")


@settings(max_examples=300)
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=12))
def test_both_backends_see_the_same_patterns_in_the_same_lines(lines: list[str]) -> None:
    buffer = "\n".join(lines).encode()
    fast = [(s, e, sorted(ids)) for s, e, ids in FAST.hits(buffer)]
    plain = [(s, e, sorted(ids)) for s, e, ids in PLAIN.hits(buffer)]
    assert fast == plain


def test_a_hit_names_the_whole_line() -> None:
    buffer = b"first\nxx Out of Memory yy\nlast"
    assert [(buffer[s:e], ids) for s, e, ids in FAST.hits(buffer)] == [(b"xx Out of Memory yy", [2])]


def test_a_captured_rest_is_not_matched_character_by_character() -> None:
    assert prefilter(r"^exited with (?P<rest>.*)$") == "exited with "
    assert prefilter(r"a \.*") == "a " and prefilter(r"a \.+") == r"a \."
    assert prefilter(r"(?i)^exit(?P<message>: .*)$") == r"(?i)exit(?P<message>: )"
    assert prefilter(r"in (?:(?P<file>[\w/]+)(?: line \d+)?|nothing.*)") == r"in (?:(?P<file>[\w/])|nothing)"
    assert prefilter(r"x\)?(?P<code>\x41{2,}|[]a-]+)(?: .*)*") == r"x\)?(?P<code>\x41{2}|[]a-])"
    assert prefilter(r"a(?=b).*") == r"a(?=b).*", "what is not understood stays as it is"


@given(st.sampled_from(PATTERNS), st.text(alphabet="NVRM: Xid(PC0165)79,\nabc", max_size=80))
def test_what_the_pattern_finds_its_prefilter_finds(pattern: str, text: str) -> None:
    for line in text.split("\n"):
        if re.search(pattern, line):
            assert re.search(prefilter(pattern), line)


def test_a_line_that_goes_on_without_end_is_not_told_for_each_of_its_characters() -> None:
    ruleset = load_ruleset()
    assert ruleset.scanner._automata is not None
    _, automaton = ruleset.scanner._automata  # the whole one tells each pattern once
    for path, raw in rule_files([CATALOGUE]):
        for line in [line for test in parse_rule(raw, name=str(path)).test for line in test.lines[:2]]:
            whole = b"".join(
                f"{line}{more * 300}\n".encode() for more in ("a", "0", ".", " ", "/", ":", "x ", '"', "a.b-1")
            )
            told = Counter(number for _, number, _ in automaton.matches(whole))
            often = [ruleset.patterns[n] for n, times in told.items() if times > 1500 and n < len(ruleset.patterns)]
            assert not often, f"after {line!r}"


def test_a_million_repeats_cost_one_line() -> None:
    hits = list(FAST.hits(b"Out of memory " * 50_000))
    assert [ids for _, _, ids in hits] == [[2]]


def test_a_pattern_over_and_over_in_one_line_is_told_a_few_times_and_every_line_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "DENSE", 3)
    scanner = Scanner(PATTERNS)
    lines = [
        b"Out of memory " * 900,
        b"plain",
        b"Out of memory, fatal: " * 900,
        b"exited with 1\r" * 3,
        b"Out of memory",
    ]
    buffer = b"\n".join(lines)
    fast = [(s, e, sorted(ids)) for s, e, ids in scanner.hits(buffer)]
    assert fast == [(s, e, sorted(ids)) for s, e, ids in Scanner(PATTERNS, backend="re").hits(buffer)]
    assert len(fast) == 6
    assert scanner._automata is not None
    assert len(scanner._automata[1].ends(buffer)) < 30, "of thousands of reports"


def test_many_threads_may_use_one_scanner() -> None:
    scanner = Scanner(PATTERNS)
    buffer = b"iteration 3/ 9\nplain\n" * 40
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: len(list(scanner.hits(buffer))), range(2000)))
    finally:
        sys.setswitchinterval(interval)
    assert found == [40] * 2000
