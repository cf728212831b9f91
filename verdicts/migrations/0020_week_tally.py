"""How many attempts ended in a week, kept by the database beside the list that it counts; and a list row found by key.

A row that is listed, changed or taken out adds a line to `verdicts_weektally`; sums of lines are the numbers. No writer
waits for another as it would for a counter in one row, and whoever reads sees the lines of those rows that it sees.
"""

from importlib import import_module

from django.db import migrations, models

WITH_ORIGIN = import_module("verdicts.migrations.0017_origin")
BEFORE = WITH_ORIGIN.with_origin(WITH_ORIGIN.BEFORE)

# The row of an attempt without a verdict has the attempt's id. Looked for by that, it is found by one key; looked for
# by the empty verdict, all attempts that wait were read for each one written, where the plan was made before there
# were figures of the table.
SLOW = """
    DELETE FROM verdicts_listrow AS listed USING verdicts_verdict AS judged
    WHERE listed.attempt_id = ANY (ids) AND listed.verdict_id IS NULL AND judged.attempt_id = listed.attempt_id;
"""
BY_KEY = """
    DELETE FROM verdicts_listrow AS listed
    WHERE listed.id = ANY (ids) AND listed.verdict_id IS NULL
          AND EXISTS (SELECT FROM verdicts_verdict AS judged WHERE judged.attempt_id = listed.id);
"""
# All rows anew: whoever writes some meanwhile comes before or after, and all are counted once at the end.
ALL = """
BEGIN
    DELETE FROM verdicts_listrow;
"""
ALL_COUNTED = """
BEGIN
    LOCK TABLE verdicts_listrow IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM verdicts_listrow;
"""
END_OF_ALL = ") AS asked ON true WHERE attempt.origin <> 'drill';\n"
COUNTED = f"{END_OF_ALL}    PERFORM verdicts_tally_all();\n"

TALLY = """
CREATE FUNCTION verdicts_tally_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.is_current AND OLD.origin = 'own' THEN
        INSERT INTO verdicts_weektally (week, state, domain, number)
        VALUES (date_trunc('week', OLD.happened_at AT TIME ZONE 'UTC'), OLD.state, OLD.domain, -1);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.is_current AND NEW.origin = 'own' THEN
        INSERT INTO verdicts_weektally (week, state, domain, number)
        VALUES (date_trunc('week', NEW.happened_at AT TIME ZONE 'UTC'), NEW.state, NEW.domain, 1);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION verdicts_tally_nothing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM verdicts_weektally;
    RETURN NULL;
END $$;

-- The lock waits for whoever has written a row and its line; who writes later adds a line to what is counted here.
CREATE FUNCTION verdicts_tally_all() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE verdicts_weektally IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM verdicts_weektally;
    INSERT INTO verdicts_weektally (week, state, domain, number)
    SELECT date_trunc('week', happened_at AT TIME ZONE 'UTC'), state, domain, count(*)
    FROM verdicts_listrow WHERE is_current AND origin = 'own' GROUP BY 1, 2, 3;
END $$;

CREATE TRIGGER tallied AFTER INSERT ON verdicts_listrow
    FOR EACH ROW WHEN (NEW.is_current AND NEW.origin = 'own') EXECUTE FUNCTION verdicts_tally_row();
CREATE TRIGGER retallied AFTER UPDATE ON verdicts_listrow FOR EACH ROW WHEN (
    (OLD.is_current, OLD.origin, OLD.happened_at, OLD.state, OLD.domain)
    IS DISTINCT FROM (NEW.is_current, NEW.origin, NEW.happened_at, NEW.state, NEW.domain)
) EXECUTE FUNCTION verdicts_tally_row();
CREATE TRIGGER untallied AFTER DELETE ON verdicts_listrow
    FOR EACH ROW WHEN (OLD.is_current AND OLD.origin = 'own') EXECUTE FUNCTION verdicts_tally_row();
CREATE TRIGGER emptied AFTER TRUNCATE ON verdicts_listrow
    FOR EACH STATEMENT EXECUTE FUNCTION verdicts_tally_nothing();
"""
UNTALLY = """
DROP TRIGGER emptied ON verdicts_listrow;
DROP TRIGGER untallied ON verdicts_listrow;
DROP TRIGGER retallied ON verdicts_listrow;
DROP TRIGGER tallied ON verdicts_listrow;
DROP FUNCTION verdicts_tally_all();
DROP FUNCTION verdicts_tally_nothing();
DROP FUNCTION verdicts_tally_row();
"""


def counted(functions: str) -> str:
    """The functions that write list rows, with the tally made anew where all rows are."""
    for old, new in ((SLOW, BY_KEY), (ALL, ALL_COUNTED), (END_OF_ALL, COUNTED)):
        if functions.count(old) != 1:
            raise ValueError(f"0017 has not {old!r} as often as this was written for")
        functions = functions.replace(old, new)
    return functions


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0019_retention")]

    operations = [
        migrations.CreateModel(
            name="WeekTally",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("week", models.DateField(help_text="Its Monday, UTC.")),
                ("state", models.TextField()),
                ("domain", models.TextField()),
                ("number", models.IntegerField(help_text="To be added to the others of its key.")),
            ],
            options={
                "indexes": [models.Index(fields=["week"], include=("state", "domain", "number"), name="tally_week")],
            },
        ),
        # Triggers before the count: nothing is listed between the two.
        migrations.RunSQL(TALLY, UNTALLY),
        migrations.RunSQL(WITH_ORIGIN.replaced(counted(BEFORE)), WITH_ORIGIN.replaced(BEFORE)),
        migrations.RunSQL("SELECT verdicts_tally_all()", migrations.RunSQL.noop),
    ]
