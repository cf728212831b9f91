"""The kill switch: a file. It works when the database is read-only or away, and nobody needs an account to use it."""

from pathlib import Path

from django.conf import settings


def path() -> Path:
    """Where the file is looked for (setting INQUEST_RECOVERY_STOP_FILE)."""
    return Path(getattr(settings, "INQUEST_RECOVERY_STOP_FILE", "") or settings.DATA_DIR / "recovery.stop")


def killed() -> str | None:
    """Why nothing may be sent to any scheduler now; None if it may.

    Where it cannot be told whether the file is there, it counts as there.
    """
    where = path()
    try:
        where.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"whether the stop file {where} is there cannot be told: {error.strerror}"
    return f"the stop file {where} is there"
