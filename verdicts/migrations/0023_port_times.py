"""Ports beside what else is blamed, and when what a named port belongs to happened: found without their verdicts."""

from importlib import import_module

import django.db.models.functions.datetime
from django.db import migrations, models

BEFORE = import_module("verdicts.migrations.0022_blame")

TIMED = """
CREATE FUNCTION verdicts_port_time() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.happened_at := (SELECT happened_at FROM verdicts_verdict WHERE id = NEW.verdict_id);
    RETURN NEW;
END $$;
CREATE TRIGGER timed BEFORE INSERT ON verdicts_namedport FOR EACH ROW EXECUTE FUNCTION verdicts_port_time();
"""
UNTIMED = """
DROP TRIGGER timed ON verdicts_namedport;
DROP FUNCTION verdicts_port_time();
"""

# A verdict's ports are written after its row: that is blamed anew then, as it is when it changes.
PORTS = """
CREATE OR REPLACE FUNCTION verdicts_blame_anew(listed verdicts_listrow) RETURNS void LANGUAGE sql AS $$
    INSERT INTO verdicts_blame (row, happened_at, state, cluster, kind, name, port)
    SELECT listed.id, listed.happened_at, listed.state, listed.cluster, 'node', node, ''
    FROM unnest(listed.nodes) AS node
    UNION ALL
    SELECT listed.id, listed.happened_at, listed.state, listed.cluster, 'shared', listed.shared, ''
    WHERE listed.shared <> ''
    UNION ALL
    SELECT DISTINCT listed.id, listed.happened_at, listed.state, listed.cluster, 'port_of_' || "of", owner, port
    FROM verdicts_namedport WHERE verdict_id = listed.verdict_id AND status IN ('cause', 'candidate');
$$;

CREATE OR REPLACE FUNCTION verdicts_blame_all() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE verdicts_listrow IN SHARE MODE;
    DELETE FROM verdicts_blame;
    PERFORM verdicts_blame_anew(listed) FROM verdicts_listrow AS listed
    WHERE is_current AND origin = 'own' AND (
        nodes <> '{}' OR shared <> '' OR verdict_id IN (SELECT verdict_id FROM verdicts_namedport)
    );
END $$;

CREATE FUNCTION verdicts_blame_ports() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM verdicts_blame WHERE row IN (SELECT verdict_id FROM named);
    PERFORM verdicts_blame_anew(listed) FROM verdicts_listrow AS listed
    WHERE id IN (SELECT verdict_id FROM named) AND is_current AND origin = 'own';
    RETURN NULL;
END $$;

CREATE TRIGGER blamed AFTER INSERT ON verdicts_namedport REFERENCING NEW TABLE AS named
    FOR EACH STATEMENT EXECUTE FUNCTION verdicts_blame_ports();
-- A row that names no node may blame a port.
DROP TRIGGER blamed ON verdicts_listrow;
DROP TRIGGER unblamed ON verdicts_listrow;
CREATE TRIGGER blamed AFTER INSERT ON verdicts_listrow
    FOR EACH ROW WHEN (NEW.is_current AND NEW.origin = 'own' AND NEW.verdict_id IS NOT NULL)
    EXECUTE FUNCTION verdicts_blame_row();
CREATE TRIGGER unblamed AFTER DELETE ON verdicts_listrow
    FOR EACH ROW WHEN (OLD.is_current AND OLD.origin = 'own' AND OLD.verdict_id IS NOT NULL)
    EXECUTE FUNCTION verdicts_blame_row();
"""
NO_PORTS = f"""
DROP TRIGGER blamed ON verdicts_namedport;
DROP FUNCTION verdicts_blame_ports();
{BEFORE.UNBLAME}
{BEFORE.BLAME}
"""
FILLED = """
UPDATE verdicts_namedport AS named SET happened_at = verdict.happened_at
FROM verdicts_verdict AS verdict WHERE verdict.id = named.verdict_id;
SELECT verdicts_blame_all();
"""


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0022_blame")]

    operations = [
        migrations.AddField(
            model_name="namedport",
            name="happened_at",
            field=models.DateTimeField(
                db_default=django.db.models.functions.datetime.Now(),
                editable=False,
                help_text="The verdict's; the database copies it.",
            ),
        ),
        migrations.AddIndex(model_name="namedport", index=models.Index(fields=["happened_at"], name="port_at")),
        migrations.AddField(
            model_name="blame", name="port", field=models.TextField(blank=True, db_default="", help_text="Of name.")
        ),
        migrations.AlterField(
            model_name="blame",
            name="kind",
            field=models.TextField(
                help_text="node; shared: an element that affected nodes share; port_of_switch, port_of_node."
            ),
        ),
        migrations.RunSQL(TIMED, UNTIMED),
        migrations.RunSQL(PORTS, NO_PORTS),
        migrations.RunSQL(FILLED, migrations.RunSQL.noop),
    ]
