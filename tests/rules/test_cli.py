"""`inquest explain` and `inquest rules` as a person calls them."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rules import commands, examples, lint, ruleset, show
from rules.cli import explain, rules
from rules.rule import Explains, LocusFrom, Match, Rule, parse_rule
from rules.ruleset import CATALOGUE, load_ruleset
from rules.words import CAUSAL_DOMAINS, Group, Role
from tests.rules.builders import a_rule

LINE = "Nov  3 02:11:04 gpu-017 fabricd[812]: port 7 of 0000:65:00.0 on gpu-017 lost sync with 10.0.0.3 after 12.5 s"


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(rules, [str(word) for word in words])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty site's layer over a catalogue of one rule, which compiles in no time."""
    small = tmp_path / "catalogue"
    (small / "gpu").mkdir(parents=True)
    shutil.copy(CATALOGUE / "gpu/off-the-bus.toml", small / "gpu")
    for module in (ruleset, commands, show):
        monkeypatch.setattr(module, "CATALOGUE", small)
    monkeypatch.delenv("INQUEST_RULES_DIR", raising=False)
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


def put(site: Path, name: str, raw: bytes) -> Path:
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def test_a_pasted_line_becomes_a_rule_that_passes_its_own_tests(site: Path) -> None:
    made = call("new", LINE, "--site", site, "--id", "site.lost-sync")
    assert made.exit_code == 0, made.output
    rule = parse_rule((site / "site/lost-sync.toml").read_bytes(), name="x")
    assert {"gpu", "node", "peer", "number"} <= set(re.compile(rule.match.any[0]).groupindex)
    tested = call("test", "--site", site, "site.lost-sync")
    assert tested.exit_code == 0, tested.output
    assert "2 examples of 1 rules: 2 passed" in tested.output
    linted = call("lint", "--site", site, "site.lost-sync")
    assert linted.exit_code == 1
    assert all("as drafted: a person has to write it" in line for line in linted.output.splitlines()[:-1])


def test_what_shares_the_time_of_a_line_before_is_said_to_be_lines_later(tmp_path: Path) -> None:
    log = tmp_path / "train.out"
    log.write_text(
        "[2026-11-03 02:05:00,123] [INFO] step 500 loss 2.3\n"
        "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
        "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    )
    told = CliRunner().invoke(explain, [str(log)]).output
    assert "(1 line later in the same file)" in told
    assert "0.0 s later" not in told


def test_the_new_rule_is_used_by_explain(site: Path, tmp_path: Path) -> None:
    call("new", LINE, "--site", site, "--id", "site.lost-sync", "--role", "cause", "--domain", "host_software")
    log = tmp_path / "messages"
    log.write_text(LINE + "\n")
    run = CliRunner().invoke(explain, ["--json", "--site", str(site), f"--source=syslog={log}"])
    body = json.loads(run.stdout)
    found = [f["rule"] for part in ("causes", "candidates", "demoted", "interesting") for f in body[part]]
    assert "site.lost-sync" in found
    assert body["ruleset"]["layers"] == ["shipped", "site"]


def test_a_rule_can_start_from_a_file_and_line(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("one\n" + LINE + "\n")
    assert call("new", f"{log}:2", "--site", site).exit_code == 0
    missing = call("new", f"{log}:9", "--site", site)
    assert missing.exit_code == 2
    assert "has no line 9" in missing.output


def test_a_rule_can_start_from_an_unrecognised_line_of_a_verdict(site: Path, tmp_path: Path) -> None:
    entry = {"template": "t", "count": 3, "source": "syslog", "near_end": True, "example": {"text": LINE}}
    verdict = tmp_path / "verdict.json"
    verdict.write_text(json.dumps({"unrecognised": [entry, entry | {"template": "u"}]}))
    asked = call("new", "--from-verdict", verdict, "--site", site)
    assert asked.exit_code == 2
    assert "say --number N" in asked.output
    assert call("new", "--from-verdict", verdict, "--number", "2", "--site", site).exit_code == 0


def test_new_does_not_write_over_a_rule(site: Path) -> None:
    assert call("new", LINE, "--site", site).exit_code == 0
    again = call("new", LINE, "--site", site)
    assert again.exit_code == 2
    assert "is there already" in again.output


@pytest.mark.parametrize("line", ["", "   ", "1 2 3", "12:34"])
def test_a_line_without_words_gives_no_rule(site: Path, line: str) -> None:
    assert call("new", line, "--site", site).exit_code == 2
    assert not list(site.rglob("*.toml"))


def test_show_says_where_a_rule_stands_and_what_it_replaces(site: Path) -> None:
    raw = (CATALOGUE / "gpu/off-the-bus.toml").read_bytes()  # the real one: the fixture's copy is the layer below
    put(site, "gpu/off-the-bus.toml", raw.replace(b'maturity = "stable"', b'maturity = "trial"'))
    shown = call("show", "gpu.off-the-bus", "--site", site)
    assert shown.exit_code == 0
    assert f"site: {site / 'gpu/off-the-bus.toml'}:1, in place of" in " ".join(shown.output.split())
    body = json.loads(call("show", "gpu.off-the-bus", "--json").output)
    assert body["origin"]["layer"] == "shipped"
    assert body["domain"] == "gpu_hardware"


def test_show_of_an_unknown_rule_proposes_others() -> None:
    shown = call("show", "off-the-bus")
    assert shown.exit_code == 2
    assert "gpu.off-the-bus" in shown.output


def test_list_filters_and_prints_json() -> None:
    chosen = json.loads(call("list", "--subject", "gpu", "--role", "cause", "--json").output)
    assert chosen
    assert {(r["id"].split(".")[0], r["role"]) for r in chosen} == {("gpu", "cause")}


def test_a_failing_example_is_named_by_file_and_line(site: Path) -> None:
    tail = '[[test]]\nname = "wrong"\nlines = ["daemon lost its mind"]\nexpect = { matches = 2 }\n'
    path = put(site, *a_rule("site.mind", "daemon lost its mind", tail=tail))
    run = call("test", "--site", site, "site.mind")
    assert run.exit_code == 1
    assert f"{path}:" in run.output
    line = int(run.output.split(f"{path}:")[1].split(":")[0])
    assert path.read_text().splitlines()[line - 1] == 'name = "wrong"'


def test_a_broken_file_stops_with_file_and_line(site: Path) -> None:
    path = put(site, "site/bad.toml", b'id = "site.bad"\ntitle = "x"\nfoo = 1\n')
    run = call("test", "--site", site)
    assert run.exit_code == 2
    assert f"{path}:3: " in run.output


def problems(site: Path, *files: tuple[str, bytes]) -> list[str]:
    for name, raw in files:
        put(site, name, raw)
    found = lint.lint(load_ruleset(site), [site])
    return [str(problem) for problem in found]


TESTS = (
    '[[test]]\nname = "a"\nlines = ["daemon lost its mind"]\nexpect = { matches = 1 }\n'
    '[[test]]\nname = "b"\nlines = ["daemon found its mind"]\nexpect = { matches = 0 }\n'
)


def test_lint_asks_for_a_near_miss_and_a_reference(site: Path) -> None:
    found = problems(site, a_rule("site.mind", "daemon lost its mind"))
    assert any("no test that does not fire" in p for p in found)
    assert any("has neither links" in p for p in found)
    assert all(p.startswith(f"{site / 'site/mind.toml'}:") for p in found)


def test_lint_finds_a_rule_that_can_never_fire(site: Path) -> None:
    particular = a_rule("site.one", "daemon lost its mind", tail=TESTS)
    name, raw = a_rule("site.two", "daemon lost its", tail=TESTS)
    found = problems(site, particular, (name, raw.replace(b"[locus]", b"generic = true\n[locus]")))
    assert any("two.toml" in p and "unreachable" in p and "site.one fires instead" in p for p in found)


def test_lint_finds_conditions_that_cannot_hold(site: Path) -> None:
    name, raw = a_rule("site.mind", r"daemon lost its (?P<what>mind|keys)", tail=TESTS)
    found = problems(
        site, (name, raw.replace(b"[locus]", b'where = { what = ["mind", "way"], other = ["x"] }\n[locus]'))
    )
    assert any("no pattern can yield 'way'" in p for p in found)
    assert any("condition on 'other', which no pattern has" in p for p in found)


def test_lint_finds_the_same_pattern_twice(site: Path) -> None:
    found = problems(
        site,
        a_rule("site.one", "daemon lost its mind", tail=TESTS),
        a_rule("site.two", "daemon lost its mind", tail=TESTS),
    )
    assert any("is also in site.one" in p for p in found)


def test_the_shipped_examples_are_counted_whole() -> None:
    count = sum(
        len(rule.test) + len(rule.incident)
        for rule in (parse_rule(raw, name=str(path)) for path, raw in examples.rule_files([CATALOGUE]))
    )
    assert count >= 1_200


def test_schema_prints_json() -> None:
    assert json.loads(call("schema").output)["title"].startswith("attempt.json")


def test_the_guide_names_every_key_role_group_and_domain() -> None:
    guide = (Path(__file__).parents[2] / "docs/rules.md").read_text(encoding="utf-8")
    keys = {
        *Rule.__struct_fields__,
        *Match.__struct_fields__,
        *LocusFrom.__struct_fields__,
        *Explains.__struct_fields__,
    }
    forms = ("`{}`", "[[{}]]", "`[{}]`", "`{} = ")
    assert [key for key in sorted(keys) if not any(form.format(key) in guide for form in forms)] == []
    assert [role for role in Role if f"`{role}`" not in guide] == []
    assert [group for group in Group if f"`@{group}`" not in guide] == []
    assert [domain for domain in CAUSAL_DOMAINS if str(domain) not in guide] == []


def test_a_site_folder_with_what_is_no_file_of_rules_is_refused_by_name(site: Path) -> None:
    def refused(name: str) -> str:
        run = call("lint", "--site", site)
        (site / name).rmdir() if (site / name).is_dir() else (site / name).unlink()
        assert run.exit_code == 2 and "Traceback" not in run.output, run.output
        return str(run.output)

    os.mkfifo(site / "pipe.toml")
    assert "pipe.toml: not a file" in refused("pipe.toml")
    (site / "away.toml").symlink_to("/nowhere")
    assert "away.toml: not a file" in refused("away.toml")
    (site / "folder.toml").mkdir()
    assert "folder.toml: not a file" in refused("folder.toml")
    put(site, "long.toml", b"#" * ((1 << 20) + 1))
    assert "long.toml: longer than 1,048,576 bytes" in refused("long.toml")
    name = os.fsdecode(b"odd\xff.toml")
    put(site, name, b"")
    assert "in UTF-8" in refused(name)
