"""The verdict list as one table that the database keeps, saved views, and what a person switched off."""

import uuid

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

# How a row is written: by triggers, by the first filling, and by whoever fills the store by COPY.
ROWS = """
INSERT INTO verdicts_listrow (
    id, attempt_id, verdict_id, is_current, happened_at, created_at, job_id, cluster, workload, "user", account,
    domain, state, strength, strength_step, mode, ruleset, coverage, reviewed, asked, nodes, tags, shared, text
)
SELECT
    COALESCE(verdict.id, attempt.id),
    attempt.id,
    verdict.id,
    COALESCE(verdict.is_current, true),
    COALESCE(verdict.happened_at, attempt.ended_at, attempt.started_at, attempt.created_at),
    COALESCE(verdict.created_at, attempt.created_at),
    attempt.job_id,
    cluster.name,
    COALESCE(workload.name, ''),
    left(attempt."user", 255),
    attempt.account,
    COALESCE(verdict.domain, 'not_analysed'),
    COALESCE(verdict.state, CASE WHEN attempt.ended_at IS NULL THEN 'running' ELSE 'unknown' END),
    COALESCE(verdict.strength, ''),
    CASE verdict.strength WHEN 'strong' THEN 3 WHEN 'moderate' THEN 2 WHEN 'weak' THEN 1 ELSE 0 END,
    COALESCE(verdict.mode, ''),
    COALESCE(ruleset.digest, ''),
    CASE
        WHEN verdict.id IS NULL THEN ''
        WHEN seen.failed THEN 'degraded'
        WHEN seen.missing IS NULL THEN 'whole'
        ELSE 'narrow'
    END,
    said.labels IS NOT NULL,
    CASE
        WHEN NOT COALESCE(verdict.is_current, true) THEN ''
        WHEN asked.open THEN 'open'
        WHEN asked.failed THEN 'failed'
        ELSE ''
    END,
    COALESCE(affected.names, '{}'),
    COALESCE(found.tags, '{}') || COALESCE(seen.missing, '{}') || COALESCE(said.labels, '{}'),
    COALESCE(left(concat_ws(
        ':', verdict.body #>> '{shared_element,kind}', verdict.body #>> '{shared_element,name}'
    ), 255), ''),
    lower(left(concat_ws(
        ' ', '', COALESCE(workload.name, ''), attempt.job_id, attempt."user", verdict.headline,
        array_to_string(affected.names[:64], ' '), found.titles
    ), 8000))
FROM verdicts_attempt AS attempt
JOIN verdicts_cluster AS cluster ON cluster.id = attempt.cluster_id
LEFT JOIN verdicts_workload AS workload ON workload.id = attempt.workload_id
LEFT JOIN verdicts_verdict AS verdict ON verdict.attempt_id = attempt.id
LEFT JOIN verdicts_rulesetversion AS ruleset ON ruleset.id = verdict.ruleset_id
LEFT JOIN LATERAL (
    SELECT array_agg(node.name ORDER BY node.name) AS names
    FROM verdicts_verdict_nodes AS link JOIN verdicts_node AS node ON node.id = link.node_id
    WHERE link.verdict_id = verdict.id
) AS affected ON true
LEFT JOIN LATERAL (
    SELECT
        array_agg(DISTINCT tag) AS tags,
        string_agg(DISTINCT title, ' ') FILTER (WHERE status IN ('cause', 'candidate')) AS titles
    FROM verdicts_finding AS finding, unnest(ARRAY[
        's:' || symptom, 's:' || symptom || ':' || status, 'r:' || rule, 'r:' || rule || ':' || status
    ]) AS tag
    WHERE finding.verdict_id = verdict.id
) AS found ON true
LEFT JOIN LATERAL (
    SELECT
        array_agg(DISTINCT 'm:' || (report ->> 'source')) AS missing,
        bool_or(report ->> 'status' IN ('partial', 'error')) AS failed
    FROM jsonb_array_elements(verdict.coverage) AS report
    WHERE report ->> 'status' NOT IN ('ok', 'empty')
) AS seen ON true
LEFT JOIN LATERAL (
    SELECT array_agg(DISTINCT 'l:' || label) AS labels
    FROM verdicts_review AS review
    WHERE review.verdict_id = verdict.id AND review.replaced_at IS NULL
) AS said ON true
LEFT JOIN LATERAL (
    SELECT
        bool_or(request.state IN ('pending', 'running')) AS open,
        (array_agg(request.state ORDER BY request.created_at DESC, request.id))[1] = 'failed' AS failed
    FROM verdicts_attributionrequest AS request
    WHERE request.attempt_id = attempt.id
) AS asked ON true
"""
AGAIN = """
ON CONFLICT (id) DO UPDATE SET
    is_current = EXCLUDED.is_current, happened_at = EXCLUDED.happened_at, job_id = EXCLUDED.job_id,
    cluster = EXCLUDED.cluster, workload = EXCLUDED.workload, "user" = EXCLUDED."user",
    account = EXCLUDED.account, state = EXCLUDED.state, coverage = EXCLUDED.coverage,
    reviewed = EXCLUDED.reviewed, asked = EXCLUDED.asked, nodes = EXCLUDED.nodes, tags = EXCLUDED.tags,
    text = EXCLUDED.text;
"""

# verdicts_list_rows(ids) writes the rows of some attempts, verdicts_list_all() every row anew.
# The lock makes two writers of one attempt wait for each other, so that the later one sees the whole.
FUNCTIONS = """
CREATE FUNCTION verdicts_list_rows(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(715024, hashtext(id::text)) FROM unnest(ids) AS id ORDER BY id;
    DELETE FROM verdicts_listrow AS listed USING verdicts_verdict AS judged
    WHERE listed.attempt_id = ANY (ids) AND listed.verdict_id IS NULL AND judged.attempt_id = listed.attempt_id;
    {rows} WHERE attempt.id = ANY (ids)
    {again}
END $$;

CREATE FUNCTION verdicts_list_all() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM verdicts_listrow;
    {rows};
END $$;

CREATE FUNCTION verdicts_list_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM verdicts_list_rows(ARRAY[NEW.id]);
    RETURN NULL;
END $$;

CREATE FUNCTION verdicts_list_of_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM verdicts_list_rows(ARRAY[NEW.attempt_id]);
    RETURN NULL;
END $$;

CREATE FUNCTION verdicts_list_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ids uuid[] := (SELECT array_agg(DISTINCT verdict.attempt_id)
                   FROM changed JOIN verdicts_verdict AS verdict ON verdict.id = changed.verdict_id);
BEGIN
    IF ids IS NOT NULL THEN
        PERFORM verdicts_list_rows(ids);
    END IF;
    RETURN NULL;
END $$;
""".replace("{rows}", ROWS.strip()).replace("{again}", AGAIN.strip())

TRIGGERS = """
CREATE TRIGGER listed AFTER INSERT ON verdicts_attempt FOR EACH ROW EXECUTE FUNCTION verdicts_list_attempt();
CREATE TRIGGER relisted AFTER UPDATE ON verdicts_attempt FOR EACH ROW WHEN (
    (OLD.job_id, OLD.workload_id, OLD."user", OLD.account, OLD.started_at, OLD.ended_at)
    IS DISTINCT FROM (NEW.job_id, NEW.workload_id, NEW."user", NEW.account, NEW.started_at, NEW.ended_at)
) EXECUTE FUNCTION verdicts_list_attempt();
CREATE TRIGGER listed AFTER INSERT OR UPDATE ON verdicts_verdict
    FOR EACH ROW EXECUTE FUNCTION verdicts_list_of_attempt();
CREATE TRIGGER listed AFTER INSERT ON verdicts_attributionrequest
    FOR EACH ROW EXECUTE FUNCTION verdicts_list_of_attempt();
CREATE TRIGGER relisted AFTER UPDATE ON verdicts_attributionrequest
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION verdicts_list_of_attempt();
CREATE TRIGGER listed AFTER INSERT ON verdicts_finding REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION verdicts_list_changed();
CREATE TRIGGER listed AFTER INSERT ON verdicts_verdict_nodes REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION verdicts_list_changed();
CREATE TRIGGER listed AFTER INSERT ON verdicts_review REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION verdicts_list_changed();
CREATE TRIGGER relisted AFTER UPDATE ON verdicts_review REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION verdicts_list_changed();
"""

SETTINGS = """
-- Which words go together is not what the planner would guess: what succeeded has no domain that failed.
CREATE STATISTICS verdicts_listrow_words (mcv)
    ON domain, state, strength_step, coverage, reviewed FROM verdicts_listrow;
ALTER STATISTICS verdicts_listrow_words SET STATISTICS 1000;
ALTER TABLE verdicts_listrow ALTER COLUMN tags SET STATISTICS 500, ALTER COLUMN nodes SET STATISTICS 500;
-- A row is written anew when something of it changes; room on its page keeps the indexes small.
ALTER TABLE verdicts_listrow SET (fillfactor = 90, autovacuum_analyze_scale_factor = 0.02);
"""

BACKWARD = """
DROP TRIGGER relisted ON verdicts_review;
DROP TRIGGER listed ON verdicts_review;
DROP TRIGGER listed ON verdicts_verdict_nodes;
DROP TRIGGER listed ON verdicts_finding;
DROP TRIGGER relisted ON verdicts_attributionrequest;
DROP TRIGGER listed ON verdicts_attributionrequest;
DROP TRIGGER listed ON verdicts_verdict;
DROP TRIGGER relisted ON verdicts_attempt;
DROP TRIGGER listed ON verdicts_attempt;
DROP FUNCTION verdicts_list_changed();
DROP FUNCTION verdicts_list_of_attempt();
DROP FUNCTION verdicts_list_attempt();
DROP FUNCTION verdicts_list_all();
DROP FUNCTION verdicts_list_rows(uuid[]);
"""

# Free text is found by trigrams where the database has them or lets us fetch them. Where it does not,
# the list looks through its newest rows only, and says so (see `verdicts/listing/text_search.py`).
TRIGRAMS = """
DO $$
BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    CREATE INDEX row_text ON verdicts_listrow USING gin (text gin_trgm_ops) WHERE is_current;
EXCEPTION
    WHEN insufficient_privilege OR undefined_file OR feature_not_supported THEN
        RAISE NOTICE 'pg_trgm cannot be created here: free text is looked for in the newest rows only';
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("verdicts", "0005_unrecognised_and_drift"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Preference",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="preference",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("shortcuts", models.BooleanField(default=True, help_text="Whether single keys move in the lists.")),
            ],
        ),
        migrations.CreateModel(
            name="ListRow",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4,
                        editable=False,
                        help_text="The verdict's, or attempt's.",
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("is_current", models.BooleanField()),
                ("happened_at", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                ("job_id", models.TextField()),
                ("cluster", models.TextField(blank=True)),
                ("workload", models.TextField(blank=True)),
                ("user", models.TextField(blank=True)),
                ("account", models.TextField(blank=True)),
                ("domain", models.TextField()),
                ("state", models.TextField()),
                ("strength", models.TextField(blank=True)),
                ("strength_step", models.SmallIntegerField(help_text="0 for none to 3 for strong.")),
                ("mode", models.TextField(blank=True)),
                ("ruleset", models.TextField(blank=True)),
                ("coverage", models.TextField(blank=True)),
                ("reviewed", models.BooleanField()),
                (
                    "asked",
                    models.TextField(blank=True, help_text="Whether an attribution is open, or the last one failed."),
                ),
                (
                    "nodes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), blank=True, default=list, size=None
                    ),
                ),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), blank=True, default=list, size=None
                    ),
                ),
                (
                    "shared",
                    models.TextField(blank=True, help_text="What the affected nodes have in common, as kind:name."),
                ),
                ("text", models.TextField(blank=True, help_text="Lower case: what free text is looked for in.")),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rows", to="verdicts.attempt"
                    ),
                ),
                (
                    "verdict",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="row",
                        to="verdicts.verdict",
                    ),
                ),
            ],
            options={
                "ordering": ["-happened_at", "-id"],
                "indexes": [
                    models.Index(
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        include=(
                            "is_current",
                            "domain",
                            "state",
                            "cluster",
                            "strength_step",
                            "coverage",
                            "reviewed",
                            "asked",
                        ),
                        name="row_at",
                    ),
                    models.Index(
                        models.F("domain"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        include=("state", "cluster", "strength_step", "coverage", "reviewed", "asked"),
                        name="row_domain",
                    ),
                    models.Index(
                        models.F("state"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        include=("domain", "cluster", "strength_step", "coverage", "reviewed", "asked"),
                        name="row_state",
                    ),
                    models.Index(
                        models.F("strength_step"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        name="row_strength",
                    ),
                    models.Index(
                        models.F("cluster"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        include=("domain", "state", "strength_step", "coverage", "reviewed", "asked"),
                        name="row_cluster",
                    ),
                    models.Index(
                        models.F("workload"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        name="row_workload",
                    ),
                    models.Index(
                        models.F("user"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        name="row_user",
                    ),
                    models.Index(
                        models.F("account"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        name="row_account",
                    ),
                    models.Index(
                        models.F("job_id"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        name="row_job",
                    ),
                    models.Index(
                        models.F("ruleset"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        name="row_ruleset",
                    ),
                    models.Index(
                        models.F("coverage"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        name="row_coverage",
                    ),
                    models.Index(
                        models.F("reviewed"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        name="row_reviewed",
                    ),
                    models.Index(
                        models.F("asked"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        name="row_asked",
                    ),
                    models.Index(
                        models.OrderBy(models.F("created_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True)),
                        name="row_created",
                    ),
                    models.Index(
                        models.F("shared"),
                        models.OrderBy(models.F("happened_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("is_current", True), ("shared__gt", "")),
                        name="row_shared",
                    ),
                    django.contrib.postgres.indexes.GinIndex(
                        condition=models.Q(("is_current", True)), fields=["nodes"], name="row_nodes"
                    ),
                    django.contrib.postgres.indexes.GinIndex(
                        condition=models.Q(("is_current", True)), fields=["tags"], name="row_tags"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=80)),
                ("query", models.TextField(help_text="The filters and the order, as in the address.")),
                ("shared", models.BooleanField(default=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["name", "created_at"],
                "indexes": [models.Index(condition=models.Q(("shared", True)), fields=["name"], name="view_shared")],
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "name"), name="view_name_of_owner"),
                    models.CheckConstraint(condition=models.Q(("name", ""), _negated=True), name="view_has_name"),
                ],
            },
        ),
        migrations.RunSQL(SETTINGS, "DROP STATISTICS verdicts_listrow_words"),
        migrations.RunSQL(TRIGRAMS, "DROP INDEX IF EXISTS row_text"),
        migrations.RunSQL(FUNCTIONS + TRIGGERS, BACKWARD),
        # The last: a table with new rows cannot be altered within the same transaction.
        migrations.RunSQL("SELECT verdicts_list_all()", migrations.RunSQL.noop),
    ]
