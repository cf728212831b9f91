"""Writing many rows at once: by COPY, with triggers and indexes out of the way meanwhile."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

_SPECIAL = re.compile(r"[\\\n\t\r]")
_SPELLED = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def text_of(value: Any) -> str:
    """A value as COPY's text format has it."""
    if value is None:
        return r"\N"
    if value is True or value is False:
        return "t" if value else "f"
    text = str(value)
    return _SPECIAL.sub(lambda match: _SPELLED[match[0]], text) if _SPECIAL.search(text) else text


def copy_rows(cursor: Any, table: str, columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Write rows into a table by COPY."""
    names = ", ".join(f'"{name}"' for name in columns)
    with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
        copy.write("".join("\t".join(map(text_of, row)) + "\n" for row in rows))


@contextmanager
def without_triggers(tables: Iterable[str]) -> Iterator[None]:
    """Without triggers, and as a superuser without checking references: the rows are made to be right."""
    tables = list(tables)
    with connection.cursor() as cursor:
        cursor.execute("SELECT CASE WHEN usesuper THEN 'ALL' ELSE 'USER' END FROM pg_user WHERE usename = current_user")
        (which,) = cursor.fetchone()
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER {which}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER {which}")


@contextmanager
def without_indexes(tables: Iterable[str]) -> Iterator[None]:
    """Without indexes and what is unique by them, but for the keys: all at the end is faster than row by row."""
    again: list[str] = []
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(
                "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid), conname,"
                " pg_get_constraintdef(pg_constraint.oid) FROM pg_index"
                " LEFT JOIN pg_constraint ON conindid = indexrelid AND conrelid = indrelid"
                " WHERE indrelid = %s::regclass AND NOT indisprimary",
                [table],
            )
            for index, definition, constraint, rule in cursor.fetchall():
                if constraint:
                    again.append(f'ALTER TABLE {table} ADD CONSTRAINT "{constraint}" {rule}')
                    cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{constraint}"')
                else:
                    again.append(definition)
                    cursor.execute(f"DROP INDEX {index}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET maintenance_work_mem = '512MB'")
            for definition in again:
                cursor.execute(definition)
            cursor.execute("RESET maintenance_work_mem")
