"""The commands of the engine: `inquest explain` and `inquest rules`."""

import importlib
import sys
from pathlib import Path

import click

from rules.attempt import InputError
from rules.collect import collect
from rules.engine import attribute
from rules.incident import open_incident
from rules.print_verdict import print_verdict
from rules.ruleset import load_ruleset
from rules.verdict import canonical_json, plain_text
from rules.words import Source


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
    try:
        ruleset = load_ruleset(site)
        sources = {file: _source(kind) for kind, file in (_pair(text, "--source") for text in given)}
        nodes = {file: name for name, file in (_pair(text, "--node") for text in placed)}
        if not (paths or sources or nodes):
            raise InputError("give an incident folder or log files to read")
        incident = open_incident(list(paths), sources=sources, nodes=nodes)
    except (ValueError, OSError) as error:
        click.echo(f"inquest: {plain_text(str(error))}", err=True)
        sys.exit(2)
    collected = collect(incident, ruleset)
    verdict = attribute(incident.attempt, collected.observations, collected.reports, ruleset)
    if as_json:
        sys.stdout.buffer.write(canonical_json(verdict) + b"\n")
        return
    print_verdict(verdict, incident.notes)
    if proof:
        for step in verdict.proof:
            refs = ", ".join(step.evidence[:3])
            click.echo(plain_text(f"  {step.finding} {step.status}: {step.rule} ← {refs}: {step.because}"))


def _pair(text: str, option: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not (left and equals and right):
        raise InputError(f"{option} {text!r}: write it as name=file")
    return left, right


def _source(kind: str) -> Source:
    if kind not in set(Source):
        raise InputError(f"--source {kind!r}: is none of {', '.join(Source)}")
    return Source(kind)


class _Rules(click.Group):
    """The subcommands, imported when they are used: `inquest explain` needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _commands().get(cmd_name)


def _commands() -> dict[str, click.Command]:
    found: dict[str, click.Command] = importlib.import_module("rules.commands").COMMANDS
    return found


@click.group(cls=_Rules)
def rules() -> None:
    """Look at, test and extend the catalogue of rules."""


if __name__ == "__main__":
    rules()
