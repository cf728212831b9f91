"""`inquest sources`: whether the configured sources can be reached, join to nodes and jobs, and have recent data."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click
import django

# Loaded only when `inquest sources` is called; everything below needs Django.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.db import DatabaseError  # noqa: E402

from rules.verdict import plain_text  # noqa: E402
from verdicts.choices import SourceHealth  # noqa: E402
from verdicts.clusters import current_clusters  # noqa: E402
from verdicts.collectors.config import Clusters, ConfigError, read_clusters  # noqa: E402
from verdicts.sources import check as source_check  # noqa: E402
from verdicts.sources import find  # noqa: E402
from verdicts.sources.check import Checked  # noqa: E402

MARKS = {"sees": "sees    ", "degraded": "DEGRADED", "blind": "BLIND   "}


@click.group()
def sources() -> None:
    """The systems that evidence is read from, as INQUEST_CLUSTERS_FILE names them."""


FILE = click.option("--file", "file", default="", help="A clusters file to try instead of the site's.")


@sources.command("list")
@FILE
def list_sources(file: str) -> None:
    """Show what is configured, and which kinds of evidence no source gives."""
    for cluster in _clusters(file).cluster:
        click.echo(f"{cluster.name}")
        for discovery in cluster.discovery:
            click.echo(f"  attempts        {discovery.name} ({discovery.kind}), every {discovery.every:g} s")
        for source in cluster.source:
            click.echo(f"  {source.source.value:15} {source.name} ({source.kind})")
        if missing := source_check.unconfigured(cluster):
            click.echo(f"  not configured: {', '.join(missing)}")


@sources.command()
@click.option("--cluster", default="", help="Only this cluster's sources.")
@click.option("--source", "name", default="", help="Only the source of this name.")
@click.option("--node", "nodes", multiple=True, help="A node that must be known; may be given again.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--strict", is_flag=True, help="Degraded sources count as failures too.")
@click.option("--dry-run", "dry", is_flag=True, help="Store nothing: the site's pages and alerts stay as they are.")
@FILE
def check(
    cluster: str, name: str, nodes: tuple[str, ...], file: str, *, as_json: bool, strict: bool, dry: bool
) -> None:
    """Look at each source and say what to mend, and which looks for attempts failed last time.

    What is found is stored and shown on the sources page; not with --dry-run, nor of a file that the site does not
    run with.

    The exit status is 0 when all is well, 1 when a source is blind (with --strict: or degraded) or a look fails,
    2 when none was chosen, 3 when the clusters file or the database cannot be used.
    """
    of = _clusters(file)
    try:
        dry = _is_dry(file, dry=dry)
        found = source_check.check(cluster=cluster, name=name, nodes=nodes, of=of, store=not dry)
        failing = [] if name or dry else [row for row in find.failing() if cluster in ("", str(row.cluster))]
        gone = (
            []
            if name or dry or as_json
            else [row for row in source_check.no_longer() if cluster in ("", str(row.cluster))]
        )
    except DatabaseError as error:
        click.echo(f"inquest: the database cannot be used: {error}".rstrip(), err=True)
        sys.exit(3)
    if not found:
        click.echo("inquest: no source is configured by that name" if cluster or name else NONE, err=True)
        sys.exit(2)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False))
    else:
        for one in found:
            _say(one)
    for old in gone:
        click.echo(f"GONE     {old.cluster} / {old.name} is in the file no more; what it gave stays with its attempts")
    for row in failing:
        if not as_json:
            click.echo(f"FAILS    {row.cluster} / {row.name}: attempts are not found")
        click.echo(f"         → {plain_text(row.error)}", err=as_json)
    bad = {SourceHealth.BLIND, SourceHealth.DEGRADED} if strict else {SourceHealth.BLIND}
    sys.exit(1 if failing or any(one.health in bad for one in found) else 0)


NONE = "inquest: no sources are configured; name a file in INQUEST_CLUSTERS_FILE, see docs/collectors.md"


def _is_dry(file: str, *, dry: bool) -> bool:
    """Whether nothing is to be stored: asked for, or the file is not the one that the site runs with."""
    if dry:
        click.echo("inquest: a dry run, nothing is stored", err=True)
        return True
    own = str(Path(file).resolve()) if file else source_check.own_file()
    site = source_check.site_file() or (source_check.own_file() if file else own)
    if own == site:
        return False
    runs = f"the site runs with {site}" if site else "no running site has it"
    click.echo(f"inquest: nothing is stored, for {own} is only tried: {runs}", err=True)
    return True


def _clusters(file: str = "") -> Clusters:
    if not file and not settings.INQUEST_CLUSTERS_FILE:
        click.echo(NONE, err=True)
        sys.exit(2)
    try:
        return read_clusters(Path(file)) if file else current_clusters()
    except ConfigError as error:
        click.echo(f"inquest: {error}", err=True)
        sys.exit(3)


def _say(one: Checked) -> None:
    click.echo(f"{MARKS.get(one.health, one.health)} {one.cluster} / {one.name} ({one.kind}, {one.source})")
    click.echo(f"         {plain_text(one.summary)}")
    for fix in one.fix:
        click.echo(f"         → {plain_text(fix)}")
    for note in one.notes:
        click.echo(f"         {plain_text(note)}")
    if one.newest:
        clock = f", clock {one.clock_seconds:+g} s" if one.clock_seconds is not None else ""
        late = f", arrived {one.late_seconds:g} s after its own time" if one.late_seconds is not None else ""
        click.echo(f"         newest record is {one.age_seconds:g} s old ({one.newest}){late}{clock}")
    if one.health == SourceHealth.BLIND:
        click.echo(f"         {one.rules} rules read this kind of evidence, {one.rules_only_here} of them nothing else")
