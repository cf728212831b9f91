"""`inquest replay` of stored attempts: begin or resume, follow, report."""

import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import urlencode
from uuid import UUID

import click
import django

# Loaded only when it is called; everything below needs Django.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")
django.setup()

from django.db import DatabaseError  # noqa: E402

from recovery.models import Replay  # noqa: E402
from recovery.record.export import by_command  # noqa: E402
from recovery.replay import begin, find, gate, report, rulesets, work  # noqa: E402
from recovery.replay.ablate import Ablation  # noqa: E402
from recovery.replay.words import ReplayKind, ReplayState  # noqa: E402
from rules.attempt import InputError  # noqa: E402
from rules.rule import RuleError  # noqa: E402
from rules.ruleset import Ruleset, load_ruleset  # noqa: E402
from rules.verdict import plain_text  # noqa: E402

#: Seconds between two looks at how far it is.
PAUSE = 1.0
SAME, OTHERWISE, UNUSABLE, AWAY, NOT_DONE = range(5)


def run(
    *,
    filters: tuple[str, ...],
    directory: Path | None,
    own: bool,
    ablation: Ablation | None,
    resume: str | None,
    gate: bool,
    reason: str,
    here: bool,
    no_wait: bool,
    as_json: bool,
) -> int:
    """Do what the command was asked; says its exit status."""
    try:
        if gate:
            return _gate(load_ruleset(directory), as_json=as_json)
        if resume is not None:
            row = _resumed(resume)
        else:
            tried = None if own or ablation is not None else load_ruleset(directory)
            row = _begun(filters, tried, ablation, reason)
        click.echo(f"replay   {row.pk}  {row.total:,} attempts", err=True)
        if no_wait:
            return NOT_DONE if row.state != ReplayState.DONE else _told(row, as_json=as_json)
        if not _followed(row, here=here):
            return NOT_DONE
        return _told(row, as_json=as_json)
    except (InputError, begin.NotNow) as error:
        click.echo(f"inquest: {plain_text(str(error))}", err=True)
        return UNUSABLE
    except (RuleError, rulesets.NoRuleset) as error:
        click.echo(f"inquest: the rules cannot be used: {plain_text(str(error))}", err=True)
        return AWAY
    except DatabaseError as error:
        click.echo(f"inquest: the database cannot be used: {error}".rstrip(), err=True)
        return AWAY


def _begun(filters: tuple[str, ...], tried: Ruleset | None, ablation: Ablation | None, reason: str) -> Replay:
    pairs = []
    for text in filters:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"{text}: a filter is NAME=VALUE, as in the address of the list of verdicts")
        pairs.append((name, value))
    ruleset = rulesets.keep(tried) if tried is not None else None
    wish = begin.Wish(ruleset=ruleset, ablation=ablation, query=urlencode(pairs), reason=reason)
    return begin.begin(wish, by_command())


def _resumed(text: str) -> Replay:
    try:
        row = Replay.objects.get(pk=UUID(text))
    except (ValueError, Replay.DoesNotExist):
        raise InputError(f"resume: there is no replay {text}") from None
    return row if row.state == ReplayState.DONE else begin.go_on(row.pk, by_command())


def _followed(row: Replay, *, here: bool) -> bool:
    """Follow a replay to its end; False where somebody stopped looking, or it was cancelled."""
    said = ""
    try:
        while True:
            row.refresh_from_db()
            counts = find.counts(row)
            line = f"{counts.done:,} of {counts.total:,} ({counts.percent} %), {counts.weighty:,} otherwise"
            if line != said and sys.stderr.isatty():
                click.echo(f"\r\x1b[K{line}", nl=False, err=True)
            said = line
            if row.state != ReplayState.RUNNING:
                break
            # Here the work itself takes the time; a chunk that another worker has is waited for.
            if not (here and work.run(PAUSE, alone=True)):
                work.ended_now(row.pk)
                time.sleep(PAUSE if not here else PAUSE / 5)
    except KeyboardInterrupt:
        click.echo(f"\nit goes on with the workers; see it again with: inquest replay --resume {row.pk}", err=True)
        return False
    if sys.stderr.isatty():
        click.echo(err=True)
    if row.state == ReplayState.CANCELLED:
        click.echo(f"it was cancelled; go on with: inquest replay --resume {row.pk}", err=True)
        return False
    return True


def _told(row: Replay, *, as_json: bool) -> int:
    row.refresh_from_db()
    if as_json:
        click.echo(json.dumps(report.whole(row), ensure_ascii=False, indent=2))
    else:
        for line in report.lines(row):
            click.echo(line)
    counts = find.counts(row)
    clean = not counts.weighty and not counts.differs and not counts.failed
    if row.kind == ReplayKind.OWN:
        clean = clean and not counts.changed
    return SAME if clean else OTHERWISE


def _gate(tried: Ruleset, *, as_json: bool) -> int:
    """Say whether policies may act by themselves on these rules' word."""
    told = [gate.of_scope(scope, tried.digest) for scope in gate.scopes_at_stake()]
    if as_json:
        rows = [
            {
                "policy": one.scope.policy.name,
                "cluster": one.scope.cluster,
                "domain": one.scope.domain,
                "replay": str(one.replay.pk) if one.replay else None,
                "passes": one.passes,
                "said": one.said,
            }
            for one in told
        ]
        click.echo(json.dumps({"ruleset": tried.digest, "gate": rows}, ensure_ascii=False, indent=2))
    else:
        click.echo(f"ruleset  {tried.digest}")
        for one in told:
            word = "passes" if one.passes else "does not pass"
            click.echo(f"{one.scope}: {word}. {plain_text(one.said)}")
        if not told:
            click.echo("No policy acts by itself or waits to: nothing stands in the way.")
    return SAME if all(one.passes for one in told) else OTHERWISE
