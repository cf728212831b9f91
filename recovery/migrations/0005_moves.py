"""The database holds the moves of proposals, actions and exclusions itself, and keeps what is written once."""

from django.db import migrations

# As `recovery.machine` has it; a test compares the two, pair by pair. A change there needs a migration here.
MOVES = {
    "proposal": {
        "": "observed open approved",
        "open": "approved rejected expired withdrawn vetoed",
        "approved": "acting expired withdrawn vetoed",
        "acting": "closed vetoed",
    },
    "action": {
        "": "intended",
        "intended": "sent already_so abandoned failed",
        "sent": "unknown converged abandoned failed",
        "unknown": "sent converged abandoned failed",
    },
    "exclusion": {"": "standing", "standing": "lifted expired"},
}
PAIRS = ",\n        ".join(
    f"('{kind}', '{before}', '{after}')"
    for kind, moves in MOVES.items()
    for before, afters in moves.items()
    for after in afters.split()
)

FORWARD = """
CREATE FUNCTION recovery_may_move(kind text, state_before text, state_after text)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT (kind, state_before, state_after) IN (
        PAIRS)
$$;

CREATE FUNCTION recovery_refuse_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('inquest.erase', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION '% is kept: a row is not deleted', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE FUNCTION recovery_refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is written once', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION recovery_proposal_moves() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted recovery_proposal;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NOT recovery_may_move('proposal', '', NEW.state) THEN
            RAISE EXCEPTION 'a proposal does not begin as %', NEW.state USING ERRCODE = 'check_violation';
        END IF;
        IF NEW.plan_sha256 IS DISTINCT FROM encode(sha256(convert_to(NEW.plan_json, 'UTF8')), 'hex')
           OR NEW.plan IS DISTINCT FROM NEW.plan_json::jsonb THEN
            RAISE EXCEPTION 'proposal % is refused: its plan, its text and its hash do not agree', NEW.id
                USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.state IS DISTINCT FROM OLD.state AND NOT recovery_may_move('proposal', OLD.state, NEW.state) THEN
        RAISE EXCEPTION 'a proposal that is % cannot become %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    wanted := NEW;
    wanted.state := OLD.state;
    wanted.incident_id := OLD.incident_id;
    wanted.decided_at := OLD.decided_at;
    wanted.ended_at := OLD.ended_at;
    wanted.ended_why := OLD.ended_why;
    wanted.outcome := OLD.outcome;
    wanted.outcome_at := OLD.outcome_at;
    wanted.outcome_why := OLD.outcome_why;
    IF wanted IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'proposal % is frozen: it is decided, not changed', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION recovery_action_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NOT recovery_may_move('action', '', NEW.outcome) THEN
            RAISE EXCEPTION 'an action does not begin as %', NEW.outcome USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.outcome IS DISTINCT FROM OLD.outcome AND NOT recovery_may_move('action', OLD.outcome, NEW.outcome) THEN
        RAISE EXCEPTION 'an action that is % cannot become %', OLD.outcome, NEW.outcome
            USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.id, NEW.proposal_id, NEW.kind, NEW.mark, NEW.cluster_id, NEW.created_at)
       IS DISTINCT FROM (OLD.id, OLD.proposal_id, OLD.kind, OLD.mark, OLD.cluster_id, OLD.created_at) THEN
        RAISE EXCEPTION 'action % stays what it was meant to be', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION recovery_exclusion_moves() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted recovery_exclusion;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NOT recovery_may_move('exclusion', '', NEW.state) THEN
            RAISE EXCEPTION 'an exclusion does not begin as %', NEW.state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.state IS DISTINCT FROM OLD.state AND NOT recovery_may_move('exclusion', OLD.state, NEW.state) THEN
        RAISE EXCEPTION 'an exclusion that is % cannot become %', OLD.state, NEW.state
            USING ERRCODE = 'check_violation';
    END IF;
    wanted := NEW;
    wanted.state := OLD.state;
    wanted.ended_at := OLD.ended_at;
    wanted.ended_why := OLD.ended_why;
    IF OLD.wrong_since IS NULL THEN
        wanted.wrong_since := OLD.wrong_since;
        wanted.wrong_why := OLD.wrong_why;
    END IF;
    IF wanted IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'exclusion % stays what it was: it is ended, not changed', OLD.id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION recovery_policy_version_written_once() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted recovery_policyversion := NEW;
BEGIN
    IF NEW.author_id IS NULL THEN  -- an account that goes takes its name along, not what it wrote
        wanted.author_id := OLD.author_id;
    END IF;
    IF wanted IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'a policy''s version is written once: write the next one' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER moves BEFORE INSERT OR UPDATE ON recovery_proposal
    FOR EACH ROW EXECUTE FUNCTION recovery_proposal_moves();
CREATE TRIGGER moves BEFORE INSERT OR UPDATE ON recovery_action
    FOR EACH ROW EXECUTE FUNCTION recovery_action_moves();
CREATE TRIGGER moves BEFORE INSERT OR UPDATE ON recovery_exclusion
    FOR EACH ROW EXECUTE FUNCTION recovery_exclusion_moves();
CREATE TRIGGER written_once BEFORE UPDATE ON recovery_decision
    FOR EACH ROW EXECUTE FUNCTION recovery_refuse_update();
CREATE TRIGGER written_once BEFORE UPDATE ON recovery_milestone
    FOR EACH ROW EXECUTE FUNCTION recovery_refuse_update();
CREATE TRIGGER written_once BEFORE UPDATE ON recovery_policyversion
    FOR EACH ROW EXECUTE FUNCTION recovery_policy_version_written_once();
""".replace("PAIRS", PAIRS)
KEPT = ("proposal", "decision", "action", "exclusion", "milestone", "policyversion")
FORWARD += "".join(
    f"CREATE TRIGGER kept BEFORE DELETE ON recovery_{table} FOR EACH ROW EXECUTE FUNCTION recovery_refuse_delete();\n"
    for table in KEPT
)

BACKWARD = "".join(f"DROP TRIGGER kept ON recovery_{table};\n" for table in KEPT)
BACKWARD += """
DROP TRIGGER written_once ON recovery_policyversion;
DROP TRIGGER written_once ON recovery_milestone;
DROP TRIGGER written_once ON recovery_decision;
DROP TRIGGER moves ON recovery_exclusion;
DROP TRIGGER moves ON recovery_action;
DROP TRIGGER moves ON recovery_proposal;
DROP FUNCTION recovery_policy_version_written_once();
DROP FUNCTION recovery_exclusion_moves();
DROP FUNCTION recovery_action_moves();
DROP FUNCTION recovery_proposal_moves();
DROP FUNCTION recovery_refuse_update();
DROP FUNCTION recovery_refuse_delete();
DROP FUNCTION recovery_may_move(text, text, text);
"""


class Migration(migrations.Migration):
    dependencies = [("recovery", "0004_ledger")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
