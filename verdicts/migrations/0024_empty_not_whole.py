"""A source that is never empty and was (the job's own log, the system log, the scheduler's record) was not seen whole.

The page of a verdict and the engine say so already; the list's facet counted it as seen. The functions that write rows
are changed where they are, whatever else was changed in them before.
"""

from django.db import migrations

SEEN = "report ->> 'status' NOT IN ('ok', 'empty')"
SEEN_WHOLE = f"""({SEEN} OR (report ->> 'status' = 'empty'
          AND report ->> 'source' IN ('applog', 'syslog', 'scheduler', 'kubernetes')))"""
FAILED = "report ->> 'status' IN ('partial', 'error')"
FAILED_OR_EMPTY = "report ->> 'status' IN ('partial', 'error', 'empty')"

#: Both functions have each text once. Rows are written anew only if one of them can be another.
CHANGE = """
DO $do$
DECLARE
    written regprocedure;
    text text;
    pair text[];
BEGIN
    FOREACH written IN ARRAY ARRAY['verdicts_list_rows(uuid[])', 'verdicts_list_all()']::regprocedure[] LOOP
        text := pg_get_functiondef(written);
        FOREACH pair SLICE 1 IN ARRAY ARRAY[[$old${seen}$old$, $new${seen_whole}$new$],
                                            [$old${failed}$old$, $new${failed_or_empty}$new$]] LOOP
            IF strpos(text, pair[1]) = 0 THEN
                RAISE EXCEPTION '% is not as this was written for', written;
            END IF;
            text := replace(text, pair[1], pair[2]);
        END LOOP;
        EXECUTE text;
    END LOOP;
    IF EXISTS (
        SELECT FROM verdicts_verdict AS verdict, jsonb_array_elements(verdict.coverage) AS report
        WHERE report ->> 'status' = 'empty'
              AND report ->> 'source' IN ('applog', 'syslog', 'scheduler', 'kubernetes')
    ) THEN
        PERFORM verdicts_list_all();
    END IF;
END $do$
"""


def change(*pairs: str) -> str:
    """The statement that puts the second text of each pair in place of the first."""
    seen, seen_whole, failed, failed_or_empty = pairs
    return CHANGE.format(seen=seen, seen_whole=seen_whole, failed=failed, failed_or_empty=failed_or_empty)


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0023_port_times")]

    operations = [
        migrations.RunSQL(
            change(SEEN, SEEN_WHOLE, FAILED, FAILED_OR_EMPTY), change(SEEN_WHOLE, SEEN, FAILED_OR_EMPTY, FAILED)
        )
    ]
