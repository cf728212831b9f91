"""Observations as rows: what the columns hold, for how many there is room, and how they get in."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection
from django.db.models import Count, Sum
from django.db.models.functions import Length

from rules.observation import MAX_BODY
from rules.observation import Observation as GivenObservation
from rules.words import Source
from verdicts import limits
from verdicts.logs.order import place_of, window_of
from verdicts.models import Attempt
from verdicts.redaction import clean_fields, clean_text
from verdicts.storable import storable, storable_text

SHORT = 255
#: Rows that go to the database at once.
BATCH = 2000


class Row(msgspec.Struct, frozen=True):
    """An observation as `models.Observation` has it."""

    digest: str
    source: str
    collector: str
    node: str
    rank: int | None
    ref: str
    timestamp: str | None
    observed_timestamp: str | None
    body: str
    attributes: dict[str, Any]
    count: int
    file: str
    line: int
    clock: int
    micros: int


def rows_of(attempt_body: Mapping[str, Any], given: Iterable[GivenObservation]) -> dict[str, Row]:
    """The rows of observations by their digest, each once."""
    near, zone = window_of(attempt_body)
    return {row.digest: row for row in (_row(item, near, zone) for item in given)}


def _row(given: GivenObservation, near: int | None, zone: str) -> Row:
    """The row of an observation; its digest is taken after escaping, so that a repeat finds it."""
    # An escape is longer than what it stands for; a name made of control characters is cut, not refused.
    given = msgspec.structs.replace(
        given,
        body=clean_text(storable_text(given.body))[:MAX_BODY],
        ref=clean_text(storable_text(given.ref))[:1024],
        node=storable_text(given.node)[:SHORT],
        collector=storable_text(given.collector)[:SHORT],
        timestamp=storable_text(given.timestamp)[:64] if given.timestamp else None,
        observed_timestamp=storable_text(given.observed_timestamp)[:64] if given.observed_timestamp else None,
        attributes=clean_fields(storable(given.attributes)),
    )
    place = place_of(ref=given.ref, timestamp=given.timestamp, text=given.body, near=near, zone=zone)
    return Row(
        digest=given.digest(),
        source=given.source.value,
        collector=given.collector,
        node=given.node,
        rank=given.rank,
        ref=given.ref,
        timestamp=given.timestamp,
        observed_timestamp=given.observed_timestamp,
        body=given.body,
        attributes=given.attributes,
        count=given.count,
        file=place.file,
        line=place.line,
        clock=place.clock,
        micros=place.micros,
    )


def that_fit(attempt: Attempt, rows: Sequence[Row], *, empty: bool = False) -> tuple[list[Row], Counter[str]]:
    """Those for which their source has room, and how many of each source have none.

    The limits are per source: a flood in one source must not crowd out the witness in another. `empty` says that the
    store has nothing of these sources yet.
    """
    sources = {row.source for row in rows}
    room = {source: [limits.max_observations(), limits.max_observation_characters()] for source in sources}
    if rows and not empty:
        held = attempt.observations.filter(source__in=sources).order_by().values_list("source")
        for source, number, size in held.annotate(number=Count("id"), size=Sum(Length("body"))):
            room[source][0] -= number
            room[source][1] -= size
    fitting, refused = [], Counter[str]()
    for row in rows:
        left = room[row.source]
        if left[0] < 1 or left[1] < len(row.body):
            refused[Source(row.source).value] += 1
            continue
        left[0] -= 1
        left[1] -= len(row.body)
        fitting.append(row)
    return fitting, refused


def insert(attempt_id: UUID, rows: Sequence[Row]) -> None:
    """Insert rows; one whose digest the attempt has already is left out.

    As one JSON document: to make each row by the ORM takes several times as long as PostgreSQL needs for it.
    """
    for start in range(0, len(rows), BATCH):
        with connection.cursor() as cursor:
            cursor.execute(
                """
                INSERT INTO verdicts_observation (
                    attempt_id, digest, source, collector, node, rank, ref, "timestamp", observed_timestamp, body,
                    attributes, count, file, line, clock, micros)
                SELECT %s, given.* FROM json_to_recordset(%s) AS given (
                    digest text, source text, collector text, node text, rank integer, ref text, "timestamp" text,
                    observed_timestamp text, body text, attributes jsonb, count bigint, file text, line bigint,
                    clock smallint, micros bigint)
                ON CONFLICT DO NOTHING
                """,
                [attempt_id, msgspec.json.encode(rows[start : start + BATCH]).decode()],
            )
