"""`inquest sources`: whether the configured sources can be reached, join to nodes and jobs, and have recent data."""

import json
import os
import sys
from dataclasses import asdict

import click
import django

# Loaded only when `inquest sources` is called; everything below needs Django.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.db import DatabaseError  # noqa: E402

from rules.verdict import plain_text  # noqa: E402
from verdicts import source_check, source_find  # noqa: E402
from verdicts.choices import SourceHealth  # noqa: E402
from verdicts.clusters import current_clusters  # noqa: E402
from verdicts.collectors.config import Clusters, ConfigError  # noqa: E402
from verdicts.source_check import Checked  # noqa: E402

MARKS = {"sees": "sees    ", "degraded": "DEGRADED", "blind": "BLIND   "}


@click.group()
def sources() -> None:
    """The systems that evidence is read from, as INQUEST_CLUSTERS_FILE names them."""


@sources.command("list")
def list_sources() -> None:
    """Show what is configured, and which kinds of evidence no source gives."""
    for cluster in _clusters().cluster:
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
def check(cluster: str, name: str, nodes: tuple[str, ...], *, as_json: bool, strict: bool) -> None:
    """Look at each source and say what to mend, and which looks for attempts failed last time.

    The exit status is 0 when all is well, 1 when a source is blind (with --strict: or degraded) or a look fails,
    2 when none was chosen, 3 when the clusters file or the database cannot be used.
    """
    _clusters()
    try:
        found = source_check.check(cluster=cluster, name=name, nodes=nodes)
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
    failing = [] if name else [row for row in source_find.failing() if cluster in ("", str(row.cluster))]
    for row in failing:
        if not as_json:
            click.echo(f"FAILS    {row.cluster} / {row.name}: attempts are not found")
        click.echo(f"         → {plain_text(row.error)}", err=as_json)
    bad = {SourceHealth.BLIND, SourceHealth.DEGRADED} if strict else {SourceHealth.BLIND}
    sys.exit(1 if failing or any(one.health in bad for one in found) else 0)


NONE = "inquest: no sources are configured; name a file in INQUEST_CLUSTERS_FILE, see docs/collectors.md"


def _clusters() -> Clusters:
    if not settings.INQUEST_CLUSTERS_FILE:
        click.echo(NONE, err=True)
        sys.exit(2)
    try:
        return current_clusters()
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
        click.echo(f"         newest record {one.newest}, at most {one.late_seconds:g} s late{clock}")
    if one.health == SourceHealth.BLIND:
        click.echo(f"         {one.rules} rules read this kind of evidence, {one.rules_only_here} of them nothing else")
