"""Make a token for an account, for tools that have no password."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management import BaseCommand, CommandError, CommandParser
from knox.models import AuthToken
from knox.settings import knox_settings


class Command(BaseCommand):
    """Prints the token once; only its hash is kept."""

    help = "Make an API token for an account and print it. It cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the account's user name")
        parser.add_argument("--days", type=int, default=knox_settings.TOKEN_TTL.days, help="how long it is valid")

    def handle(self, *args: Any, name: str, days: int, **options: Any) -> None:
        user = User.objects.filter(username=name, is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active account {name}.")
        if days < 1:
            raise CommandError("A token is valid for a day at least.")
        _, token = AuthToken.objects.create(user=user, expiry=timedelta(days=days), prefix=knox_settings.TOKEN_PREFIX)
        self.stdout.write(token)
