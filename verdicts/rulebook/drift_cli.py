"""`inquest drift`: whether the rules still see in stored attempts what they saw before."""

import json
import os
import sys
from datetime import datetime

import click
import django

# Loaded only when `inquest drift` is called; everything below needs Django.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")
django.setup()

from django.core.serializers.json import DjangoJSONEncoder  # noqa: E402
from django.db import DatabaseError  # noqa: E402
from django.utils import timezone  # noqa: E402

from rules.rule import RuleError  # noqa: E402
from rules.verdict import plain_text  # noqa: E402
from verdicts import wording  # noqa: E402
from verdicts.listing.form import MAX_YEAR, MIN_YEAR  # noqa: E402
from verdicts.rulebook.drift import DAYS, MOST_DAYS, Report, Sign, report, report_json  # noqa: E402


@click.command()
@click.option(
    "--days",
    type=click.IntRange(1, MOST_DAYS),
    default=DAYS,
    show_default=True,
    help="Length of each of the two times that are compared.",
)
@click.option("--until", default="", metavar="TIME", help="End of the later one (RFC 3339; UTC without an offset).")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def drift(days: int, until: str, as_json: bool) -> None:
    """Compare the attempts stored of the last days with those of as many days before.

    Tells of rules gone silent while their family goes on, of lines that nearly match a rule, of unknown errors
    that came with a new image or ruleset, and of rules that match far more often than on a healthy fleet. The
    exit status is 0 without and 1 with a sign of drift, 3 when the database or the rules cannot be used.
    """
    try:
        found = report(days, until=_moment(until))
    except DatabaseError as error:
        click.echo(f"inquest: the database cannot be used: {error}".rstrip(), err=True)
        sys.exit(3)
    except RuleError as error:
        click.echo(f"inquest: the rules cannot be used: {error}", err=True)
        sys.exit(3)
    if as_json:
        click.echo(json.dumps(report_json(found), cls=DjangoJSONEncoder, indent=2, ensure_ascii=False))
    else:
        _say(found)
    sys.exit(1 if found.signs else 0)


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    at: datetime | None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or not MIN_YEAR <= at.year <= MAX_YEAR:
        raise click.BadParameter(f"{text!r} is not a time", param_hint="--until")
    return at if at.tzinfo is not None else timezone.make_aware(at)


def _say(found: Report) -> None:
    click.echo(
        f"before  {found.start:%Y-%m-%d %H:%M} to {found.middle:%Y-%m-%d %H:%M}  attempts: {found.attempts_before}"
    )
    click.echo(
        f"after   {found.middle:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M}  attempts: {found.attempts_after}"
    )
    for change in found.changes:
        click.echo(f"changed {plain_text(change)}")
    if not (found.attempts_before and found.attempts_after):
        click.echo("Nothing to compare: one of the two times has no attempt with a verdict.")
    elif not found.signs:
        click.echo("No sign of drift.")
    for kind, signs in found.by_kind.items():
        click.echo(f"\n{wording.DRIFT[kind][0]} ({len(signs)})")
        for sign in signs:
            _say_sign(sign)
    if found.new_templates:
        click.echo(f"\nOther new templates of unknown errors, with no new version: {found.new_templates}.")


def _say_sign(sign: Sign) -> None:
    click.echo(f"  {sign.rule or plain_text(sign.text)}  ({sign.before} lines before, {sign.after} after)")
    if sign.rule:
        click.echo(f"      {plain_text(sign.text)}")
    if sign.since:
        click.echo(f"      came with {plain_text(', '.join(sign.since))}")
    if sign.seen:
        click.echo(f"      the rule was seen with {', '.join(f'{what} {v}' for what, v in sign.seen.items())}")
    if sign.example:
        click.echo(f"      e.g. {plain_text(sign.example, 200)}")
