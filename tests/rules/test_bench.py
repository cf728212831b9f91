"""The benchmark: the same logs every time, patterns that ripgrep reads, and honest scores."""

import json
import re
from pathlib import Path

import pytest

from rules import scan
from rules.bench import attribution, measure, worker
from rules.bench.attribution import Answer, Label, judge
from rules.bench.command import shipped_rules
from rules.bench.generate import generate
from rules.collect import collect
from rules.incident import open_incident
from tests.rules.builders import a_rule, a_ruleset, shipped


def test_the_same_logs_come_out_every_time(tmp_path: Path) -> None:
    rules = shipped_rules()
    one, two = (generate(tmp_path / name, 500_000, rules, nodes=2) for name in ("a", "b"))
    assert (one.bytes, one.lines, one.planted) == (two.bytes, two.lines, two.planted)
    files = sorted(p.relative_to(one.folder) for p in one.folder.rglob("*") if p.is_file())
    assert [(one.folder / f).read_bytes() for f in files] == [(two.folder / f).read_bytes() for f in files]
    assert one.planted >= one.lines / 400


def test_made_logs_are_read_whole(tmp_path: Path) -> None:
    logs = generate(tmp_path, 300_000, shipped_rules(), nodes=2)
    collected = collect(open_incident([tmp_path]), shipped())
    assert sum(r.read for r in collected.reports) == logs.lines
    assert sum(r.bytes for r in collected.reports) == logs.bytes


def test_a_doubled_pattern_is_as_long_and_finds_other_words() -> None:
    made = worker.variant(r"(?i)\bport (?P<port>[a-z0-9]+) failed \(code 0x[0-9a-f]+\)$")
    assert made == r"(?i)\bcbeg (?P<port>[a-z0-9]+) snvyrq \(pbqr 0k[0-9a-f]+\)$"
    once = a_ruleset(a_rule("site.one", "daemon lost its mind"))
    twice = worker.doubled(once)
    assert len(twice.patterns) == 2
    assert [ids for _, _, ids in twice.scanner.hits(b"daemon lost its mind")] == [[0]]


def test_patterns_for_ripgrep_have_no_names_and_no_needless_escapes() -> None:
    assert measure.rust_pattern(r"^\"x\" (?P<a>\d+)\/b$") == r'"x" (?:\d+)/b'


def label(domain: str, can: str = "yes", *, also: tuple[str, ...] = (), nodes: tuple[str, ...] = ()) -> Label:
    return Label(domain, frozenset({domain, *also}), frozenset(nodes), can)


@pytest.mark.parametrize(
    ("wanted", "answer", "kind"),
    [
        (label("storage"), Answer("storage"), "right"),
        (label("storage", also=("facility",)), Answer("facility"), "right"),
        (label("storage"), Answer("unattributed"), "admitted"),
        (label("storage", "no"), Answer("ambiguous"), "right"),
        (label("storage"), Answer("facility"), "wrong"),
        (label("storage", nodes=("n1",)), Answer("storage", frozenset({"n2"})), "wrong"),
        (label("storage", "no"), Answer("storage", strong=True), "overclaimed"),
        (label("unknown"), Answer("storage"), "overclaimed"),
        (label("unknown"), Answer("unattributed"), "right"),
    ],
)
def test_answers_are_judged(wanted: Label, answer: Answer, kind: str) -> None:
    assert judge(wanted, answer) == kind


def test_cases_are_scored_beside_baselines_without_reading_the_label(tmp_path: Path) -> None:
    case = tmp_path / "one"
    case.mkdir()
    (case / "syslog.log").write_text(
        "Nov  3 02:11:04 gpu-017 kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.\n"
    )
    (case / "app.log").write_text("2026-11-03 02:12:00 KeyError: 'x'\n" * 5)
    (case / "label.json").write_text(
        json.dumps({"domain": "gpu_hardware", "determinable_from_files": "yes", "note": "KeyError: label"})
    )
    assert "label.json" not in [f.path.name for f in attribution.evidence_of(case).files]
    scores = attribution.score(tmp_path, shipped())
    assert scores.cases == 1
    assert sum(scores.tally[attribution.OURS].values()) == 1
    assert scores.tally["most frequent error"]["wrong"] == 1
    assert "wrong culprits of" in attribution.as_text(scores, listed=True)


def test_the_sieve_and_the_whole_automaton_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = generate(tmp_path, 600_000, shipped_rules(), nodes=1)
    scanner = shipped().scanner
    for path in sorted(logs.folder.rglob("*.log")):
        data = path.read_bytes()
        sieved = list(scanner.hits(data))
        with monkeypatch.context() as patch:
            patch.setattr(scan, "SMALL", 1 << 40)
            assert list(scanner.hits(data)) == sieved
        assert sieved


def test_every_firing_line_passes_the_sieve() -> None:
    scanner = shipped().scanner
    padding = b"\n" * scan.SMALL
    for rule in shipped_rules():
        for example in rule.test:
            for line in example.lines if example.expect.get("matches", 0) else []:
                raw = re.sub(rb"[\r\n]", b" ", line.encode())
                small = [sorted(ids) for _, _, ids in scanner.hits(raw)]
                large = [sorted(ids) for _, _, ids in scanner.hits(raw + padding)]
                assert small == large, (rule.id, line)
