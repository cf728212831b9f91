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


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the verdict's canonical JSON.")
@click.option("--source", "given", multiple=True, metavar="KIND=FILE", help="Say what a file is: applog=train.out.")
@click.option("--node", "placed", multiple=True, metavar="NAME=FILE", help="Say whose log a file is: gpu-7=dmesg.txt.")
@click.option("--site", type=click.Path(), help="A directory of site rules over the shipped ones.")
@click.option("--proof", is_flag=True, help="Print the whole chain from evidence to verdict.")
def explain(
    paths: tuple[Path, ...],
    as_json: bool,
    given: tuple[str, ...],
    placed: tuple[str, ...],
    site: str | None,
    proof: bool,
) -> None:
    """Say why a job failed, from an incident folder or from loose log files.

    The exit status is 0 whatever the verdict, and 2 when the input cannot be used.
    """
    from rules.attempt import InputError
    from rules.collect import collect
    from rules.engine import attribute
    from rules.incident import open_incident
    from rules.print_verdict import print_verdict
    from rules.verdict import canonical_json

    ruleset = _load(site)
    try:
        sources = {file: _source(kind) for kind, file in (_pair(text, "--source") for text in given)}
        nodes = {file: name for name, file in (_pair(text, "--node") for text in placed)}
        if not (paths or sources or nodes):
            raise InputError("give an incident folder or log files to read")
        incident = open_incident(list(paths), sources=sources, nodes=nodes)
    except (InputError, OSError) as error:
        click.echo(f"inquest: {error}", err=True)
        sys.exit(2)
    collected = collect(incident, ruleset)
    verdict = attribute(incident.attempt, collected.observations, collected.reports, ruleset)
    if as_json:
        sys.stdout.buffer.write(canonical_json(verdict) + b"\n")
        return
    print_verdict(verdict, incident.notes)
    if proof:
        for step in verdict.proof:
            click.echo(f"  {step.finding} {step.status}: {step.rule} ← {', '.join(step.evidence[:3])}: {step.because}")


def _pair(text: str, option: str) -> tuple[str, str]:
    from rules.attempt import InputError

    left, equals, right = text.partition("=")
    if not (left and equals and right):
        raise InputError(f"{option} {text!r}: write it as name=file")
    return left, right


def _source(kind: str):
    from rules.attempt import InputError
    from rules.words import Source

    if kind not in set(Source):
        raise InputError(f"--source {kind!r}: is none of {', '.join(Source)}")
    return Source(kind)


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


def _load(site: str | None):
    try:
        return load_ruleset(site)
    except (RuleError, ValueError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    rules()
