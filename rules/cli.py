"""The commands of the engine: `inquest explain` and `inquest rules`."""

import os
import sys
from pathlib import Path

import click

from rules.ruleset import CATALOGUE, RuleError, load_ruleset


def layer_roots(site: str | None) -> list[Path]:
    """The directories of the layers in force."""
    site = site or os.environ.get("INQUEST_RULES_DIR")
    return [CATALOGUE, *([Path(site)] if site else [])]


@click.group()
def rules() -> None:
    """Look at, test and extend the catalogue of rules."""


@rules.command("test")
@click.argument("only", nargs=-1)
@click.option("--site", type=click.Path(), help="A directory of site rules over the shipped ones.")
def rules_test(only: tuple[str, ...], site: str | None) -> None:
    """Run every example of every rule, or of the rules and subjects named."""
    from rules import examples

    ruleset = _load(site)
    ran = fired = 0
    failures: list[examples.Failure] = []
    for path, raw in examples.rule_files(layer_roots(site)):
        rule_id = f"{path.parent.name}.{path.stem}"
        if only and rule_id not in only and path.parent.name not in only:
            continue
        count, bad = examples.run_file(ruleset, path, raw)
        ran, fired = ran + count, fired + 1
        failures += bad
    for failure in failures:
        click.echo(str(failure))
    click.echo(f"{ran} examples of {fired} rules: {ran - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures or not ran else 0)


@rules.command("lint")
@click.option("--site", type=click.Path(), help="A directory of site rules over the shipped ones.")
@click.argument("only", nargs=-1)
def rules_lint(site: str | None, only: tuple[str, ...]) -> None:
    """Check the rule files: schema, ids, patterns, examples, circles."""
    from rules import lint

    problems = lint.lint(_load(site), layer_roots(site))
    problems = [p for p in problems if not only or any(f"/{o.replace('.', '/')}" in p.file for o in only)]
    for problem in problems:
        click.echo(str(problem))
    click.echo(f"{len(problems)} problems")
    sys.exit(1 if problems else 0)


def _load(site: str | None):  # noqa: ANN202
    try:
        return load_ruleset(site)
    except (RuleError, ValueError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    rules()
