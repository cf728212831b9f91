"""Who may do what. Groups hold the permissions; pages and API ask the predicates here."""

from typing import Any, Protocol

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

READ = "verdicts.view_verdict"
INGEST = "verdicts.ingest_evidence"
ATTRIBUTE = "verdicts.request_attribution"
REVIEW = "verdicts.review_verdict"
ACCOUNTS = "auth.change_user"
WEBHOOKS = "verdicts.manage_webhooks"

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Permitted(Protocol):
    """What the predicates need to know of a user."""

    def has_perm(self, perm: str, obj: Any = None) -> bool: ...


def may_read(user: Permitted) -> bool:
    """May see verdicts and their evidence."""
    return user.has_perm(READ)


def may_ingest(user: Permitted) -> bool:
    """May send attempts, observations and reports."""
    return user.has_perm(INGEST)


def may_attribute(user: Permitted) -> bool:
    """May ask for an attribution."""
    return user.has_perm(ATTRIBUTE)


def may_review(user: Permitted) -> bool:
    """May say whether a verdict was right."""
    return user.has_perm(REVIEW)


def may_comment(user: Permitted) -> bool:
    """May remark on a verdict: whoever may do more than read."""
    return user.has_perm(REVIEW) or user.has_perm(ATTRIBUTE)


def may_use_webhooks(user: Permitted) -> bool:
    """May have verdicts told to the site's webhooks."""
    return user.has_perm(WEBHOOKS)


def may_administer(user: Any) -> bool:
    """May see accounts and give roles."""
    return bool(user.is_active) and (bool(user.is_staff) or user.has_perm(ACCOUNTS))


class _Permission(BasePermission):
    """Reading needs `READ`, writing needs `write`; a view that only reads leaves `write` empty."""

    write = ""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not (request.user and request.user.is_authenticated):
            return False
        needed = READ if request.method in SAFE_METHODS else self.write
        return bool(needed) and request.user.has_perm(needed)


class MayRead(_Permission):
    """Readers ask, by whatever method: nothing is changed."""

    write = READ


class ReadOnly(_Permission):
    """Readers read; nobody writes."""


class ReadOrIngest(_Permission):
    """Readers read, operators send evidence."""

    write = INGEST


class ReadOrAttribute(_Permission):
    """Readers read, operators ask for attributions."""

    write = ATTRIBUTE


class ReadOrReview(_Permission):
    """Readers read, reviewers review."""

    write = REVIEW


class ReadOrComment(_Permission):
    """Readers read, whoever may do more comments."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Whether the call may go on."""
        if request.method in SAFE_METHODS:
            return super().has_permission(request, view)
        return bool(request.user and request.user.is_authenticated) and may_comment(request.user)
