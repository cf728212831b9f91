"""`inquest ledger`: verify an export anywhere; export, sign and show the key where the site is.

`verify` loads neither Django nor a database. The others live in `recovery.ledger.store_cli` and are loaded when called.
"""

import importlib
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import click

from recovery.ledger import chain
from recovery.ledger import keys as ledger_keys

_IN_STORE = {
    "checkpoint": "Sign how far the ledger goes, now.",
    "export": "Write the ledger as an export.",
    "key": "Print the public key that checkpoints are verified with.",
}


class _Commands(click.Group):
    """The commands, those that need the site by their names alone until one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_IN_STORE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _IN_STORE:
            return super().get_command(ctx, cmd_name)
        command = getattr(importlib.import_module("recovery.ledger.store_cli"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {name: command.get_short_help_str() for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted({**own, **_IN_STORE}.items()))


@click.group(cls=_Commands)
def ledger() -> None:
    """The decision ledger: verify an export, or make one."""


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--public-key",
    "key_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Who may have signed: a public key as PEM, or lines of 64 hex digits.",
)
@click.option(
    "--checkpoints",
    "checkpoint_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Checkpoints that were kept elsewhere: they tell of a history made anew, or cut short.",
)
@click.option("--quiet", is_flag=True, help="Say nothing where all is well.")
def verify(file: Path, key_file: Path | None, checkpoint_file: Path | None, quiet: bool) -> None:
    """Verify an export of the ledger ("-" reads it from a pipe), offline and in constant memory.

    The exit status is 0 when all is as it was written, 1 with the first bad entry, 3 when a file cannot be read.
    """
    with ExitStack() as files:
        try:
            keys = ledger_keys.public_keys(key_file.read_text()) if key_file else frozenset()
            export: BinaryIO = sys.stdin.buffer if str(file) == "-" else files.enter_context(file.open("rb"))
            outside: Iterable[bytes] = ()
            if checkpoint_file:
                outside = chain.lines_of(files.enter_context(checkpoint_file.open("rb")))
            report = chain.verify(chain.lines_of(export), ledger_keys.check, keys=keys, outside=outside)
        except (OSError, UnicodeDecodeError, ledger_keys.KeyFileError) as error:
            click.echo(f"inquest: {error}", err=True)
            sys.exit(3)
    if report.bad is not None:
        _say_bad(report.bad, str(file))
        sys.exit(1)
    if not quiet:
        _say(report, known=bool(keys))


def _say_bad(bad: chain.Bad, file: str) -> None:
    named = f"entry {bad.number}: " if bad.number else ""
    click.echo(f"BAD {named}{bad}", err=True)
    if bad.line:
        click.echo(f"    line {bad.line} of {file}", err=True)


def _say(report: chain.Report, *, known: bool) -> None:
    whole = f"{report.entries} entries" + (f" and the places of {report.sealed} others" if report.sealed else "")
    click.echo(f"ok: {whole}, from {report.first} to {report.last}; the last hash is {report.hash}")
    if report.first > 1:
        click.echo(f"Entries before {report.first} are not in this export; nothing is said of them.")
    if report.erased:
        click.echo(f"{report.erased} texts were erased; their hashes stand.")
    if not report.signed_to:
        click.echo("No checkpoint covers it: that the whole was made anew could not be told.")
        return
    by = "the keys given" if known else f"{', '.join(sorted(report.keys))}: compare with a key that you know"
    click.echo(f"Signed up to entry {report.signed_to} at {report.signed_at}, by {by}.")
    click.echo(f"{report.checkpoints} checkpoints in the export, {report.from_outside} from outside.")
    if report.signed_to < report.last:
        click.echo(f"Entries {report.signed_to + 1} to {report.last} are after the last checkpoint.")
