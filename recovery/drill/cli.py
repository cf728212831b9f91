"""`inquest drill`: carry out a retention drill now, and print its report."""

import os
import sys
from pathlib import Path
from typing import NoReturn
from uuid import UUID

import click
import django

# Loaded only when `inquest drill` is called; everything below needs Django.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")
django.setup()

from django.db import DatabaseError  # noqa: E402

from recovery.drill import record, report, run  # noqa: E402
from recovery.drill.fetch import NotAsked, Site  # noqa: E402
from recovery.models import Drill  # noqa: E402
from recovery.record.cli import keys_of  # noqa: E402
from recovery.words import DrillState  # noqa: E402
from rules.verdict import plain_text  # noqa: E402
from verdicts.models import Attempt  # noqa: E402


@click.command()
@click.argument("attempt", type=click.UUID, required=False)
@click.option("--url", default="", help="Where the site is asked; without it INQUEST_DRILL_URL or INQUEST_PUBLIC_URL.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the token of somebody who may export; without it an account of the drill's own.",
)
@click.option(
    "--public-key",
    "key_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The key that the record must be signed with; without it those of this site's ledger.",
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON, as the ledger has its digest.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to a file.")
def drill(
    attempt: UUID | None, url: str, token_file: Path | None, key_file: Path | None, as_json: bool, output: Path | None
) -> None:
    """Check that a record can be had before clean-up, is what it should be, and that clean-up removes it.

    Without ATTEMPT one is made up, collected, judged, taken away over HTTP, and removed again; it counts nowhere. With
    ATTEMPT the record of that one is looked at, and nothing is removed.

    The exit status is 0 when every check passed, 1 when one failed, 2 when something could not be checked or the drill
    could not be begun, 3 when the database or a file cannot be used.
    """
    where = run.Where.by_settings()
    try:
        token = token_file.read_text().strip() if token_file else ""
        where = run.Where(Site(url or where.address).checked().address, token, keys_of(key_file))
    except NotAsked as error:
        if url:
            _fail(2, str(error))
        where = run.Where("", token, keys_of(key_file))  # the report says that nothing could be asked
    except (OSError, UnicodeDecodeError) as error:
        _fail(3, str(error))
    try:
        record.end_lost()
        asked = record.ask(via=run.COMMAND, attempt=attempt)
        done = run.carry_out(asked.pk, where=where) or _of_a_worker(asked)
        checks = list(done.checks.all())
    except Attempt.DoesNotExist:
        _fail(2, f"there is no attempt {attempt}")
    except record.NotNow as error:
        _fail(2, str(error))
    except DatabaseError as error:
        _fail(3, str(error).rstrip())
    told = report.as_bytes(done, checks) if as_json else report.as_text(done, checks).encode()
    if output is None:
        sys.stdout.buffer.write(told)
        if as_json:
            click.echo()
    else:
        try:
            output.write_bytes(told)
        except OSError as error:
            _fail(3, str(error))
        click.echo(f"drill {done.pk} {report.STATES[DrillState(done.state)]}: written to {output}")
    sys.exit({DrillState.PASSED: 0, DrillState.FAILED: 1}.get(DrillState(done.state), 2))


def _of_a_worker(asked: Drill) -> NoReturn:
    _fail(2, f"drill {asked.pk} was begun by a worker of the site: its report will be on the page of drills")


def _fail(status: int, said: str) -> NoReturn:
    click.echo(f"inquest: {plain_text(said)}", err=True)
    sys.exit(status)
