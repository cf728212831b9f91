"""Comments on verdicts, and the people they name: the only writer of both, and how to find them."""

import re
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from rules.attempt import InputError
from rules.redact import redact
from verdicts import permissions
from verdicts.models import Comment, Mention, Verdict
from verdicts.storable import storable_text

MOST_CHARACTERS = 10_000
#: People that one comment can name.
MOST_MENTIONS = 20
_MENTION = re.compile(r"(?<![\w@.+-])@(\w[\w.@+-]{0,149})")


class NotPermitted(PermissionError):
    """The user may not comment; the message says what is missing."""


def names_in(text: str) -> list[str]:
    """The names after an @, as they may be meant: a full stop at the end belongs to the sentence."""
    found: dict[str, None] = {}
    for match in _MENTION.finditer(text):
        found[match[1]] = None
        found[match[1].rstrip(".-+@")] = None
    return [name for name in found if name]


@transaction.atomic
def add_comment(verdict_id: UUID, *, by: User, text: str) -> Comment:
    """Store a comment and whom it names. Raises InputError, NotPermitted, Verdict.DoesNotExist.

    Only people who may read verdicts can be named; a name of nobody stays text.
    """
    if not permissions.may_comment(by):
        raise NotPermitted("Commenting needs the role reviewer, operator or lead.")
    text = redact(storable_text(text)).strip()
    if not text:
        raise InputError("A comment needs some text.")
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"At most {MOST_CHARACTERS:,} characters; this comment has {len(text):,}.")
    verdict = Verdict.objects.only("pk").get(pk=verdict_id)
    comment = Comment.objects.create(verdict=verdict, author=by, text=text)
    people = get_user_model().objects.filter(is_active=True, username__in=names_in(text)[: 2 * MOST_MENTIONS])
    named = [person for person in people.exclude(pk=by.pk)[:MOST_MENTIONS] if permissions.may_read(person)]
    Mention.objects.bulk_create([Mention(comment=comment, person=person) for person in named])
    comment.refresh_from_db()
    return comment


def comments_on(verdict_id: UUID) -> QuerySet[Comment]:
    """The comments on a verdict in their order."""
    return Comment.objects.filter(verdict_id=verdict_id).select_related("author").order_by("created_at", "id")


def comments_about(attempt_id: UUID) -> QuerySet[Comment]:
    """The comments on all verdicts of an attempt in their order: a newer verdict does not hide what was said."""
    found = Comment.objects.filter(verdict__attempt_id=attempt_id).select_related("author", "verdict")
    return found.only("text", "created_at", "author__username", "verdict__number").order_by("created_at", "id")


def mentions_of(person: User, *, unseen: bool = False) -> QuerySet[Mention]:
    """Where a person was named, the latest first, with the comment, its author and its verdict's headline."""
    found = Mention.objects.filter(person=person).select_related("comment__author", "comment__verdict__attempt")
    found = found.defer("comment__verdict__body", "comment__verdict__body_json", "comment__verdict__attempt__body")
    return (found.filter(seen_at__isnull=True) if unseen else found).order_by("-comment__created_at", "-id")


def mark_seen(person: User, *, verdict_id: UUID | None = None) -> int:
    """Note that a person has seen where they were named, on one verdict or everywhere; how many were new."""
    unseen = Mention.objects.filter(person=person, seen_at__isnull=True)
    if verdict_id is not None:
        unseen = unseen.filter(comment__verdict_id=verdict_id)
    return unseen.update(seen_at=Now())
