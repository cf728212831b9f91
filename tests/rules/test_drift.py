"""Drift: what shows when a message changes its wording."""

from collections import Counter
from pathlib import Path

from click.testing import CliRunner

from rules import drift
from rules.cli import rules
from rules.drift import Window, compare
from tests.rules.builders import a_rule, a_ruleset

RULES = a_ruleset(
    a_rule("site.one", r"fabricd: port (?P<number>\d+) lost synchronisation"),
    a_rule("site.two", "fabricd: restarted by its watchdog"),
    a_rule("other.three", "battery of the clock is empty", healthy_per_node_day="1.0"),
)


def window(matches: dict[str, int], **more: object) -> Window:
    return Window(attempts=10, node_days=10.0, matches=Counter(matches), **more)  # type: ignore[arg-type]


def kinds(before: Window, after: Window) -> set[tuple[str, str]]:
    return {(d.kind, d.rule) for d in compare(RULES, before, after)}


def test_a_rule_that_goes_silent_while_its_family_goes_on_is_named() -> None:
    before = window({"site.one": 9, "site.two": 5, "other.three": 10})
    after = window({"site.two": 4, "other.three": 10})
    assert kinds(before, after) == {("silent", "site.one")}


def test_silence_of_a_whole_family_is_no_drift() -> None:
    before = window({"site.one": 9, "site.two": 5, "other.three": 10})
    assert kinds(before, window({"other.three": 10})) == set()


def test_a_rule_that_hardly_ever_matched_is_not_missed() -> None:
    before = window({"site.one": 2, "site.two": 5, "other.three": 10})
    assert kinds(before, window({"site.two": 5, "other.three": 10})) == set()


def test_a_healthy_rate_that_is_missed_or_passed_is_named() -> None:
    assert kinds(window({}), window({})) == {("healthy_missing", "other.three")}
    assert kinds(window({}), window({"other.three": 90})) == {("too_often", "other.three")}
    assert kinds(window({}), window({"other.three": 11})) == set()


def test_new_near_misses_and_unknown_lines_are_named() -> None:
    near = {("site.one", "fabricd: port seven lost synchronisation"): 4}
    after = window({"other.three": 10}, near=Counter(near), unknown=Counter({"error: new": 2}))
    before = window({"other.three": 10}, unknown=Counter({"error: old": 2}))
    assert kinds(before, after) == {("near_miss", "site.one"), ("unknown", "")}
    assert kinds(after, after) == set()


def test_folders_of_incidents_are_compared(tmp_path: Path) -> None:
    for name, line in [
        ("before", "fabricd: port 7 lost synchronisation"),
        ("after", "fabricd: port #7 lost synchronisation"),
    ]:
        for number in range(4):
            folder = tmp_path / name / str(number) / "syslog"
            folder.mkdir(parents=True)
            (folder / "n1.log").write_text(
                f"ok\n{line}\nfabricd: restarted by its watchdog\nfatal error: code {name}\n"
            )
            (folder.parent / "attempt.json").write_text('{"job_id": "1"}')
    before, after = (drift.read_window(tmp_path / name, RULES) for name in ("before", "after"))
    assert before.matches["site.one"] == 4
    found = {(d.kind, d.rule) for d in compare(RULES, before, after)}
    assert {("silent", "site.one"), ("near_miss", "site.one")} <= found
    assert ("unknown", "") in found


def test_the_command_says_so_when_nothing_drifted(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    run = CliRunner().invoke(rules, ["drift", str(tmp_path / "a"), str(tmp_path / "b")])
    assert run.exit_code == 0
    assert "No drift" in run.output
