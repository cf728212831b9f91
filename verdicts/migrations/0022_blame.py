"""Whom the list's standing rows blame, one narrow row for each node and shared element: counted without the list.

The overview names what was blamed again and again. In the list itself, each failure of two weeks would have to be read
for that, most of them without any node.
"""

from importlib import import_module

from django.db import migrations, models

WITH_ORIGIN = import_module("verdicts.migrations.0017_origin")
TALLIED = import_module("verdicts.migrations.0020_week_tally").counted(WITH_ORIGIN.with_origin(WITH_ORIGIN.BEFORE))
ALL_TALLIED = "    PERFORM verdicts_tally_all();\n"
ALL_BLAMED = f"{ALL_TALLIED}    PERFORM verdicts_blame_all();\n"

BLAME = """
CREATE FUNCTION verdicts_blame_anew(listed verdicts_listrow) RETURNS void LANGUAGE sql AS $$
    INSERT INTO verdicts_blame (row, happened_at, state, cluster, kind, name)
    SELECT listed.id, listed.happened_at, listed.state, listed.cluster, 'node', node
    FROM unnest(listed.nodes) AS node
    UNION ALL
    SELECT listed.id, listed.happened_at, listed.state, listed.cluster, 'shared', listed.shared
    WHERE listed.shared <> '';
$$;

CREATE FUNCTION verdicts_blame_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM verdicts_blame WHERE row = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.is_current AND NEW.origin = 'own' THEN
        PERFORM verdicts_blame_anew(NEW);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION verdicts_blame_nobody() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM verdicts_blame;
    RETURN NULL;
END $$;

-- Whoever has written a row is waited for, whoever writes one later waits.
CREATE FUNCTION verdicts_blame_all() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE verdicts_listrow IN SHARE MODE;
    DELETE FROM verdicts_blame;
    PERFORM verdicts_blame_anew(listed) FROM verdicts_listrow AS listed
    WHERE is_current AND origin = 'own' AND (nodes <> '{}' OR shared <> '');
END $$;

CREATE TRIGGER blamed AFTER INSERT ON verdicts_listrow FOR EACH ROW WHEN (
    NEW.is_current AND NEW.origin = 'own' AND (NEW.nodes <> '{}' OR NEW.shared <> '')
) EXECUTE FUNCTION verdicts_blame_row();
CREATE TRIGGER reblamed AFTER UPDATE ON verdicts_listrow FOR EACH ROW WHEN (
    (OLD.is_current, OLD.origin, OLD.happened_at, OLD.state, OLD.cluster, OLD.nodes, OLD.shared)
    IS DISTINCT FROM (NEW.is_current, NEW.origin, NEW.happened_at, NEW.state, NEW.cluster, NEW.nodes, NEW.shared)
) EXECUTE FUNCTION verdicts_blame_row();
CREATE TRIGGER unblamed AFTER DELETE ON verdicts_listrow FOR EACH ROW WHEN (
    OLD.is_current AND OLD.origin = 'own' AND (OLD.nodes <> '{}' OR OLD.shared <> '')
) EXECUTE FUNCTION verdicts_blame_row();
CREATE TRIGGER unlisted AFTER TRUNCATE ON verdicts_listrow
    FOR EACH STATEMENT EXECUTE FUNCTION verdicts_blame_nobody();
"""
UNBLAME = """
DROP TRIGGER unlisted ON verdicts_listrow;
DROP TRIGGER unblamed ON verdicts_listrow;
DROP TRIGGER reblamed ON verdicts_listrow;
DROP TRIGGER blamed ON verdicts_listrow;
DROP FUNCTION verdicts_blame_all();
DROP FUNCTION verdicts_blame_nobody();
DROP FUNCTION verdicts_blame_row();
DROP FUNCTION verdicts_blame_anew(verdicts_listrow);
"""


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0021_named_ports")]

    operations = [
        migrations.CreateModel(
            name="Blame",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("row", models.UUIDField(db_index=True, help_text="Of the list.")),
                ("happened_at", models.DateTimeField()),
                ("state", models.TextField()),
                ("cluster", models.TextField(blank=True)),
                ("kind", models.TextField(help_text="node, or shared: an element that affected nodes share.")),
                ("name", models.TextField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["kind", "happened_at"], include=("state", "cluster", "name"), name="blame_at")
                ],
            },
        ),
        # Triggers before the filling: nothing is listed between the two.
        migrations.RunSQL(BLAME, UNBLAME),
        migrations.RunSQL(
            WITH_ORIGIN.replaced(TALLIED.replace(ALL_TALLIED, ALL_BLAMED)), WITH_ORIGIN.replaced(TALLIED)
        ),
        migrations.RunSQL("SELECT verdicts_blame_all()", migrations.RunSQL.noop),
    ]
