"""The ledger is appended to and nothing else, and the database itself chains what is appended."""

from django.db import migrations, models

# Nobody changes, deletes or truncates, whoever they are: these triggers fire for owners, superusers and replicas.
# Links are made by the trigger alone. It fires when a transaction commits and takes the chain's lock as the very
# last thing: what a row of `recovery_ledgerturn` queues fires after everything else that was deferred (foreign keys,
# which may wait for other transactions' rows), so that who has the lock waits for nobody.
FORWARD = """
CREATE UNLOGGED TABLE recovery_ledgerturn (entry uuid PRIMARY KEY);
COMMENT ON TABLE recovery_ledgerturn IS 'Entries of a transaction that is committing; always empty from outside.';

CREATE FUNCTION recovery_ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: the ledger is appended to and nothing else', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION recovery_ledger_entry_is_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    told jsonb := NEW.body_json::jsonb;
BEGIN
    IF NEW.body_sha256 IS DISTINCT FROM encode(sha256(convert_to(NEW.body_json, 'UTF8')), 'hex')
       OR NEW.body IS DISTINCT FROM told
       OR told ->> 'id' IS DISTINCT FROM NEW.id::text
       OR told ->> 'kind' IS DISTINCT FROM NEW.kind
       OR (told ->> 'at')::timestamptz IS DISTINCT FROM NEW.at
       OR told ->> 'actor' IS DISTINCT FROM NEW.actor
       OR told -> 'subject' ->> 'kind' IS DISTINCT FROM NEW.subject_kind
       OR told -> 'subject' ->> 'id' IS DISTINCT FROM NEW.subject
       OR told ->> 'attempt' IS DISTINCT FROM NEW.attempt::text THEN
        RAISE EXCEPTION 'entry % is refused: its columns, its text and its hash do not agree', NEW.id
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION recovery_ledger_content_is_of_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.erased_at IS NOT NULL OR NOT EXISTS (
        SELECT FROM recovery_ledgerentry WHERE id = NEW.entry_id AND body -> 'erasable' ->> NEW.field
            = encode(sha256(convert_to(NEW.salt || E'\\n' || NEW.field || E'\\n' || NEW.text, 'UTF8')), 'hex')
    ) THEN
        RAISE EXCEPTION 'content % of entry % is refused: the entry has not its hash', NEW.field, NEW.entry_id
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION recovery_ledger_content_erased_only() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted recovery_ledgercontent := OLD;
BEGIN
    wanted.text := '';
    wanted.salt := '';
    wanted.erased_at := NEW.erased_at;
    IF OLD.erased_at IS NOT NULL OR NEW.erased_at IS NULL OR NEW IS DISTINCT FROM wanted THEN
        RAISE EXCEPTION 'content % of entry % can be erased, not changed', OLD.field, OLD.entry_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION recovery_ledger_queue() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO recovery_ledgerturn (entry) VALUES (NEW.id);
    RETURN NULL;
END $$;

CREATE FUNCTION recovery_ledger_chain() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    digest text;
    last_number bigint;
    last_hash text;
BEGIN
    PERFORM pg_advisory_xact_lock(715025, 0);
    -- Under the lock: what the one before us committed is seen by each new statement.
    SELECT number, hash INTO last_number, last_hash FROM recovery_ledgerlink ORDER BY number DESC LIMIT 1;
    IF NOT FOUND THEN
        last_number := 0;
        last_hash := repeat('0', 64);
    END IF;
    SELECT encode(sha256(convert_to(body_json, 'UTF8')), 'hex') INTO STRICT digest
        FROM recovery_ledgerentry WHERE id = NEW.entry;
    INSERT INTO recovery_ledgerlink (number, entry_id, previous, hash) VALUES (
        last_number + 1, NEW.entry, last_hash,
        encode(sha256(convert_to(
            concat_ws(E'\\n', 'inquest-ledger-1', last_number + 1, last_hash, digest, ''), 'UTF8'
        )), 'hex')
    );
    DELETE FROM recovery_ledgerturn WHERE entry = NEW.entry;
    RETURN NULL;
END $$;

CREATE FUNCTION recovery_ledger_link_by_chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() < 2 THEN
        RAISE EXCEPTION 'links are made by the database when a transaction commits'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

-- A table of the same name in another schema, a temporary one above all, must not be taken for ours.
DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['refuse', 'entry_is_whole', 'content_is_of_entry', 'content_erased_only', 'queue',
                                 'chain', 'link_by_chain'] LOOP
        EXECUTE format('ALTER FUNCTION recovery_ledger_%s() SET search_path = pg_catalog, %I, pg_temp',
                       named, current_schema());
    END LOOP;
END $$;

CREATE TRIGGER entry_is_whole BEFORE INSERT ON recovery_ledgerentry
    FOR EACH ROW EXECUTE FUNCTION recovery_ledger_entry_is_whole();
CREATE TRIGGER content_is_of_entry BEFORE INSERT ON recovery_ledgercontent
    FOR EACH ROW EXECUTE FUNCTION recovery_ledger_content_is_of_entry();
CREATE TRIGGER link_by_chain BEFORE INSERT ON recovery_ledgerlink
    FOR EACH ROW EXECUTE FUNCTION recovery_ledger_link_by_chain();
CREATE CONSTRAINT TRIGGER chained AFTER INSERT ON recovery_ledgerentry DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION recovery_ledger_queue();
CREATE CONSTRAINT TRIGGER chained AFTER INSERT ON recovery_ledgerturn DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION recovery_ledger_chain();

DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['recovery_ledgerentry', 'recovery_ledgerlink', 'recovery_ledgercheckpoint',
                                 'recovery_ledgercontent'] LOOP
        IF named = 'recovery_ledgercontent' THEN
            CREATE TRIGGER appended_only BEFORE DELETE ON recovery_ledgercontent
                FOR EACH ROW EXECUTE FUNCTION recovery_ledger_refuse();
            CREATE TRIGGER erased_only BEFORE UPDATE ON recovery_ledgercontent
                FOR EACH ROW EXECUTE FUNCTION recovery_ledger_content_erased_only();
            ALTER TABLE recovery_ledgercontent ENABLE ALWAYS TRIGGER erased_only;
        ELSE
            EXECUTE format('CREATE TRIGGER appended_only BEFORE UPDATE OR DELETE ON %I
                FOR EACH ROW EXECUTE FUNCTION recovery_ledger_refuse()', named);
        END IF;
        EXECUTE format('CREATE TRIGGER never_truncated BEFORE TRUNCATE ON %I
            FOR EACH STATEMENT EXECUTE FUNCTION recovery_ledger_refuse()', named);
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER appended_only', named);
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER never_truncated', named);
    END LOOP;
END $$;
"""

BACKWARD = """
DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY['recovery_ledgerentry', 'recovery_ledgerlink', 'recovery_ledgercheckpoint',
                                 'recovery_ledgercontent'] LOOP
        EXECUTE format('DROP TRIGGER appended_only ON %I', named);
        EXECUTE format('DROP TRIGGER never_truncated ON %I', named);
    END LOOP;
END $$;
DROP TRIGGER erased_only ON recovery_ledgercontent;
DROP TABLE recovery_ledgerturn;
DROP TRIGGER chained ON recovery_ledgerentry;
DROP TRIGGER link_by_chain ON recovery_ledgerlink;
DROP TRIGGER content_is_of_entry ON recovery_ledgercontent;
DROP TRIGGER entry_is_whole ON recovery_ledgerentry;
DROP FUNCTION recovery_ledger_link_by_chain();
DROP FUNCTION recovery_ledger_chain();
DROP FUNCTION recovery_ledger_queue();
DROP FUNCTION recovery_ledger_content_erased_only();
DROP FUNCTION recovery_ledger_content_is_of_entry();
DROP FUNCTION recovery_ledger_entry_is_whole();
DROP FUNCTION recovery_ledger_refuse();
"""


class Migration(migrations.Migration):
    dependencies = [("recovery", "0003_progress_feeds")]

    operations = [
        migrations.RenameField("ledgercheckpoint", "key_id", "public_key"),
        migrations.AlterField(
            "ledgercheckpoint",
            "public_key",
            models.CharField(help_text="The Ed25519 key that it is checked with, as hex.", max_length=64),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
