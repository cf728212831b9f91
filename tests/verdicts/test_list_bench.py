"""The made-up store that the console is measured with."""

import json
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from verdicts.bench import fill as filling
from verdicts.models import Attempt, ListRow, Observation, Verdict
from verdicts.overview import tally

pytestmark = pytest.mark.django_db(transaction=True)


def rows() -> set[tuple[Any, ...]]:
    """The list's own table."""
    columns = ("id", "is_current", "domain", "state", "coverage", "reviewed", "asked", "nodes", "text")
    return {(*row[:-2], tuple(row[-2]), row[-1]) for row in ListRow.objects.values_list(*columns)}


def indexes() -> set[str]:
    """The indexes of the list's own table."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'verdicts_listrow'")
        return {definition for (definition,) in cursor.fetchall()}


def test_a_made_up_store_is_listed_as_triggers_would_and_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(filling, "CHUNK", 50)
    kept_indexes = indexes()
    call_command("seed_console", "120", stdout=StringIO())
    assert Attempt.objects.count() == 120
    assert Observation.objects.count() == 600
    assert Verdict.objects.current().count() > 100
    listed = rows()
    assert tally.differences() == tally.misblamed() == []
    with connection.cursor() as cursor:
        cursor.execute("SELECT verdicts_list_rows((SELECT array_agg(id) FROM verdicts_attempt))")
    assert rows() == listed
    assert indexes() == kept_indexes

    said, kept = StringIO(), tmp_path / "figures.json"
    with suppress(SystemExit):  # how fast a test's machine is says nothing
        call_command("bench_console", "--times", "2", "--json", str(kept), stdout=said)
    figures = {row["name"]: row for row in json.loads(kept.read_text())}
    assert figures["overview"]["queries"] <= 12
    assert all(row["queries"] <= 12 for row in figures.values()), figures
    assert "list: text" in said.getvalue()


def test_a_store_that_holds_attempts_is_left_alone() -> None:
    call_command("seed_console", "3", stdout=StringIO())
    with pytest.raises(CommandError, match="make one of its own"):
        call_command("seed_console", "3", stdout=StringIO())
    assert Attempt.objects.count() == 3
