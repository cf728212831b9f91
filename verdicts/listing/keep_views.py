"""The writers of saved views and of what a person set for their own console."""

from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet

from rules.attempt import InputError
from verdicts import permissions
from verdicts.listing.filter_form import filters_of
from verdicts.models import Preference, SavedView
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

MOST_VIEWS = 100
LONGEST_NAME = 80


def views_of(user: User) -> QuerySet[SavedView]:
    """The views that a person may open: their own, and those that others share."""
    return SavedView.objects.filter(Q(owner=user) | Q(shared=True)).select_related("owner").order_by("name", "id")


def may_share(user: User) -> bool:
    """Whoever works with verdicts may put a view before others; who only reads keeps theirs."""
    return permissions.may_review(user) or permissions.may_attribute(user)


@transaction.atomic
def save_view(name: str, query: str, *, by: User, shared: bool = False) -> SavedView:
    """Keep a list's filters and order under a name; the same name again replaces what it stood for.

    Raises InputError, and NotPermitted when somebody shares who may not.
    """
    name = " ".join(storable_text(name).split())
    if not name or len(name) > LONGEST_NAME:
        raise InputError(f"name: 1 to {LONGEST_NAME} characters")
    if shared and not may_share(by):
        raise NotPermitted("sharing a view needs the group reviewer, operator or lead")
    data = filters_of(query, "query").data
    User.objects.select_for_update(of=("self",)).only("pk").get(pk=by.pk)
    known = SavedView.objects.filter(owner=by, name=name).first()
    if known is None and SavedView.objects.filter(owner=by).count() >= MOST_VIEWS:
        raise InputError(f"name: there are {MOST_VIEWS} views already; delete one first")
    view = known or SavedView(owner=by, name=name)
    view.query, view.shared = data.urlencode(), shared
    view.save()
    return view


def delete_view(view_id: UUID, *, by: User) -> None:
    """Forget a view. Raises SavedView.DoesNotExist where it is not theirs: others' views are not for them to know."""
    deleted, _ = SavedView.objects.filter(pk=view_id, owner=by).delete()
    if not deleted:
        raise SavedView.DoesNotExist


def shortcuts_of(user: User) -> bool:
    """Whether single keys move in the lists for this person."""
    return Preference.objects.filter(user=user, shortcuts=False).first() is None


def set_shortcuts(on: bool, *, by: User) -> None:
    """Switch the single keys on or off for a person."""
    Preference.objects.update_or_create(user=by, defaults={"shortcuts": on})
