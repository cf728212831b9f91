"""What is left of an attempt whose evidence expired: reads, and the word that no more is taken."""

from datetime import UTC
from typing import Any

from rules.attempt import InputError
from verdicts.keeping import TITLES, Kept
from verdicts.models import Attempt, Tombstone


class EvidenceExpired(InputError):
    """The lines of an attempt expired: nothing is added to them, and nothing is concluded from what is left."""


def require_lines(attempt: Attempt) -> None:
    """Raise EvidenceExpired where the attempt's lines are gone by their time.

    A verdict made from what came afterwards would supersede one that was made from all of it.
    """
    if attempt.lines_expired_at is not None:
        raise EvidenceExpired(
            f"the evidence of this attempt expired on {attempt.lines_expired_at.astimezone(UTC):%Y-%m-%d}:"
            " none is added to it, and its verdict stands as it is"
        )


def tombstones_of(attempt: Attempt) -> list[Tombstone]:
    """What is left of what expired of an attempt, the oldest first; asked only where something did."""
    if all(getattr(attempt, f"{kept.value}_expired_at") is None for kept in Kept):
        return []
    return list(attempt.tombstones.order_by("at", "id"))


def as_data(attempt: Attempt) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {"kept": stone.kept, "at": stone.at, "rows": stone.rows, "bytes": stone.bytes, "rule": stone.rule}
        for stone in tombstones_of(attempt)
    ]


def in_words(stone: Tombstone) -> str:
    """A tombstone as a sentence."""
    rows = f"{stone.rows:,} row" + ("" if stone.rows == 1 else "s")
    return (
        f"expired on {stone.at.astimezone(UTC):%Y-%m-%d} under class {stone.kept} ({TITLES[stone.kept]}): {rows},"
        f" {stone.bytes:,} bytes; {stone.rule}"
    )
