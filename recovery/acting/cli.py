"""`inquest recovery`: the kill switch, what is under way, and whether the schedulers can be acted on."""

import getpass
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click
import django

# Loaded only when `inquest recovery` is called; everything below needs Django.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.db import DatabaseError, transaction  # noqa: E402

from recovery import find, stop_file  # noqa: E402
from recovery.acting import sites  # noqa: E402
from recovery.actuators.base import Unseen  # noqa: E402
from recovery.ledger import entries as ledger  # noqa: E402
from recovery.ledger.entries import Actor  # noqa: E402
from recovery.models import Action, ActuatorState, Brake, Proposal  # noqa: E402
from recovery.words import ENDED_ACTIONS, EntryKind, ProposalState  # noqa: E402
from rules.verdict import plain_text  # noqa: E402


@click.group()
def recovery() -> None:
    """What acts on schedulers: stop it, let it go on, look at it."""


REASON = click.option("--reason", required=True, help="Why; it stands in the ledger.")


@recovery.command()
@REASON
def stop(reason: str) -> None:
    """Throw the kill switch: nothing more is sent to any scheduler but what gives back.

    It is a file, looked at before every call. It works without the database; without this command too.
    """
    path = stop_file.path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{_now()} {_who()}: {reason}\n", encoding="utf-8")
    except OSError as error:
        _fail(f"{path} cannot be written: {error.strerror}. Make it by hand, as somebody who may.")
    click.echo(f"Stopped: {path} is there. Where a dispatcher runs on another machine, do it there too.")
    _record(EntryKind.BRAKE_OPENED, reason, path)


@recovery.command()
@REASON
def go(reason: str) -> None:
    """Take the kill switch back. Brakes that were pulled in the console stay."""
    path = stop_file.path()
    try:
        path.unlink()
    except FileNotFoundError:
        click.echo(f"It was not stopped: {path} is not there.")
        return
    except OSError as error:
        _fail(f"{path} cannot be removed: {error.strerror}")
    click.echo(f"Goes on: {path} is gone.")
    _record(EntryKind.BRAKE_RELEASED, reason, path)


@recovery.command()
def status() -> None:
    """Show what stops recovery, what is under way, and what needs a person. Ends with 1 where something does."""
    killed = stop_file.killed()
    click.echo(f"kill switch   {killed or 'off'}")
    try:
        for brake in Brake.objects.filter(released_at=None).select_related("cluster"):
            where = brake.cluster.name if brake.cluster else "all clusters"
            click.echo(f"brake         {brake.kind} on {where}: {plain_text(brake.reason)}")
        for row in ActuatorState.objects.select_related("cluster"):
            reach = "reachable" if row.reachable else "NOT REACHABLE"
            said = f"{row.kind}, {reach} at {row.seen_at:%Y-%m-%d %H:%M:%S%z}: {plain_text(row.said)}"
            click.echo(f"scheduler     {row.cluster.name}: {said}")
        waiting = Proposal.objects.filter(state=ProposalState.OPEN.value).count()
        ended = [state.value for state in ENDED_ACTIONS]
        under_way = Action.objects.exclude(outcome__in=ended).count()
        click.echo(f"proposals     {waiting} wait for a person")
        click.echo(f"actions       {under_way} under way")
        overdue = list(find.overdue())
    except DatabaseError as error:
        _fail(f"the database does not answer: {error}")
    for action in overdue:
        click.echo(f"NEEDS YOU     {action.mark}: should have ended at {action.deadline:%H:%M:%S%z}: {action.why}")
    sys.exit(1 if overdue else 0)


@recovery.command()
def check() -> None:
    """Read INQUEST_RECOVERY_FILE and look at every scheduler in it; run it as the dispatcher's account."""
    if not settings.INQUEST_RECOVERY_FILE:
        _fail("INQUEST_RECOVERY_FILE is not set: nothing can act")
    unseen = 0
    for site in sites.current_sites().cluster:
        way = sites.actuator(site.name)
        assert way is not None
        try:
            said = way.probe()
        except Unseen as error:
            said, unseen = f"cannot be looked at: {error}", unseen + 1
        click.echo(f"{site.name}  {site.actuator.kind}: {plain_text(said)}")
        click.echo(f"    may: {', '.join(sorted(way.can))}")
    sys.exit(1 if unseen else 0)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _who() -> str:
    return os.environ.get("SUDO_USER") or getpass.getuser()


def _record(kind: EntryKind, reason: str, path: Path) -> None:
    """Note it in the ledger where the database can be written to; the switch does not depend on it."""
    try:
        with transaction.atomic():
            ledger.record(
                kind,
                actor=Actor.system("kill switch"),
                subject=("kill_switch", str(path)),
                body={"account": _who()},
                erasable={"reason": reason},
            )
    except DatabaseError:
        click.echo("The ledger could not be written to: note there later who did this, and why.", err=True)


def _fail(said: str) -> NoReturn:
    click.echo(f"inquest: {said}", err=True)
    sys.exit(2)
