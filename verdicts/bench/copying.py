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
    """Without triggers: what they would keep is made at the end, and the rows are made to be right."""
    tables = list(tables)
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


@contextmanager
def without_indexes(table: str) -> Iterator[None]:
    """Indexes are made faster at the end than row by row."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s AND indexdef NOT LIKE '%%UNIQUE%%'",
            [table],
        )
        found = cursor.fetchall()
        for name, _ in found:
            cursor.execute(f'DROP INDEX "{name}"')
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET maintenance_work_mem = '512MB'")
            for _, definition in found:
                cursor.execute(definition)
