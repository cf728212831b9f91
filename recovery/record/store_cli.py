"""The commands about records that need the database: `inquest export` and `inquest import`."""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn
from uuid import UUID

import click
import django

# Loaded only when one of them is called; everything below needs Django.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")
django.setup()

from django.db import DatabaseError  # noqa: E402

from recovery.ledger import keys as ledger_keys  # noqa: E402
from recovery.record import export as exporting  # noqa: E402
from recovery.record import load  # noqa: E402
from recovery.record.cli import keys_of, refuse  # noqa: E402
from recovery.record.container import BadRecord  # noqa: E402
from rules.attempt import InputError  # noqa: E402
from verdicts.models import Attempt  # noqa: E402


@click.command()
@click.argument("attempt", type=click.UUID)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; without it, its own name in this folder.",
)
def export(attempt: UUID, output: Path | None) -> None:
    """Write the record of an attempt: verdicts, evidence, rules, decisions, ledger, in one signed file.

    `inquest verify` and `inquest explain` read it anywhere. The exit status is 1 when it could not be made, 3 when the
    database or the file cannot be used.
    """
    path = output or Path(exporting.name_of(attempt))
    try:
        with exporting.make(attempt, exporting.by_command(), via="command-line") as made:
            # Not under its name before it is whole.
            partial = path.with_name(path.name + ".partial")
            with partial.open("wb") as file:
                shutil.copyfileobj(made, file, 1 << 20)
            partial.replace(path)
    except Attempt.DoesNotExist:
        _fail(1, f"there is no attempt {attempt}")
    except exporting.NotMade as error:
        _fail(1, str(error))
    except (DatabaseError, OSError) as error:
        _fail(3, str(error).rstrip())
    click.echo(f"written to {path}")


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--public-key",
    "key_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Who may have signed it, besides this site and those of INQUEST_RECORD_KEYS_FILE.",
)
def import_record(file: Path, key_file: Path | None) -> None:
    """Load a record of another site: its attempt with its verdicts, marked as imported. Twice is once.

    The exit status is 1 when the record is refused, 2 when this site cannot take it, 3 when the database or a file
    cannot be used.
    """
    given = keys_of(key_file)
    try:
        keys = given | load.known_keys()
        with file.open("rb") as opened:
            loaded = load.load(opened, keys, actor=exporting.by_command())
    except BadRecord as error:
        refuse(error)
    except InputError as error:
        _fail(2, str(error))
    except (DatabaseError, OSError, ledger_keys.KeyFileError) as error:
        _fail(3, str(error).rstrip())
    if loaded.new:
        click.echo(f"imported as attempt {loaded.attempt}: {loaded.verdicts} verdicts, {loaded.observations} lines")
    else:
        click.echo(f"it is here already, as attempt {loaded.attempt}: nothing was changed")


def _fail(status: int, said: str) -> NoReturn:
    click.echo(f"inquest: {said}", err=True)
    sys.exit(status)
