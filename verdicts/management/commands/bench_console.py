"""`manage.py bench_console`: p50 and p95 of the console's pages and API calls on the database as it is."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from verdicts.bench.measure import as_row, measure
from verdicts.models import ListRow

#: What the pages have to keep to.
MOST_P95, MOST_QUERIES, MOST_RATIO, MOST_GROWTH = 300.0, 12, 3.0, 1.5


class Command(BaseCommand):
    """Measure, print, and say what is beyond its limit."""

    help = "Measure the console's pages and API calls on this database; exit status 1 where one is beyond its limit."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--times", type=int, default=30, help="How often each is asked for.")
        parser.add_argument("--json", type=Path, help="Keep the figures in this file.")
        parser.add_argument("--against", type=Path, help="Figures of another database: growth is reckoned from them.")

    def handle(self, *args: Any, **options: Any) -> None:
        settings.ALLOWED_HOSTS = ["*"]
        if not settings.DEBUG:  # no collected files are needed to measure
            settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
        before = {}
        if options["against"]:
            before = {row["name"]: row for row in json.loads(options["against"].read_text())}
        self.stdout.write(f"{ListRow.objects.count():,} rows; times in ms, {options['times']} times each")
        self.stdout.write(f"{'':28}{'p50':>8}{'p95':>8}{'queries':>9}{'SQL':>8}{'rows':>8}{'ratio':>8}{'growth':>8}")
        kept, beyond = [], []
        for found in measure(options["times"]):
            other = before.get(found.name)
            growth = found.p50 / other["p50"] if other else None
            # A page that shows more rows is another page: its time is told, and not judged.
            same = other is not None and other["rows"] == found.rows
            told = "" if growth is None else f"{growth:.2f}" if same else f"({growth:.2f})"
            self.stdout.write(
                f"{found.name:28}{found.p50:8.1f}{found.p95:8.1f}{found.queries:9}{found.sql:8.1f}"
                f"{found.rendering:8.1f}{found.ratio:8.2f}{told:>8}"
            )
            kept.append(as_row(found))
            if found.p95 > MOST_P95 or found.queries > MOST_QUERIES or found.ratio > MOST_RATIO:
                beyond.append(found.name)
            elif growth and same and growth > MOST_GROWTH:
                beyond.append(f"{found.name} (growth)")
        if options["json"]:
            options["json"].write_text(json.dumps(kept, indent=1))
        if beyond:
            self.stdout.write(f"beyond their limits: {', '.join(beyond)}")
            raise SystemExit(1)
