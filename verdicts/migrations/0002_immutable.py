"""Verdicts, their findings and reviews are written once: the database refuses to change them."""

from django.db import migrations

# A verdict may be superseded and nothing else; a review may be replaced and nothing else. Rows go only
# with their attempt, by a session that says so: SET LOCAL inquest.erase = 'on'.
FORWARD = """
CREATE FUNCTION verdicts_refuse_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('inquest.erase', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION '% is kept: a row is not deleted', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE FUNCTION verdicts_verdict_written_once() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted verdicts_verdict := NEW;
BEGIN
    wanted.is_current := OLD.is_current;
    wanted.superseded_at := OLD.superseded_at;
    IF wanted IS DISTINCT FROM OLD OR (NEW.is_current AND NOT OLD.is_current)
       OR (OLD.superseded_at IS NOT NULL AND NEW.superseded_at IS DISTINCT FROM OLD.superseded_at) THEN
        RAISE EXCEPTION 'verdict % is written once: it can be superseded, not changed', OLD.id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION verdicts_review_written_once() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted verdicts_review := NEW;
BEGIN
    wanted.replaced_at := OLD.replaced_at;
    IF wanted IS DISTINCT FROM OLD OR OLD.replaced_at IS NOT NULL THEN
        RAISE EXCEPTION 'review % is written once: it can be replaced, not changed', OLD.id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION verdicts_refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is written once', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER written_once BEFORE UPDATE ON verdicts_verdict
    FOR EACH ROW EXECUTE FUNCTION verdicts_verdict_written_once();
CREATE TRIGGER written_once BEFORE UPDATE ON verdicts_review
    FOR EACH ROW EXECUTE FUNCTION verdicts_review_written_once();
CREATE TRIGGER written_once BEFORE UPDATE ON verdicts_finding
    FOR EACH ROW EXECUTE FUNCTION verdicts_refuse_update();
CREATE TRIGGER kept BEFORE DELETE ON verdicts_verdict FOR EACH ROW EXECUTE FUNCTION verdicts_refuse_delete();
CREATE TRIGGER kept BEFORE DELETE ON verdicts_review FOR EACH ROW EXECUTE FUNCTION verdicts_refuse_delete();
CREATE TRIGGER kept BEFORE DELETE ON verdicts_finding FOR EACH ROW EXECUTE FUNCTION verdicts_refuse_delete();
"""

BACKWARD = """
DROP TRIGGER kept ON verdicts_finding;
DROP TRIGGER kept ON verdicts_review;
DROP TRIGGER kept ON verdicts_verdict;
DROP TRIGGER written_once ON verdicts_finding;
DROP TRIGGER written_once ON verdicts_review;
DROP TRIGGER written_once ON verdicts_verdict;
DROP FUNCTION verdicts_refuse_update();
DROP FUNCTION verdicts_review_written_once();
DROP FUNCTION verdicts_verdict_written_once();
DROP FUNCTION verdicts_refuse_delete();
"""


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
