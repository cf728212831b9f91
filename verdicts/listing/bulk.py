"""One thing done to many rows of the list: each by the function that does it to one, each told of by itself."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from django.contrib.auth.models import User

from rules.attempt import InputError
from rules.words import Domain
from verdicts import permissions
from verdicts.choices import Label, Mode
from verdicts.conclude import request_attribution
from verdicts.models import Attempt, ListRow, Verdict
from verdicts.people.talk import NotPermitted as MayNotComment
from verdicts.people.talk import add_comment
from verdicts.record import NotPermitted, record_review

#: More rows than this are a mistake more often than a wish.
MOST_ROWS = 200


class Action(StrEnum):
    """What can be done to many rows at once."""

    RIGHT = "right"
    WRONG = "wrong"
    UNDECIDABLE = "undecidable"
    COMMENT = "comment"
    ATTRIBUTE = "attribute"


@dataclass(frozen=True)
class Outcome:
    """What became of one row."""

    row: UUID
    name: str
    done: bool
    said: str


def may(user: User, action: Action) -> bool:
    """Whether the user may do this to a row."""
    if action is Action.COMMENT:
        return permissions.may_comment(user)
    return permissions.may_attribute(user) if action is Action.ATTRIBUTE else permissions.may_review(user)


def apply(
    rows: Sequence[UUID],
    action: Action,
    *,
    by: User,
    note: str = "",
    actual_domain: Domain | None = None,
    actual_nodes: Sequence[str] = (),
) -> list[Outcome]:
    """Do it to each row, in the order given; a row that cannot be done says why and stops no other.

    Raises NotPermitted, and InputError for what no row could be done with.
    """
    if not may(by, action):
        raise NotPermitted(_NEEDS[action])
    if not rows:
        raise InputError("rows: none is chosen")
    if len(rows) > MOST_ROWS:
        raise InputError(f"rows: at most {MOST_ROWS} at once")
    if action is Action.WRONG and actual_domain is None:
        raise InputError("actual_domain: a review that says wrong names what it really was")
    if action is Action.COMMENT and not note.strip():
        raise InputError("note: a comment needs some text")
    found = ListRow.objects.in_bulk(list(rows))

    def label(row: ListRow) -> str:
        if row.verdict_id is None:
            raise InputError("it has no verdict yet that could be right or wrong")
        record_review(
            row.verdict_id,
            by=by,
            label=Label(action.value),
            actual_domain=actual_domain if action is Action.WRONG else None,
            actual_nodes=actual_nodes if action is Action.WRONG else (),
            note=note,
        )
        return "labelled" if row.is_current else "labelled; a newer verdict stands"

    def attribute(row: ListRow) -> str:
        request_attribution(row.attempt_id, Mode.SLOW, by=by)
        return "asked for"

    def comment(row: ListRow) -> str:
        if row.verdict_id is None:
            raise InputError("it has no verdict yet that could be commented on")
        add_comment(row.verdict_id, by=by, text=note)
        return "commented on"

    do = {Action.ATTRIBUTE: attribute, Action.COMMENT: comment}.get(action, label)
    return [_outcome(pk, found.get(pk), do) for pk in _once(rows)]


_NEEDS = {
    Action.ATTRIBUTE: "asking for attributions needs the group operator",
    Action.COMMENT: "commenting needs the group reviewer, operator or lead",
    **dict.fromkeys((Action.RIGHT, Action.WRONG, Action.UNDECIDABLE), "reviewing needs the group reviewer"),
}


def _once(rows: Iterable[UUID]) -> list[UUID]:
    return list(dict.fromkeys(rows))


def _outcome(pk: UUID, row: ListRow | None, do: Callable[[ListRow], str]) -> Outcome:
    if row is None:
        return Outcome(pk, "", done=False, said="it is not in the list any more")
    name = f"{row.workload}, job {row.job_id}" if row.workload else f"job {row.job_id}"
    try:
        return Outcome(pk, name, done=True, said=do(row))
    except (Verdict.DoesNotExist, Attempt.DoesNotExist):
        return Outcome(pk, name, done=False, said="it is not there any more")
    except (InputError, NotPermitted, MayNotComment) as error:
        return Outcome(pk, name, done=False, said=str(error))
