"""Whether a record goes on from what was imported of its attempt before, and what contradicts if it does not."""

from collections.abc import Iterable, Mapping
from datetime import date
from itertools import islice
from typing import Any

from recovery.record.container import BadRecord
from recovery.record.read import Record, VerdictOf
from rules.attempt import Attempt as GivenAttempt
from rules.attempt import InputError
from rules.observation import Observation
from verdicts import limits
from verdicts.collecting.observation_rows import rows_of
from verdicts.models import Attempt, ImportedRecord


def day_of(text: str | None) -> date:
    """A day of a record's `bag-info.txt`. Raises BadRecord."""
    try:
        return date.fromisoformat(text or "")
    except ValueError as error:
        raise BadRecord("bag-info.txt does not say when it was made") from error


def require_kept(attempt: Attempt) -> None:
    """Refuse to bring back what this site was to keep no longer."""
    if attempt.tombstones.exists():
        raise InputError("what this site had of the attempt has expired since: it is not brought back")


def require_newer(record: Record, known: ImportedRecord, *, told: Mapping[str, list[Any]]) -> None:
    """Refuse a record that was made before the one that is here; of one day, one that has less of what was said."""
    made_on = day_of(record.report.info.get("Bagging-Date"))
    if made_on < known.made_on:
        raise InputError(f"it was made on {made_on}, the record that is here on {known.made_on}: that one stays")
    for name, rows in told.items():
        lost = _ids(known.told.get(name, [])) - _ids(rows)
        if made_on == known.made_on and lost:
            raise InputError(
                f"it has not all {name} of the record of the same day that is here: it is older, or was changed"
            )


def _ids(rows: Iterable[Any]) -> set[str]:
    return {str(row["id"]) for row in rows if "id" in row}


def require_history(record: Record, attempt: Attempt) -> list[VerdictOf]:
    """The verdicts that the record has more. Refused is one whose verdicts are not those that are here, continued."""
    here = dict(attempt.verdicts.order_by("number").values_list("number", "body_sha256"))
    there = {told.number: told.sha256 for told in record.verdicts}
    for number, digest in here.items():
        if there.get(number, digest) != digest:
            raise InputError(
                f"its verdict {number} is not the verdict {number} that is here: the two records contradict each other"
            )
    if len(there) < len(here):
        raise InputError(
            f"it has {len(there)} verdicts, here are {len(here)}: it is older, or this site went on itself"
        )
    return [told for told in record.verdicts if told.number not in here]


def require_same_attempt(given: GivenAttempt, attempt: Attempt) -> None:
    """Refuse a record that does not say of the attempt any more what is known of it here."""
    gone = sorted(set(attempt.body) - set(given.described()))
    if gone:
        raise InputError(f"it does not say {', '.join(gone)} of the attempt, which the record that is here says")


def require_evidence(given: Iterable[Observation], attempt: Attempt) -> None:
    """Refuse a record that has not all the evidence that is here. It is stored already: what is here is both."""
    told: set[str] = set()
    lines = iter(given)
    while batch := list(islice(lines, limits.MAX_BATCH)):
        told.update(rows_of(attempt.body, batch))
    here = attempt.observations.order_by().values_list("digest", flat=True)
    missing = sum(digest not in told for digest in here.iterator(limits.MAX_BATCH))
    if missing:
        raise InputError(f"{missing:,} lines of evidence that are here are not in it: the two contradict each other")
