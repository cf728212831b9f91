"""`inquest ingest`: an incident folder goes the way that the API goes, through the same functions."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click
import django
from django.core.exceptions import ImproperlyConfigured

from rules.redact import redact

# Loaded only when `inquest ingest` is called; everything below needs Django.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")
try:
    django.setup()
except (ImproperlyConfigured, ValueError) as error:
    # What is wrong with an address is said with the address, and that may have a password in it.
    click.echo(f"inquest: the settings cannot be used: {redact(str(error)).strip()}", err=True)
    sys.exit(3)

from django.db import DatabaseError, ProgrammingError

from rules.attempt import InputError
from rules.rule import RuleError
from rules.verdict import plain_text
from verdicts.upload.ingest import ingest_path, wait_for

DEFAULT_WAIT = 20.0


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a path.")
@click.option(
    "--wait",
    type=click.FloatRange(0, 600),
    default=DEFAULT_WAIT,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a worker's verdict; 0 asks for it and goes on.",
)
@click.option("--cluster", default="", help="The cluster's name, where attempt.json does not say it.")
@click.option("--job", default="", help="The job's id, for a log file without attempt.json.")
def ingest(paths: tuple[Path, ...], as_json: bool, wait: float, cluster: str, job: str) -> None:
    """Store incidents and ask for their verdicts; each PATH is an incident folder or a log file.

    The exit status is 0 when every path is stored, whatever its verdict, 2 when one cannot be used,
    3 when the database or the rules cannot.
    """
    if job and len(paths) > 1:
        raise click.UsageError("--job names one job: give one PATH with it")
    unusable = 0
    for path in paths:
        try:
            stored = ingest_path(path, cluster=cluster, job=job)
        except (InputError, OSError) as error:
            unusable += 1
            _say({"path": str(path), "error": str(error)}, as_json=as_json)
            continue
        except ProgrammingError as error:
            said = str(error).partition("\n")[0]
            click.echo(f"inquest: the database is not of this version, run the migrations: {said}", err=True)
            sys.exit(3)
        except DatabaseError as error:
            click.echo(f"inquest: the database cannot be used: {error}".rstrip(), err=True)
            sys.exit(3)
        except RuleError as error:
            click.echo(f"inquest: the rules cannot be used: {error}", err=True)
            sys.exit(3)
        _say({"path": str(path), **wait_for(stored, wait)}, as_json=as_json)
    sys.exit(2 if unusable else 0)


def _say(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False))
        return
    if error := told.get("error"):
        click.echo(f"inquest: {plain_text(error)}", err=True)
        return
    for note in told["notes"]:
        click.echo(f"note: {plain_text(note)}", err=True)
    click.echo(f"attempt  {told['attempt']}  job {plain_text(told['job_id'])}")
    click.echo(f"evidence {told['stored']} observations new, {told['repeated']} known, {told['cut']} refused")
    click.echo(f"verdict  {plain_text(told['headline'] or told['doubt'])}")
    if told["page"]:
        click.echo(f"page     {told['page']}")
