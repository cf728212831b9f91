"""manage.py create_token USER: a token for scripts, printed once."""

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from knox.models import AuthToken
from knox.settings import knox_settings


class Command(BaseCommand):
    """Make a token for a user. Only its hash is stored: it cannot be shown again."""

    help = "Make an API token for a user and print it once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="Name of the user, who must exist and be active.")
        parser.add_argument(
            "--days",
            type=int,
            default=knox_settings.TOKEN_TTL.days,
            help="Days until it expires (default: %(default)s).",
        )

    def handle(self, *args: Any, user: str, days: int, **options: Any) -> None:
        if not 1 <= days <= 3650:
            raise CommandError("--days is from 1 to 3650")
        owner = get_user_model().objects.filter(username=user, is_active=True).first()
        if owner is None:
            raise CommandError(f"no active user is called {user!r}")
        _, token = AuthToken.objects.create(user=owner, expiry=timedelta(days=days))
        self.stdout.write(token)
