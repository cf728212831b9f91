"""What an address asks of the lists of what expires and of holds, for page and API alike, and what a new hold says."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from django.contrib.auth.models import User
from django.core.paginator import Page
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.functional import cached_property

from recovery.models import Hold
from recovery.models.retention import STANDING
from recovery.retention import find
from recovery.retention.due import days_of, expires_at, is_busy, is_held, left
from recovery.retention.holds import Scope
from recovery.review.guard_forms import OfCluster
from rules.attempt import InputError
from verdicts.keeping import OF_ATTEMPTS, TITLES, Kept
from verdicts.listing.form import id_of
from verdicts.listing.paging import PAGE_SIZE, CappedPaginator
from verdicts.models import Attempt, Cluster
from verdicts.storable import storable_text


class ExpiryForm(OfCluster):
    """Attempts of which a class is still there, what is due first at the top."""

    labels = {**OfCluster.labels, "kept": "Class", "show": "Show", "workload": "Workload", "job": "Job"}
    labels |= {"after": "Expires from", "before": "Expires before"}
    choices = {
        "kept": [(kept.value, TITLES[kept]) for kept in OF_ATTEMPTS],
        "show": [
            ("", "all"),
            ("due", "due now"),
            ("held", "held"),
            ("busy", "run, are owed a verdict, or have something open"),
        ],
    }
    texts = ("workload", "job")
    times = ("after", "before")

    @property
    def kept(self) -> Kept:
        """The class that is asked for."""
        return Kept(self.value("kept")) if self.value("kept") and not self.errors else Kept.LINES

    @property
    def narrows(self) -> bool:
        """Whether anything but a class is asked for."""
        return super().narrows or bool(self.value("show"))

    def rows(self) -> QuerySet[Any]:
        """The attempts asked for, each with `expires` (None for ever), `held` and `busy`."""
        rows = left(self.kept)
        if self.errors:
            return rows.none()
        days = timedelta(days=days_of(self.kept))
        show = self.value("show")
        if not days and (show == "due" or self.value("after") or self.value("before")):
            return rows.none()
        if show == "due":
            rows = rows.filter(since__lt=timezone.now() - days)
        elif show == "held":
            rows = rows.filter(is_held())
        elif show == "busy":
            rows = rows.filter(is_busy())
        if cluster := self.value("cluster"):
            rows = rows.filter(cluster__name=cluster)
        if workload := self.value("workload"):
            rows = rows.filter(workload__name=workload)
        if job := self.value("job"):
            rows = rows.filter(job_id=job)
        if (after := self.moment("after")) is not None:
            rows = rows.filter(since__gte=after - days)
        if (before := self.moment("before")) is not None:
            rows = rows.filter(since__lt=before - days)
        rows = rows.annotate(held=is_held(), busy=is_busy(), expires=expires_at(self.kept))
        return rows.select_related("cluster", "workload").defer("body").order_by("since", "id")


class ExpiryPages(CappedPaginator):
    """The same list in pages, counted the way its index goes."""

    @cached_property
    def seen(self) -> int:
        """The rows there are, or one more than the cap."""
        return find.seen(cast("QuerySet[Any]", self.object_list))


def page_of(rows: QuerySet[Any], number: str | None) -> Page[Any]:
    """The page that an address asks for; a number that is none or too large gives the nearest page."""
    return ExpiryPages(rows, PAGE_SIZE).get_page(number)


class HoldsForm(OfCluster):
    """Holds: by default those that stand, what somebody should have looked at first."""

    labels = {**OfCluster.labels, "show": "Show", "owner": "Owner", "attempt": "Attempt"}
    choices = {"show": [("standing", "those that stand"), ("overdue", "overdue for review"), ("all", "all")]}
    texts = ("owner", "attempt")

    @property
    def errors(self) -> dict[str, str]:
        """What in the address cannot be understood."""
        wrong = dict(super().errors)
        if (attempt := self.value("attempt")) and id_of(attempt) is None:
            wrong["attempt"] = f"Attempt: “{attempt}” is no attempt's id."
        return wrong

    def rows(self) -> QuerySet[Hold]:
        """The holds asked for; none where the address cannot be understood."""
        rows = find.holds()
        if self.errors:
            return rows.none()
        show = self.value("show") or "standing"
        if show == "standing":
            rows = rows.filter(STANDING)
        elif show == "overdue":
            rows = find.overdue()
        if owner := self.value("owner"):
            rows = rows.filter(owner__username=owner)
        if attempt := self.value("attempt"):
            rows = rows.filter(attempt=id_of(attempt))
        if cluster := self.value("cluster"):
            rows = rows.filter(cluster__name=cluster)
        if show == "all":
            return rows.order_by("-placed_at", "id")
        return rows.order_by("review_on", "placed_at", "id")


# --- What is typed ------------------------------------------------------------------------------


def scope_of(said: dict[str, str]) -> Scope:
    """What a hold shall be over, out of what was typed. Raises InputError that names the field."""
    if attempt := said.get("attempt", "").strip():
        return Scope(attempt=_attempt(attempt))
    cluster, workload = said.get("cluster", "").strip(), said.get("workload", "").strip()
    if workload:
        found = list(find.workloads_named(storable_text(workload), storable_text(cluster))[:2])
        if not found:
            raise InputError(f"workload: there is none of the name {workload!r}")
        if len(found) > 1:
            raise InputError(f"workload: there are several of the name {workload!r}: say the cluster too, or its id")
        return Scope(workload=found[0])
    if cluster:
        row = Cluster.objects.filter(name=storable_text(cluster)).first()
        if row is None:
            raise InputError(f"cluster: there is none of the name {cluster!r}")
        return Scope(cluster=row, after=_moment("after", said), before=_moment("before", said))
    raise InputError("scope: name an attempt, a workload, or a cluster with a time range")


def _attempt(text: str) -> Attempt:
    pk: UUID | None = id_of(text)
    found = Attempt.objects.filter(pk=pk).first() if pk is not None else None
    if found is None:
        raise InputError("attempt: there is none of this id; an attempt's page has it in its address")
    return found


def _moment(field: str, said: dict[str, str]) -> datetime | None:
    form = _Moments(QueryDict.fromkeys([field], said.get(field, "").strip()))
    if said.get(field, "").strip() and form.moment(field) is None:
        raise InputError(f"{field}: not a time; give 2026-05-18T16:00, which is UTC")
    return form.moment(field)


class _Moments(OfCluster):
    """Reads times as every list does."""

    times = ("after", "before")


def owner_of(name: str) -> User:
    """The account that answers for a hold. Raises InputError."""
    found = User.objects.filter(username=storable_text(name.strip())).first()
    if found is None:
        raise InputError(f"owner: there is no account of the name {name.strip()!r}")
    return found


def day_of(text: str) -> date:
    """The day of the next review. Raises InputError."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise InputError("review_on: a day, such as 2027-01-31") from None


def default_review() -> date:
    """What a new hold offers: a quarter of a year."""
    return (timezone.now().astimezone(UTC) + timedelta(days=91)).date()
