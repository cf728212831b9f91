"""`inquest replay`: stored attempts, or exported records, under other rules or with other evidence."""

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from recovery.replay.ablate import Ablation, checked
from rules.attempt import InputError
from rules.words import Source

SOURCES = click.Choice([source.value for source in Source])


def _ablation(given: dict[str, Any]) -> Ablation | None:
    """What is asked about the evidence; None where nothing is. Raises click.UsageError."""
    without, delay, line = given.pop("without"), given.pop("delay"), given.pop("inject")
    into, node, at = given.pop("into"), given.pop("node"), given.pop("at")
    if without is None and delay is None and not line:
        return None
    fields: dict[str, Any] = {"line": line, "node": node, "at": at, "source": Source(into)}
    if without is not None:
        fields["without"] = Source(without)
    if delay is not None:
        source, _, seconds = delay.partition("=")
        try:
            fields |= {"delay": Source(source), "seconds": float(seconds)}
        except ValueError:
            raise click.BadParameter(f"{delay!r} is not SOURCE=SECONDS", param_hint="--delay") from None
    try:
        return checked(Ablation(**fields))
    except InputError as error:
        raise click.UsageError(str(error)) from error


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER=VALUE]...")
@click.option(
    "--ruleset",
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A site's rules to lay over the shipped ones; without it, the rules of this installation.",
)
@click.option("--own", is_flag=True, help="Each attempt under its own rules: does every verdict come out again?")
@click.option("--without", type=SOURCES, help="As if this source had not been collected.")
@click.option("--delay", metavar="SOURCE=SECONDS", help="As if this source's clock were so much later.")
@click.option("--inject", metavar="LINE", default="", help="With this line put in, as a competing cause.")
@click.option("--into", type=SOURCES, default="syslog", show_default=True, help="The source of the line.")
@click.option("--node", default="", help="The line's node; without it one that the verdict does not hold at fault.")
@click.option(
    "--at", default="-60s", show_default=True, help="The line's time: +60s after the start, -60s before the end."
)
@click.option(
    "--records",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Files of `inquest export`, or folders of them, instead of stored attempts; needs no database.",
)
@click.option(
    "--log", type=click.Path(dir_okay=False, path_type=Path), help="With --records: go on where this file ends."
)
@click.option("--resume", metavar="ID", help="Go on with a replay, or print the report of one that is done.")
@click.option(
    "--gate", is_flag=True, help="Only say whether policies may act by themselves on the word of these rules."
)
@click.option("--reason", default="", help="What it is for; it is kept with the replay.")
@click.option("--here", is_flag=True, help="Work in this process too, and alone if no worker runs.")
@click.option("--no-wait", is_flag=True, help="Begin it and end; workers go on.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def replay(**given: Any) -> None:
    """Conclude stored attempts again under other rules, or with other evidence. Nothing stored is changed.

    FILTER=VALUE are those of the list of verdicts: cluster=alpha domain=gpu_hardware after=2026-11-01. Workers do it;
    Ctrl-C leaves it to them, and --resume ID shows it again.

    The exit status is 0 when every conclusion is the same, 1 when one is not (or a verdict does not come out of its own
    rules, or the gate does not pass), 2 when the input cannot be used, 3 when the database or the rules cannot, 4 when
    it is not done.
    """
    ablation = _ablation(given)
    records = given.pop("records")
    chosen = [bool(given["directory"]), given["own"], ablation is not None]
    if sum(chosen) > 1:
        raise click.UsageError("--ruleset, --own and changed evidence are three questions: ask one")
    if records:
        if given["filters"] or given["resume"] or given["gate"]:
            raise click.UsageError("--records names what is replayed: no filter, --resume or --gate goes with it")
        module = importlib.import_module("recovery.replay.records_cli")
        sys.exit(
            module.run(
                records, given["directory"], ablation, own=given["own"], log=given["log"], as_json=given["as_json"]
            )
        )
    if given.pop("log"):
        raise click.UsageError("--log goes with --records")
    # Loaded only now: what is below needs Django, and a record needs none of it.
    module = importlib.import_module("recovery.replay.store_cli")
    sys.exit(module.run(ablation=ablation, **given))
