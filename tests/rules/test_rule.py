"""Rule files that are wrong: every error names the file, the line and the key."""

from pathlib import Path

import pytest

from rules import ruleset
from rules.examples import run_file
from rules.rule import RuleError, line_of, parse_rule, pattern_problem
from rules.ruleset import load_ruleset
from tests.rules.builders import a_rule, a_ruleset

GOOD = a_rule("gpu.dead", r"GPU (?P<pci>[0-9a-f:.]+) is dead", locus='gpu = "pci"')[1].decode()


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ('role = "cause"', 'role = "culprit"', 4, "culprit"),
        ('domain = "gpu_hardware"', 'domain = "no_failure"', 4, "domain"),
        ('meaning = "m"', 'meaning = "m"\nlevel = 3', 7, "level"),
        ('gpu = "pci"', 'gpu = "bus"', 11, "no pattern has a group named 'bus'"),
        ("is dead", r"is\sdead", 9, "can cross a line"),
        ("is dead", "(?=x) is dead", 9, "look-around"),
        ('symptom = "gpu_dead"', 'symptom = "GPU dead"', 3, "symptom"),
        ('meaning = "m"', "meaning = m", 6, "Invalid value"),
    ],
)
def test_an_error_names_the_line(old: str, new: str, line: int, says: str) -> None:
    with pytest.raises(RuleError, match=rf"gpu/dead.toml:{line}: .*{says}"):
        parse_rule(GOOD.replace(old, new).encode(), name="gpu/dead.toml")


@pytest.mark.parametrize(
    "pattern",
    [r"a(?=b)", r"(?<!x)a", r"(a)\1", r"a\s+b", r"[^x]+ab", r"x*", r"a^b", r"a$b", "(unclosed"],
)
def test_patterns_that_are_not_linear_or_leave_the_line_are_refused(pattern: str) -> None:
    assert pattern_problem(pattern)


@pytest.mark.parametrize(
    "pattern", [r"^abc$", r"(?i)abc[^\n]x", r"a[ \t]+b", r"\^\$ab", r"[^)\n]*\)", r"rest (?P<r>.*)"]
)
def test_patterns_that_are_allowed(pattern: str) -> None:
    assert pattern_problem(pattern) == ""


def test_a_failing_example_names_its_line(tmp_path) -> None:
    text = GOOD + '\n[[test]]\nname = "dead or alive"\nlines = ["GPU 00:1 is alive"]\nexpect = { matches = 1 }\n'
    path = tmp_path / "gpu" / "dead.toml"
    path.parent.mkdir()
    path.write_text(text)
    ran, failures = run_file(a_ruleset(("gpu/dead.toml", text.encode())), path, text.encode())
    assert ran == 1
    assert failures[0].line == line_of(text.encode(), "", "dead or alive") > 10


def a_copy(rule_id: str, catalogue: Path) -> None:
    name = rule_id.replace(".", "/") + ".toml"
    (catalogue / name).parent.mkdir(parents=True, exist_ok=True)
    (catalogue / name).write_bytes((ruleset.CATALOGUE / name).read_bytes())


def test_a_site_overrides_disables_and_adds_and_changes_the_digest(tmp_path, monkeypatch) -> None:
    catalogue = tmp_path / "catalogue"
    for rule_id in ("gpu.off-the-bus", "gpu.xid-ignorable"):
        a_copy(rule_id, catalogue)
    monkeypatch.setattr(ruleset, "CATALOGUE", catalogue)
    shipped = load_ruleset(cache=False)
    tmp_path = tmp_path / "site"
    (tmp_path / "daemon").mkdir(parents=True)
    (tmp_path / "daemon" / "frob.toml").write_bytes(a_rule("daemon.frob", "frobnicator lost its marbles")[1])
    (tmp_path / "site.toml").write_text(
        'disable = ["gpu.xid-ignorable"]\n[overrides."gpu.off-the-bus"]\nmaturity = "draft"\n'
        '[topology.switch]\nleaf-1 = ["n1"]\n[clock_bounds]\nsyslog = 9.5\n'
    )
    site = load_ruleset(tmp_path, cache=False)
    assert "daemon.frob" in site.by_id
    assert "gpu.xid-ignorable" not in site.by_id
    assert site.by_id["gpu.off-the-bus"].maturity == "draft"
    assert site.site.topology == {"switch": {"leaf-1": ["n1"]}}
    assert site.digest != shipped.digest
    assert site.layers == ("shipped", "site")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('disable = ["gpu.none"]', "no rule 'gpu.none'"),
        ("[topology.planet]\n", "planet"),
        ("x = 1\n", "unknown field"),
        ('disable = []\nabsent = ["syslog"]', "site.toml:2: absent: syslog: every attempt"),
    ],
)
def test_a_wrong_site_file_says_what_is_wrong(tmp_path, text: str, says: str) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(RuleError, match=says):
        load_ruleset(tmp_path, cache=False)


def test_a_damaged_cache_is_built_anew(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_copy("gpu.off-the-bus", tmp_path / "catalogue")
    monkeypatch.setattr(ruleset, "CATALOGUE", tmp_path / "catalogue")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    digest = load_ruleset().digest
    (file,) = (tmp_path / "inquest").iterdir()
    file.write_bytes(file.read_bytes()[:-10] + b"0123456789")
    assert load_ruleset().digest == digest
