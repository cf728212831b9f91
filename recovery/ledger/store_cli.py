"""The commands of `inquest ledger` that need the database."""

import getpass
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click
import django

# Loaded only when one of them is called; everything below needs Django.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.db import DatabaseError, transaction  # noqa: E402

from recovery.ledger import checkpoints, keys  # noqa: E402
from recovery.ledger.entries import Actor, record  # noqa: E402
from recovery.ledger.export import last_number, lines  # noqa: E402
from recovery.words import EntryKind  # noqa: E402


@click.command()
@click.option("--since", type=click.IntRange(min=1), default=1, show_default=True, help="Number of the first entry.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; without it, the terminal or pipe.",
)
def export(since: int, output: Path | None) -> None:
    """Write the ledger as an export, which is an entry of it. `inquest ledger verify` reads it anywhere.

    The exit status is 3 when the database or the file cannot be used.
    """
    try:
        with transaction.atomic():
            record(
                EntryKind.EXPORTED,
                actor=Actor.system("command-line"),
                subject=("ledger", "export"),
                body={"first": since, "by": getpass.getuser(), "file": str(output or "-")},
            )
        last = last_number()
        if output is None:
            _write(sys.stdout.buffer.write, since, last)
            sys.stdout.buffer.flush()
        else:
            # Not under its name before it is whole.
            partial = output.with_name(output.name + ".partial")
            with partial.open("wb") as file:
                _write(file.write, since, last)
            partial.replace(output)
            click.echo(f"entries {since} to {last} written to {output}")
    except (DatabaseError, OSError, ValueError) as error:
        click.echo(f"inquest: {error}".rstrip(), err=True)
        sys.exit(3)


def _write(write: Callable[[bytes], object], since: int, last: int) -> None:
    for line in lines(since, last):
        write(line)


@click.command()
def checkpoint() -> None:
    """Sign how far the ledger goes, if it went on since the last checkpoint, and print the checkpoint.

    The exit status is 1 when it was not signed or not kept everywhere: the log says why.
    """
    try:
        made, failures = checkpoints.attempt()
    except DatabaseError as error:
        click.echo(f"inquest: the database cannot be used: {error}".rstrip(), err=True)
        sys.exit(3)
    for failure in failures:
        click.echo(f"inquest: {failure.where}: {failure}", err=True)
    if made is not None:
        click.echo(checkpoints.line_of(made).decode(), nl=False)
    elif not failures:
        click.echo("the last checkpoint covers all there is", err=True)
    sys.exit(1 if failures else 0)


@click.command()
def key() -> None:
    """Print the public key that this site's checkpoints are verified with, as hex."""
    try:
        click.echo(keys.public_hex(keys.key_from(Path(settings.INQUEST_LEDGER_KEY_FILE))))
    except keys.KeyFileError as error:
        click.echo(f"inquest: {error}", err=True)
        sys.exit(3)
