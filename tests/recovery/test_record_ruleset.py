"""The text of a ruleset is kept with the first verdict that used it."""

import shutil
from pathlib import Path

import pytest

from rules import ruleset as rulesets
from rules.ruleset import CATALOGUE, load_ruleset, ruleset_from
from verdicts.models import RulesetText, RulesetVersion
from verdicts.named_rows import ruleset_version
from verdicts.rulebook import ruleset_text


@pytest.fixture
def _few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of the rules about GPUs alone: all of them take seconds to compile, each time."""
    few = tmp_path / "catalogue"
    shutil.copytree(CATALOGUE / "gpu", few / "gpu")
    for file in CATALOGUE.glob("*.toml"):
        shutil.copy(file, few)
    monkeypatch.setattr(rulesets, "CATALOGUE", few)


@pytest.mark.usefixtures("_few")
def test_a_rulesets_text_gives_the_same_ruleset_with_a_sites_layer(db: None, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    rule = (Path("rules/catalogue/gpu/off-the-bus.toml")).read_text().replace("gpu.off-the-bus", "site.off-the-bus")
    (site / "off-the-bus.toml").write_text(rule)
    loaded = load_ruleset(site, cache=False)
    version = ruleset_version(loaded)
    again = ruleset_text.ruleset_of(version)
    assert again is not None
    assert (again.digest, again.rules, again.site, again.defaults, again.layers) == (
        loaded.digest,
        loaded.rules,
        loaded.site,
        loaded.defaults,
        loaded.layers,
    )
    assert ruleset_version(loaded) == version


def test_the_text_of_the_shipped_rules_is_small(db: None) -> None:
    ruleset_version(load_ruleset())
    kept = RulesetText.objects.get()
    assert kept.size > 1_000_000
    assert len(bytes(kept.packed)) < 500_000


@pytest.mark.usefixtures("_few")
def test_a_text_that_was_changed_is_not_taken_for_the_ruleset(db: None) -> None:
    loaded = load_ruleset()
    # Used before texts were kept: the text comes with the next use.
    RulesetVersion.objects.create(digest=loaded.digest, rules=1, layers=["shipped"])
    version = ruleset_version(loaded)
    assert ruleset_text.ruleset_of(version) is not None
    ruleset_text.RulesetText.objects.filter(pk=version.pk).update(
        packed=ruleset_text.zstandard.compress(ruleset_text.lines(loaded.files[:-1]))
    )
    assert ruleset_text.ruleset_of(version) is None
    assert ruleset_from(loaded.files, ["shipped"]).digest == loaded.digest


def test_a_text_beyond_the_limit_is_not_kept(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruleset_text, "MOST_BYTES", 1000)
    assert ruleset_text.kept(ruleset_version(load_ruleset())) is None
