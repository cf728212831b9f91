"""`manage.py seed_console N`: a store of N made-up attempts to try and measure the console with."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from verdicts.bench.fill import NotEmptyError, fill


class Command(BaseCommand):
    """Fill an empty database."""

    help = "Fill an empty database with made-up attempts, five observations for each, and their verdicts, by COPY."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("attempts", type=int)
        parser.add_argument("--seed", type=int, default=1, help="The same number and seed give the same rows.")
        parser.add_argument("--days", type=int, default=365, help="How far back the oldest attempt ended.")

    def handle(self, *args: Any, **options: Any) -> None:
        started = time.monotonic()
        try:
            for made in fill(options["attempts"], seed=options["seed"], days=options["days"]):
                self.stdout.write(f"\r{made:,} of {options['attempts']:,}", ending="")
                self.stdout.flush()
        except NotEmptyError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"\n{options['attempts']:,} attempts in {time.monotonic() - started:.0f} s")
