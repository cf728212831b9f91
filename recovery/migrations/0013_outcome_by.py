"""Who said what came of a proposal is said with it, and so may be written when the proposal is frozen."""

from django.db import migrations

#: The function as it stands, with one line more; other migrations changed it before.
CHANGE = """
DO $do$
DECLARE
    told text := pg_get_functiondef('recovery_proposal_moves'::regproc);
    before text := 'BEFORE';
BEGIN
    IF position(before IN told) = 0 THEN
        RAISE EXCEPTION 'recovery_proposal_moves() is not what this migration knows';
    END IF;
    EXECUTE replace(told, before, 'AFTER');
END $do$;
"""
AS_IT_WAS = "wanted.outcome_at := OLD.outcome_at;"
WITH_WHO = "wanted.outcome_at := OLD.outcome_at; wanted.outcome_by_id := OLD.outcome_by_id;"


def change(before, after):
    return CHANGE.replace("BEFORE", before).replace("AFTER", after)


#: Who said what came of a proposal stood in the ledger alone.
BY = """
UPDATE recovery_proposal AS told SET outcome_by_id = person.id
FROM (
    SELECT DISTINCT ON (subject) subject, actor FROM recovery_ledgerentry
    WHERE kind = 'outcome.given' AND subject_kind = 'proposal' ORDER BY subject, at DESC
) AS entry JOIN auth_user AS person ON entry.actor = 'user:' || person.username
WHERE told.id::text = entry.subject AND told.outcome <> '';
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
"""


class Migration(migrations.Migration):
    dependencies = [("recovery", "0012_drill")]

    operations = [
        migrations.RunSQL(change(AS_IT_WAS, WITH_WHO), change(WITH_WHO, AS_IT_WAS)),
        migrations.RunSQL(BY, migrations.RunSQL.noop),
    ]
