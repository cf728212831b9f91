"""Cleaning up after a drill: what it made up expires as real evidence does, and then goes altogether."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import ForeignObjectRel, Q
from django.utils import timezone

from recovery.models import Action, Proposal
from recovery.retention import due
from recovery.retention.erase import Gone
from recovery.retention.expire import expire
from verdicts.choices import Origin
from verdicts.keeping import OF_ATTEMPTS, Kept
from verdicts.models import Attempt, ListRow, Node, Observation


def expired(attempt_id: UUID) -> Mapping[Kept, Gone]:
    """Have the job of retention take out everything of an attempt that has a time, as when that time were over."""
    days = max(int(settings.INQUEST_KEEP_DAYS[kept.value]) for kept in OF_ATTEMPTS)
    return expire(attempt_id, timezone.now() + timedelta(days=days + 1))


def kept_for_ever() -> list[Kept]:
    """The classes of an attempt's evidence that this site never takes out."""
    return [kept for kept in OF_ATTEMPTS if not due.days_of(kept)]


def why_kept(attempt_id: UUID) -> str:
    """What stands in the way of expiry, in words; empty where nothing does."""
    attempt = Attempt.objects.get(pk=attempt_id)
    if (hold := due.holds_over(attempt).first()) is not None:
        return f"a hold stands over it, to be reviewed on {hold.review_on}"
    if Attempt.objects.filter(due.is_busy(), pk=attempt_id).exists():
        return "it runs, or something is owed to it"
    return ""


def terms(attempt_id: UUID) -> dict[str, datetime]:
    """When each class of an attempt's evidence expires."""
    return {term.kept.value: term.at for term in due.terms_of(Attempt.objects.get(pk=attempt_id))}


def lines_of(attempt_id: UUID, marker: str) -> int:
    """How many lines of its evidence, and texts of its verdicts, are still there."""
    attempt = Attempt.objects.filter(pk=attempt_id, verdicts__body_json__contains=marker)
    reports = Attempt.objects.filter(pk=attempt_id, reports__body__reason__contains=marker)
    return Observation.objects.filter(attempt=attempt_id).count() + attempt.count() + reports.count()


def listed(attempt_id: UUID) -> dict[str, int]:
    """Where an attempt counts that should count nowhere: rows by what they are."""
    counted = {
        "rows of lists": ListRow.objects.filter(attempt=attempt_id).count(),
        "proposals": Proposal.objects.filter(attempt=attempt_id).count(),
        "actions": Action.objects.filter(proposal__attempt=attempt_id).count(),
    }
    for relation in _relations():
        name = relation.related_model._meta.model_name  # noqa: SLF001
        if name in ("anomaly", "exclusion", "delivery"):
            rows = relation.related_model._default_manager.filter(  # noqa: SLF001
                **{relation.field.name: attempt_id}
            )
            counted[str(relation.related_model._meta.verbose_name_plural)] = rows.count()  # noqa: SLF001
    return {what: number for what, number in counted.items() if number}


def remove(attempt_id: UUID, node: str = "") -> None:
    """Remove an attempt that a drill made up, with everything of it and its node. The ledger keeps that it was."""
    with transaction.atomic():
        attempt = Attempt.objects.select_for_update(of=("self",)).filter(pk=attempt_id).first()
        if attempt is not None:
            if attempt.origin != Origin.DRILL:
                raise ValueError("only what a drill made up is removed")
            names = {node, *attempt.nodes.values_list("name", flat=True)} - {""}
            with connection.cursor() as cursor:
                # The tables that are written once let go only to who says so.
                cursor.execute("SET LOCAL inquest.erase = 'on'")
            attempt.delete()
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL inquest.erase = 'off'")
            unused = Q(attempts__isnull=True, verdicts__isnull=True)
            Node.objects.filter(unused, cluster=attempt.cluster_id, name__in=names).delete()


def remove_leftovers() -> int:
    """Remove what drills made up that could not end; says how many."""
    found = list(Attempt.objects.filter(origin=Origin.DRILL.value).values_list("pk", flat=True))
    for pk in found:
        remove(pk)
    return len(found)


def left(attempt_id: UUID, node: str) -> dict[str, int]:
    """What is left of an attempt in the database: rows by table. The ledger's entries stay and are none of it."""
    counted = {
        "attempts": Attempt.objects.filter(pk=attempt_id).count(),
        "nodes": Node.objects.filter(name=node).count() if node else 0,
    }
    for relation in _relations():
        rows = relation.related_model._default_manager.filter(**{relation.field.name: attempt_id})  # noqa: SLF001
        counted[str(relation.related_model._meta.verbose_name_plural)] = rows.count()  # noqa: SLF001
    return {what: number for what, number in counted.items() if number}


def _relations() -> Iterator[ForeignObjectRel]:
    """Every table that refers to attempts."""
    for relation in Attempt._meta.related_objects:  # noqa: SLF001
        if relation.one_to_many or relation.one_to_one:
            yield relation
