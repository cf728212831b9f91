"""The lock between holds and expiry: whoever places a hold waits for what expires at that moment, and nothing else."""

from django.db import connection

#: Advisory: a hold takes it for itself, every expiry shares it.
_LOCK = (715025, 7)


def for_a_hold() -> None:
    """Until the transaction ends nothing expires; what expires afterwards sees what was written here."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", _LOCK)


def for_expiry() -> None:
    """Until the transaction ends no hold is placed or released: what is read of holds now holds until then."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", _LOCK)
