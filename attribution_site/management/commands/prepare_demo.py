"""What a start of the demo needs from Django: tables, static files, accounts and samples. One process, one import."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.management import BaseCommand, CommandParser, call_command

from attribution_site.cli import main as inquest

SAMPLES = settings.BASE_DIR / "verdicts" / "samples"
# An account for each, in the group of its name.
ACCOUNTS = ("operator", "reviewer")
# Without characters that are mistaken for each other when read from a screen.
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def password() -> str:
    """A password that can be typed: 79 bits in four groups."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(4))


def accounts(*, renew: bool) -> dict[str, str]:
    """Make the demo's accounts; returns the passwords that were set, which nothing can show again."""
    made = {}
    for name in ACCOUNTS:
        user, new = User.objects.get_or_create(username=name)
        if new or renew:
            made[name] = password()
            user.set_password(made[name])
            user.is_active = True
            user.save()
            user.groups.add(Group.objects.get(name=name))
    return made


def send_samples() -> None:
    """Send the sample incidents as everybody sends incidents; what is stored already stays as it is."""
    folders = sorted(str(file.parent) for file in SAMPLES.glob("*/attempt.json"))
    if folders:
        inquest.main(["ingest", *folders], standalone_mode=False)


class Command(BaseCommand):
    """Used by `make demo` and `make demo-passwords`."""

    help = "Prepare the demo: migrate, collect static files, make the accounts operator and reviewer."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--new-passwords", action="store_true", help="only give both accounts new passwords")

    def handle(self, *args: Any, new_passwords: bool, **options: Any) -> None:
        if not new_passwords:
            call_command("migrate", interactive=False, verbosity=0)
            call_command("collectstatic", interactive=False, verbosity=0)
        made = accounts(renew=new_passwords)
        if made:
            self.stdout.write("Accounts, with passwords that are shown only now:")
        for name, secret in made.items():
            self.stdout.write(f"    {name:<9} {secret}")
        if not made:
            self.stdout.write(f"Accounts: {', '.join(ACCOUNTS)}. New passwords for them: make demo-passwords")
        if not new_passwords:
            send_samples()
