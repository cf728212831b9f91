"""What a start of the demo needs from Django: tables, static files, accounts, samples. One process, one import."""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.staticfiles.finders import get_finders
from django.core.management import BaseCommand, CommandError, CommandParser, call_command

from attribution_site import health
from attribution_site.cli import main as inquest
from recovery.ledger import intake
from verdicts.models import Attempt

SAMPLES = settings.BASE_DIR / "verdicts" / "samples"

# Accounts and the group of each: with fewer, nobody could approve what another proposed, or write a policy.
ACCOUNTS = {"operator": "operator", "reviewer": "reviewer", "lead": "lead", "policy-admin": "policy admin"}
# Without characters that are mistaken for each other when read from a screen.
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def password() -> str:
    """A password that can be typed: 79 bits in four groups."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(4))


def accounts(*, renew: bool) -> dict[str, str]:
    """Make the demo's accounts; returns the passwords that were set, which nothing can show again."""
    made = {}
    for name, group in ACCOUNTS.items():
        user, new = User.objects.get_or_create(username=name)
        if new or renew:
            made[name] = password()
            user.set_password(made[name])
            user.is_active = True
            user.save()
            user.groups.add(Group.objects.get(name=group))
    return made


def collect_static() -> None:
    """Collect the static files if any has changed since the last time: compressing them takes seconds."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in sorted(finder.list([]), key=lambda found: found[0]):
            stat = Path(storage.path(path)).stat()
            digest.update(f"{path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    mark = Path(settings.STATIC_ROOT) / ".collected"
    if not mark.exists() or mark.read_text() != digest.hexdigest():
        call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=["redoc*"])
        mark.write_text(digest.hexdigest())


def send_samples() -> int:
    """Send the sample incidents that are not stored yet, by the command that everybody sends incidents with."""
    folders = {json.loads(file.read_bytes())["job_id"]: str(file.parent) for file in SAMPLES.glob("*/attempt.json")}
    known = set(Attempt.objects.filter(job_id__in=folders).values_list("job_id", flat=True))
    missing = sorted(folder for job, folder in folders.items() if job not in known)
    if missing:
        try:
            with redirect_stdout(sys.stderr):
                inquest(["ingest", "--wait", "0", *missing])
        except SystemExit as ended:
            if ended.code:
                raise CommandError("the sample incidents could not be stored") from ended
    return len(missing)


class Command(BaseCommand):
    """Used by `make demo` and `make demo-passwords`."""

    help = "Prepare the demo: migrate, collect static files, make its accounts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--new-passwords", action="store_true", help="only give the accounts new passwords")

    def handle(self, *args: Any, new_passwords: bool, **options: Any) -> None:
        if not new_passwords:
            call_command("migrate", interactive=False, verbosity=0)
            collect_static()
            # Builds the rules' cache once, before web server and worker would both do it.
            health.ruleset_digest()
            # The ledger begins at its first look: after it, so that it has the samples' verdicts.
            intake.take_in()
            if sent := send_samples():
                self.stdout.write(f"Loaded {sent} sample incidents.")
        made = accounts(renew=new_passwords)
        if made:
            self.stdout.write("Accounts, with passwords that are shown only now:")
        for name, secret in made.items():
            self.stdout.write(f"    {name:<12} {secret}")
        if not made:
            self.stdout.write(f"Accounts: {', '.join(ACCOUNTS)}. New passwords for them: make demo-passwords")
