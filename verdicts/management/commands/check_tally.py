"""`manage.py check_tally [--rebuild]`: compare what the overview counts by with the list that it counts."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from verdicts.overview import tally


class Command(BaseCommand):
    """Compare, print what differs, and count anew where that is wanted."""

    help = "Compare the overview's tally and blame with the list; exit status 1 where they differ and are left so."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rebuild", action="store_true", help="Count anew where they differ.")

    def handle(self, *args: Any, **options: Any) -> None:
        found = tally.differences()
        for one in found:
            self.stdout.write(
                f"week of {one.week:%Y-%m-%d}, {one.state}, {one.domain}: {one.told} told, {one.counted} there"
            )
        wrong = tally.misblamed()
        for row in wrong:
            self.stdout.write(f"row {row} blames others")
        if not found and not wrong:
            self.stdout.write("tally and blame are right")
        elif options["rebuild"]:
            tally.rebuild()
            self.stdout.write("counted anew")
        else:
            raise SystemExit(1)
