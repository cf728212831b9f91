"""The commands about records that need the database: `inquest export`."""

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

from recovery.record import export as exporting  # noqa: E402
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


def _fail(status: int, said: str) -> NoReturn:
    click.echo(f"inquest: {said}", err=True)
    sys.exit(status)
