"""The commands about records that need the database: `inquest export` and `inquest import`."""

import os
import shutil
import sys
from collections import Counter
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
from recovery.record import beside, folder, load  # noqa: E402
from recovery.record import export as exporting  # noqa: E402
from recovery.record.cli import keys_of, refuse  # noqa: E402
from recovery.record.container import BadRecord  # noqa: E402
from rules.attempt import InputError  # noqa: E402
from rules.verdict import plain_text  # noqa: E402
from verdicts.models import Attempt  # noqa: E402


@click.command()
@click.argument("attempt", type=click.UUID, required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; without it, its own name in this folder.",
)
@click.option(
    "--filter",
    "query",
    help="Instead of one attempt, all that the verdict list shows: its address's filters, as domain=…&after=…",
)
@click.option(
    "--out", "into", type=click.Path(file_okay=False, path_type=Path), help="The folder for many records, to be made."
)
@click.option("--resume", is_flag=True, help="Go on with what was begun in the folder.")
@click.option("--quiet", is_flag=True, help="Of many records, say only those that could not be made.")
def export(
    attempt: UUID | None, output: Path | None, query: str | None, into: Path | None, resume: bool, quiet: bool
) -> None:
    """Write the record of an attempt, or of many, each one signed file: verdicts, evidence, rules, decisions, ledger.

    `inquest verify` and `inquest explain` read it anywhere. An export of many may be ended at any moment (Ctrl-C, a
    kill) and goes on with --resume: records that are whole and verify are not written again.

    The exit status is 1 when one could not be made, 2 when it is called wrongly, 3 when the database or a file cannot
    be used, 130 when it was ended.
    """
    if attempt is not None:
        if query is not None or into is not None or resume:
            raise click.UsageError("give one ATTEMPT, or --filter and --out")
        _one(attempt, output)
        return
    if into is None or (query is None and not resume):
        raise click.UsageError("give an ATTEMPT, or --filter and --out")
    if output is not None:
        raise click.UsageError("--output names the file of one attempt: give --out")
    _many(into, query or "", resume=resume, quiet=quiet)


def _one(attempt: UUID, output: Path | None) -> None:
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


def _many(into: Path, query: str, *, resume: bool, quiet: bool) -> None:
    counted: Counter[str] = Counter()
    try:
        own = exporting.own_key()
        with folder.alone(into):
            told = folder.begun(into, query, resume=resume)
            folder.announce(told, exporting.by_command())
            for done in folder.fill(into, told, exporting.by_command(), {own}):
                counted[done.what] += 1
                if done.what == "failed":
                    click.echo(f"inquest: attempt {done.attempt}: {plain_text(done.why)}", err=True)
                elif not quiet:
                    click.echo(f"{done.place} of {done.total}  {done.attempt}  {done.what}")
            folder.sums(into, told)
    except KeyboardInterrupt:
        _fail(130, "ended; the same command with --resume goes on from here")
    except (InputError, folder.FolderError) as error:
        _fail(2, str(error))
    except exporting.NotMade as error:
        _fail(1, str(error))
    except (DatabaseError, OSError) as error:
        _fail(3, str(error).rstrip())
    said = f"{counted['written']} written, {counted['kept']} there already and verified, {counted['failed']} failed"
    click.echo(f"{said}: {into}")
    if counted["failed"]:
        sys.exit(1)


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

    A newer record of an attempt goes on where the one before it ended; one that contradicts it is refused.

    The exit status is 1 when the record is refused, 2 when this site cannot take it, 3 when the database or a file
    cannot be used.
    """
    given = keys_of(key_file)
    try:
        keys = given | load.known_keys()
        with file.open("rb") as opened:
            loaded = load.load(opened, keys, actor=exporting.by_command(), near=beside.near(file))
    except BadRecord as error:
        refuse(error)
    except InputError as error:
        _fail(2, str(error))
    except (DatabaseError, OSError, ledger_keys.KeyFileError) as error:
        _fail(3, str(error).rstrip())
    click.echo(f"attempt {loaded.attempt}: {load.said(loaded)}")


def _fail(status: int, said: str) -> NoReturn:
    click.echo(f"inquest: {said}", err=True)
    sys.exit(status)
