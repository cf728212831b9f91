"""The coverage map keeps step with the catalogue."""

import json

import pytest
from click.testing import CliRunner

from rules import coverage
from rules.cli import rules
from tests.rules.builders import a_rule, a_ruleset, shipped


@pytest.fixture(scope="module")
def table() -> coverage.Coverage:
    return coverage.coverage(shipped())


def test_every_glob_matches_a_rule(table: coverage.Coverage) -> None:
    dead = [(t.id, c.name, glob) for t in table.taxonomies for c in t.classes for glob in c.dead]
    assert dead == []


def test_every_set_is_used_and_every_use_is_a_set() -> None:
    used = {
        entry[1:]
        for taxonomy in coverage.taxonomies().values()
        for entry in (e for c in taxonomy.classes for e in [*c.rules, *c.suggestive])
        if entry.startswith("$")
    }
    assert used == set(coverage.sets()) | used
    assert set(coverage.sets()) - used == set()


def test_a_class_without_a_rule_says_why(table: coverage.Coverage) -> None:
    silent = [(t.id, c.name) for t in table.taxonomies for c in t.classes if not c.rules and not c.none]
    assert silent == []


def test_silent_data_corruption_is_listed_as_unprovable(table: coverage.Coverage) -> None:
    classes = [c for t in table.taxonomies for c in t.classes if c.name == "Silent data corruption"]
    assert len(classes) == 2
    assert all(not c.rules and c.suggestive and c.none for c in classes)


@pytest.mark.parametrize(("name", "total"), [("llama3", 419), ("ft-hsdp", 678), ("acme", 2_575), ("b200", 21)])
def test_the_counts_add_up_to_what_was_published(name: str, total: int) -> None:
    assert sum(c.count or 0 for c in coverage.taxonomies()[name].classes) == total


def test_every_taxonomy_has_its_address() -> None:
    assert len(coverage.taxonomies()) >= 12
    assert all(t.source.startswith("https://") for t in coverage.taxonomies().values())


def test_every_published_xid_has_a_rule_or_a_reason(table: coverage.Coverage) -> None:
    assert [x.number for x in table.xids if not x.rules and not x.none] == []
    assert [x.number for x in table.xids] == sorted({*range(1, 177)} - {11, 25, 32} | {11, 25, 32})


def test_an_xid_that_only_the_general_rule_knows_has_no_rule() -> None:
    bare = a_ruleset(a_rule("gpu.xid-unclassified", r"Xid \([^)\n]*\): \d+"))
    assert all(not x.rules for x in coverage.xids(bare))


def test_a_set_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no set"):
        coverage.globs(["$nothing"])


def test_the_command_prints_a_table_and_json() -> None:
    text = CliRunner().invoke(rules, ["coverage"]).output
    assert "Silent data corruption: no rule; hints:" in text
    assert "(second-hand)" in text
    body = json.loads(CliRunner().invoke(rules, ["coverage", "--json"]).output)
    assert {"taxonomies", "xids", "xid_source"} == set(body)
