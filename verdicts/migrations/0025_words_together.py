"""The index for free text has all that lists are narrowed by: rows with several words are found where each is frequent.

Such rows are an intersection within one index, and those of the closed sets of a small one. Where `btree_gin` cannot be
created, or text has no index, all is as it was: those lists are found, slower.
"""

from django.db import migrations, models

TOGETHER = """
DO $$
BEGIN
    IF to_regclass('row_text') IS NOT NULL THEN
        CREATE EXTENSION IF NOT EXISTS btree_gin;
        DROP INDEX row_text;
        CREATE INDEX row_text ON verdicts_listrow USING gin (
            text gin_trgm_ops, tags, nodes, domain, state, cluster, strength_step, coverage, "user", account,
            workload, ruleset, asked, mode, origin
        ) WHERE is_current;
    END IF;
EXCEPTION
    WHEN insufficient_privilege OR undefined_file OR feature_not_supported THEN
        RAISE NOTICE 'btree_gin cannot be created here: lists by several frequent words are found slowly';
END $$;
"""
APART = """
DO $$
BEGIN
    IF to_regclass('row_text') IS NOT NULL THEN
        DROP INDEX row_text;
        CREATE INDEX row_text ON verdicts_listrow USING gin (text gin_trgm_ops) WHERE is_current;
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0024_empty_not_whole")]

    operations = [
        migrations.AddIndex(
            model_name="listrow",
            index=models.Index(
                fields=["domain", "state", "strength_step", "coverage"],
                name="row_together",
                condition=models.Q(("is_current", True)),
            ),
        ),
        migrations.RunSQL(TOGETHER, APART),
    ]
