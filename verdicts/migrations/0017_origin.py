"""Where an attempt comes from: figures leave out what is not this site's own, and no list has the attempts of drills.

Adding the columns rewrites no table; the four indexes that carry the closed sets are made anew, with the origin.
"""

from importlib import import_module

from django.db import migrations, models

BEFORE = import_module("verdicts.migrations.0006_list_rows").FUNCTIONS
CHANGES = (
    ("nodes, tags, shared, text\n)", "nodes, tags, shared, text, origin\n)", 2),
    ("found.titles\n    ), 8000))\n", "found.titles\n    ), 8000)),\n    attempt.origin\n", 2),
    ("WHERE attempt.id = ANY (ids)", "WHERE attempt.id = ANY (ids) AND attempt.origin <> 'drill'", 1),
    (") AS asked ON true;", ") AS asked ON true WHERE attempt.origin <> 'drill';", 1),
)
#: What replacing a function takes from it: see 0014.
PLANNED_ONCE = (
    "ALTER FUNCTION verdicts_list_rows(uuid[]) SET plan_cache_mode = force_generic_plan SET enable_seqscan = off;"
)
MARK_IMPORTED = """
UPDATE verdicts_attempt SET origin = 'imported' FROM verdicts_importedrecord AS told WHERE told.attempt_id = id;
UPDATE verdicts_listrow AS listed SET origin = 'imported'
FROM verdicts_importedrecord AS told WHERE told.attempt_id = listed.attempt_id;
"""


def replaced(functions: str) -> str:
    """The functions in place of those that are there."""
    return functions.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION") + PLANNED_ONCE


def with_origin(functions: str) -> str:
    """The functions that write list rows, with the origin of each."""
    for old, new, times in CHANGES:
        if functions.count(old) != times:
            raise ValueError(f"0006 has not {old!r} as often as this was written for")
        functions = functions.replace(old, new)
    return functions


CARRIED = ("domain", "state", "cluster", "strength_step", "coverage", "reviewed", "asked", "origin")
NEWEST = (
    models.OrderBy(models.F("happened_at"), descending=True),
    models.OrderBy(models.F("id"), descending=True),
)


def walk(field: str) -> models.Index:
    """As `verdicts.models.listing` makes it."""
    return models.Index(
        models.F(field),
        *NEWEST,
        condition=models.Q(("is_current", True)),
        include=tuple(name for name in CARRIED if name != field),
        name=f"row_{field}",
    )


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0016_imported")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="origin",
            field=models.CharField(db_default="own", default="own", editable=False, max_length=16),
        ),
        migrations.AddField(
            model_name="listrow",
            name="origin",
            field=models.TextField(db_default="own", help_text="Whether it is this site's own, or imported."),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(("origin__in", ["own", "imported", "drill"])), name="attempt_origin_word"
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("origin", "own"), _negated=True), fields=["origin"], name="attempt_foreign"
            ),
        ),
        migrations.RemoveIndex(model_name="listrow", name="row_at"),
        migrations.AddIndex(
            model_name="listrow", index=models.Index(*NEWEST, include=("is_current", *CARRIED), name="row_at")
        ),
        *(
            operation
            for field in ("domain", "state", "cluster")
            for operation in (
                migrations.RemoveIndex(model_name="listrow", name=f"row_{field}"),
                migrations.AddIndex(model_name="listrow", index=walk(field)),
            )
        ),
        migrations.RunSQL(replaced(with_origin(BEFORE)), replaced(BEFORE)),
        # The last: a table with changed rows cannot be altered within the same transaction.
        migrations.RunSQL(MARK_IMPORTED, migrations.RunSQL.noop),
    ]
