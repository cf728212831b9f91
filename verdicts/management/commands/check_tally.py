"""`manage.py check_tally [--rebuild]`: compare the weekly tally of the overview with the list that it counts."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from verdicts import tally


class Command(BaseCommand):
    """Compare, print what differs, and count anew where that is wanted."""

    help = "Compare the overview's weekly tally with the list; exit status 1 where they differ and are left so."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rebuild", action="store_true", help="Count anew where they differ.")

    def handle(self, *args: Any, **options: Any) -> None:
        found = tally.differences()
        for one in found:
            self.stdout.write(
                f"week of {one.week:%Y-%m-%d}, {one.state}, {one.domain}: {one.told} told, {one.counted} there"
            )
        if not found:
            self.stdout.write("the tally is right")
        elif options["rebuild"]:
            tally.rebuild()
            self.stdout.write("counted anew")
        else:
            raise SystemExit(1)
