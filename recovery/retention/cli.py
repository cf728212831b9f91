"""`inquest retention`: what is kept for how long, expiry by hand, and holds."""

import getpass
import os
import sys
from datetime import UTC, datetime
from typing import NoReturn
from uuid import UUID

import click
import django

# Loaded only when `inquest retention` is called; everything below needs Django.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.db import DatabaseError  # noqa: E402
from django.db.models import Q  # noqa: E402
from django.utils import timezone  # noqa: E402

from recovery.models import Hold  # noqa: E402
from recovery.retention import due, find, forms, holds, words  # noqa: E402
from recovery.retention import expire as job  # noqa: E402
from rules.verdict import plain_text  # noqa: E402
from verdicts.keeping import OF_ATTEMPTS, Kept  # noqa: E402


@click.group()
def retention() -> None:
    """What is kept for how long: look at it, let it expire, hold it."""


@retention.command()
def status() -> None:
    """Show each class with its time, size and what is due, and the holds. Ends with 1 where a hold is overdue."""
    try:
        for one in find.classes():
            kept = f"{one.days} days" if one.days else "for ever"
            rows = "rows not known yet" if one.size.rows is None else f"about {one.size.rows:,} rows"
            late = f"{one.late.number:,}{'+' if one.late.more else ''} due now"
            click.echo(f"{one.kept:<9} {kept:<11} {one.size.bytes / 2**20:10,.1f} MB  {rows:<24} {late}")
        for hold in find.holds().filter(released_at=None):
            click.echo(f"hold      {hold.pk}  {plain_text(holds.what(hold))}, review {hold.review_on}, {hold.owner}")
        overdue = find.overdue().count()
    except DatabaseError as error:
        _fail(f"the database does not answer: {error}")
    if overdue:
        click.echo(f"NEEDS YOU {overdue} of the holds should have been reviewed by now")
    sys.exit(1 if overdue else 0)


@retention.command()
@click.option("--dry-run", is_flag=True, help="Only say what would expire.")
@click.option("--seconds", type=click.IntRange(min=1), default=None, help="End after so long.")
def expire(dry_run: bool, seconds: int | None) -> None:
    """Let what is due expire now, as the site does by itself."""
    now = timezone.now()
    try:
        if dry_run:
            for kept in OF_ATTEMPTS:
                free = held = busy = 0
                for rows in (due.due(kept, now), due.due_imported(kept, now)):
                    free += rows.filter(~due.is_held(), ~Q(due.is_busy())).count()
                    held, busy = held + rows.filter(due.is_held()).count(), busy + rows.filter(due.is_busy()).count()
                click.echo(f"{kept:<9} {free:,} attempts would expire; {held:,} are held, {busy:,} are not over")
            click.echo(f"{Kept.WORDS:<9} of {sum(1 for _ in words.attempts_due(now)):,} attempts would expire")
            return
        done = job.run(now=now, seconds=seconds or job.WORK_SECONDS)
    except DatabaseError as error:
        _fail(f"the database does not answer: {error}")
    for kept_word, gone in sorted(done.gone.items()):
        click.echo(f"{kept_word:<9} {gone.rows:,} rows, {gone.bytes:,} bytes")
    click.echo(f"{done.attempts:,} attempts; {'more is due: run it again' if done.more else 'nothing more is due'}")


@retention.command()
@click.option("--attempt", default="", help="The id of an attempt.")
@click.option("--workload", default="", help="A workload's name or id; with --cluster where several have the name.")
@click.option("--cluster", default="", help="A cluster; with --after and --before everything that ran there then.")
@click.option("--after", default="", help="RFC 3339, or a day.")
@click.option("--before", default="", help="RFC 3339, or a day.")
@click.option("--reason", required=True, help="Why; it stands in the ledger.")
@click.option("--review-on", required=True, help="The day on which somebody looks whether it is still needed.")
@click.option("--owner", default="", help="The account that answers for it; --as if not said.")
@click.option("--as", "account", required=True, help="Your account on the site: it must have the right to hold.")
def hold(reason: str, review_on: str, owner: str, account: str, **said: str) -> None:
    """Place a hold: nothing expires of an attempt, a workload, or a cluster's time until it is released."""
    try:
        by = forms.owner_of(account)
        made = holds.place(
            forms.scope_of(said),
            reason=f"{reason} (by {getpass.getuser()} on the command line)",
            owner=forms.owner_of(owner) if owner else by,
            review_on=forms.day_of(review_on),
            by=by,
        )
    except (ValueError, PermissionError, DatabaseError) as error:
        _fail(str(error))
    attempts, gone = find.reach(made)
    click.echo(f"hold {made.pk} over {plain_text(holds.what(made))}: {attempts:,} attempts, {gone:,} expired before")


@retention.command()
@click.argument("hold_id", type=click.UUID)
@click.option("--reason", required=True, help="Why; it stands in the ledger.")
@click.option("--as", "account", required=True, help="Your account on the site: it must have the right to hold.")
def release(hold_id: UUID, reason: str, account: str) -> None:
    """Release a hold: what it was over expires by its time again."""
    try:
        by: User = forms.owner_of(account)
        freed = holds.release(
            hold_id,
            by=by,
            reason=f"{reason} (by {getpass.getuser()} on the command line)",
        )
    except Hold.DoesNotExist:
        _fail(f"there is no hold {hold_id}")
    except (ValueError, PermissionError, DatabaseError) as error:
        _fail(str(error))
    at = freed.released_at or datetime.now(UTC)
    click.echo(f"released at {at:%Y-%m-%d %H:%M:%S%z}")


def _fail(said: str) -> NoReturn:
    click.echo(f"inquest: {plain_text(said)}", err=True)
    sys.exit(3)
