"""The writers of evidence that is sent, and of reviews; that of what is collected is in `collecting/collected.py`.

Every change of an attempt's evidence takes the attempt's row lock and raises its generation, so that
an attribution can tell whether it saw everything.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models.functions import Now

from rules.attempt import Attempt as GivenAttempt
from rules.attempt import CollectorReport as GivenReport
from rules.attempt import InputError, checked
from rules.case import join_reports
from rules.observation import Observation as GivenObservation
from rules.words import Domain
from verdicts import permissions
from verdicts.choices import Label, Mode, Origin
from verdicts.collecting import observation_rows
from verdicts.collecting.report_rows import report_body, timeless
from verdicts.conclude import LATE_EVIDENCE_DELAY, request_attribution
from verdicts.expired import require_lines
from verdicts.models import (
    Attempt,
    Batch,
    Cluster,
    CollectorReport,
    Discovery,
    Review,
    Verdict,
)
from verdicts.named_rows import cluster_named, nodes_named, set_nodes, workload_named
from verdicts.redaction import clean_text, current_redactor
from verdicts.storable import moment, storable_struct, storable_text

SHORT = 255


class BatchConflict(ValueError):
    """A batch key was used before, for other observations."""


class NotPermitted(PermissionError):
    """The user may not do this; the message says what is missing."""


@dataclass(frozen=True)
class Delivery:
    """What became of a batch. `replayed` says that its key was known and nothing was done."""

    batch: UUID
    received: int
    stored: int
    repeated: int
    cut: int
    replayed: bool


def record_attempt(
    given: GivenAttempt,
    *,
    cluster: Cluster | None = None,
    found_by: Discovery | None = None,
    origin: Origin = Origin.OWN,
) -> tuple[Attempt, bool]:
    """Store an attempt, or add what is new to the one with the same key; say whether it was made.

    Fields that are set replace what was known, fields that are not set erase nothing: a scheduler's
    adapter sends the same attempt when it starts and again when it ends. `cluster` is its cluster's row where the
    caller has it; `found_by` and `origin` are noted where it is made. Raises InputError.
    """
    given = fit(given)
    with transaction.atomic():
        cluster = cluster or cluster_named(given.cluster)
        key = {
            "cluster": cluster,
            "scheduler": given.scheduler,
            "job_id": given.job_id,
            "submit_time": moment(given.submit_time, given.utc_offset),
            "restart_count": given.restart_count,
        }
        body = given.described()
        attempt = _made(Attempt(**key, body=body, found_by=found_by, origin=origin.value, **_columns(given, cluster)))
        created = attempt is not None
        if attempt is None:
            attempt = _locked(**_lookup(key))
            _add_to(attempt, body)
        else:
            attempt.cluster = cluster
            set_nodes(attempt, cluster, given.nodes)
    if given.collectors:
        record_reports(attempt.pk, given.collectors)
    return attempt, created


def _made(fresh: Attempt) -> Attempt | None:
    """The attempt as it is stored, locked until the transaction ends; None where one with its key is there."""
    columns = {
        connection.ops.quote_name(str(field.column)): field.get_db_prep_save(getattr(fresh, field.attname), connection)
        for field in Attempt._meta.concrete_fields  # noqa: SLF001
        if field.name != "created_at"
    }
    made = Attempt.objects.raw(
        f"""
        INSERT INTO verdicts_attempt ({", ".join(columns)}) VALUES ({", ".join(["%s"] * len(columns))})
        ON CONFLICT DO NOTHING RETURNING *
        """,  # noqa: S608 - the table's own names
        list(columns.values()),
    )
    return next(iter(made), None)


def take_back_end(attempt: Attempt, why: str) -> None:
    """Take back an end that was concluded for that reason: the attempt goes on. The caller holds its lock."""
    gone = {"end"} | ({"reason"} if attempt.body.get("reason") == why else set())
    attempt.body = {field: value for field, value in attempt.body.items() if field not in gone}
    attempt.ended_at = None
    attempt.save(update_fields=["body", "ended_at"])
    _evidence_changed(attempt)


def add_observations(attempt_id: UUID, given: Sequence[GivenObservation], *, key: str = "") -> Delivery:
    """Store a batch of observations, in any order and any number of batches.

    An observation that the attempt has already changes nothing. A batch with a known `key` is answered
    with what was done the first time; without a key its content is its key. Beyond the limit of a
    source the rest is refused and counted. Raises BatchConflict, EvidenceExpired, Attempt.DoesNotExist.
    """
    rows = observation_rows.rows_of(Attempt.objects.values_list("body", flat=True).get(pk=attempt_id), given)
    content = hashlib.sha256("".join(sorted(rows)).encode()).hexdigest()
    key = clean_text(storable_text(key)) or content
    if len(key) > SHORT:  # an escape is longer than what it stands for
        key = hashlib.sha256(key.encode()).hexdigest()
    with transaction.atomic():
        attempt = _locked(pk=attempt_id)
        require_lines(attempt)
        known = Batch.objects.filter(attempt=attempt, key=key).first()
        if known is not None:
            if known.digest != content:
                raise BatchConflict(f"batch key {key!r} was used for other observations of this attempt")
            return Delivery(
                known.pk,
                known.received,
                known.stored,
                known.repeated,
                known.cut,
                replayed=True,
            )
        held = set(attempt.observations.filter(digest__in=list(rows)).values_list("digest", flat=True))
        new = [row for digest, row in rows.items() if digest not in held]
        fitting, refused = observation_rows.that_fit(attempt, new)
        observation_rows.insert(attempt.pk, fitting)
        batch = Batch.objects.create(
            attempt=attempt,
            key=key,
            digest=content,
            received=len(given),
            stored=len(fitting),
            repeated=len(given) - len(new),
            cut=sum(refused.values()),
        )
        newly_cut = set(refused) - set(attempt.cut)
        for source, number in refused.items():
            attempt.cut[source] = attempt.cut.get(source, 0) + number
        if refused:
            attempt.save(update_fields=["cut"])
        if fitting or newly_cut:
            _evidence_changed(attempt)
    return Delivery(
        batch.pk,
        batch.received,
        batch.stored,
        batch.repeated,
        batch.cut,
        replayed=False,
    )


def record_reports(attempt_id: UUID, given: Iterable[GivenReport]) -> int:
    """Store collectors' reports and say how many changed something.

    Reports of one collector for one source (one for each file it read) are joined when they come together;
    when they come later they replace what it said earlier. Raises InputError, EvidenceExpired.
    """
    told: dict[tuple[str, str], list[GivenReport]] = {}
    for index, report in enumerate(map(storable_struct, given)):
        if len(report.collector) > SHORT:
            raise InputError(f"reports[{index}].collector: longer than {SHORT} characters")
        told.setdefault((report.source.value, report.collector), []).append(report)
    bodies = {
        place: report_body(reports[0] if len(reports) == 1 else join_reports(reports[0].source, reports))
        for place, reports in told.items()
    }
    with transaction.atomic():
        attempt = _locked(pk=attempt_id)
        require_lines(attempt)
        known = {(row.source, row.collector): row.body for row in attempt.reports.all()}
        changed = {place: body for place, body in bodies.items() if timeless(known.get(place)) != timeless(body)}
        for (source, collector), body in changed.items():
            CollectorReport.objects.update_or_create(
                attempt=attempt,
                source=source,
                collector=collector,
                defaults={"status": body["status"], "body": body, "received_at": Now()},
            )
        if changed:
            _evidence_changed(attempt)
    return len(changed)


@transaction.atomic
def record_review(
    verdict_id: UUID,
    *,
    by: User,
    label: Label,
    actual_domain: Domain | None = None,
    actual_nodes: Sequence[str] = (),
    note: str = "",
) -> Review:
    """Store what a person says of a verdict; a second review of the same person replaces the first.

    Raises NotPermitted, Verdict.DoesNotExist, and InputError when `wrong` does not say what it really
    was or another label does.
    """
    if not permissions.may_review(by):
        raise NotPermitted("reviewing needs the right to review verdicts, which the group reviewer has")
    if label is Label.WRONG and actual_domain is None:
        raise InputError("actual_domain: a review that says wrong names what it really was")
    if label is not Label.WRONG and (actual_domain is not None or actual_nodes):
        raise InputError("actual_domain: only a review that says wrong names another domain or nodes")
    verdict = Verdict.objects.select_for_update(of=("self",)).only("id").get(pk=verdict_id)
    said = {
        "label": label.value,
        "actual_domain": actual_domain.value if actual_domain else "",
        "actual_nodes": sorted({storable_text(name) for name in actual_nodes}),
        "note": storable_text(note),
    }
    standing = Review.objects.filter(verdict=verdict, author=by, replaced_at__isnull=True).first()
    if standing is not None:
        if all(getattr(standing, field) == value for field, value in said.items()):
            return standing
        Review.objects.filter(pk=standing.pk).update(replaced_at=Now())
    return Review.objects.create(verdict=verdict, author=by, **said)


def fit(given: GivenAttempt) -> GivenAttempt:
    """The attempt with storable texts, checked for what the columns can hold. Raises InputError."""
    try:
        given = checked(storable_struct(given), redactor=current_redactor())
    except InputError as error:
        raise InputError(str(error).removeprefix("attempt: ")) from error
    for field in ("cluster", "workload", "account"):
        if len(getattr(given, field)) > SHORT:
            raise InputError(f"{field}: longer than {SHORT} characters")
    for index, name in enumerate(given.nodes):
        if not name or len(name) > SHORT:
            raise InputError(f"nodes[{index}]: a node's name has 1 to {SHORT} characters")
    if given.restart_count > 2**31 - 1:
        raise InputError("restart_count: larger than any scheduler counts")
    return given


def _columns(given: GivenAttempt, cluster: Cluster) -> dict[str, Any]:
    """The columns that repeat the attempt's body for filters and lists."""
    return {
        "workload": workload_named(cluster, given.account, given.workload) if given.workload else None,
        "state": given.state,
        "user": given.user,
        "account": given.account,
        "partition": given.partition,
        "started_at": moment(given.start, given.utc_offset),
        "ended_at": moment(given.end, given.utc_offset),
    }


def _add_to(attempt: Attempt, body: dict[str, Any]) -> None:
    """Add what a later delivery of the same attempt says, if it says anything new."""
    merged = attempt.body | body
    if merged == attempt.body:
        return
    given = msgspec.convert(merged, GivenAttempt)
    attempt.body = merged
    for field, value in _columns(given, attempt.cluster).items():
        setattr(attempt, field, value)
    attempt.save()
    attempt.nodes.set(nodes_named(attempt.cluster, given.nodes))
    _evidence_changed(attempt)


def _lookup(key: dict[str, Any]) -> dict[str, Any]:
    """The attempt's key as a filter: NULL is found by `isnull`."""
    lookup = {field: value for field, value in key.items() if field != "submit_time"}
    if key["submit_time"] is None:
        return lookup | {"submit_time__isnull": True}
    return lookup | {"submit_time": key["submit_time"]}


def _locked(**lookup: Any) -> Attempt:
    return Attempt.objects.select_for_update(of=("self",)).select_related("cluster").get(**lookup)


def _evidence_changed(attempt: Attempt) -> None:
    """Raise the generation, and have an attempt that was asked about before attributed again."""
    attempt.generation += 1
    attempt.save(update_fields=["generation"])
    if attempt.requests.exists() and attempt.lines_expired_at is None:
        request_attribution(attempt.pk, Mode.SLOW, delay=LATE_EVIDENCE_DELAY)
