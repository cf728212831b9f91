"""Two words of one row as one of an index: rows that have both are found without going through all that have either.

Words of the closed sets with each other, and with the symptoms and rules of the row. What was an index of some closed
sets together is no more needed.
"""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
from django.db import migrations, models

PAIRS = """
CREATE FUNCTION verdicts_pairs(
    domain text, state text, strength smallint, cluster text, coverage text, tags text[]
) RETURNS text[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    closed CONSTANT text[] := ARRAY[
        'd:' || domain, 't:' || state, 'g:' || strength, 'c:' || cluster, 'v:' || coverage
    ];
    before text[] := '{}';
    pairs text[] := '{}';
    one text;
    word text;
BEGIN
    FOREACH word IN ARRAY closed || tags LOOP
        IF cardinality(before) = cardinality(closed) THEN
            -- A symptom or rule: those with a status say the same once more.
            CONTINUE WHEN left(word, 2) NOT IN ('s:', 'r:') OR strpos(substr(word, 3), ':') > 0;
        END IF;
        FOREACH one IN ARRAY before LOOP
            pairs := pairs || (one || ' ' || word);
        END LOOP;
        IF cardinality(before) < cardinality(closed) THEN
            before := before || word;
        END IF;
    END LOOP;
    RETURN pairs;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0026_row_foreign")]

    operations = [
        migrations.RunSQL(PAIRS, "DROP FUNCTION verdicts_pairs(text, text, smallint, text, text, text[])"),
        migrations.AddIndex(
            model_name="listrow",
            index=django.contrib.postgres.indexes.GinIndex(
                models.Func(
                    "domain",
                    "state",
                    "strength_step",
                    "cluster",
                    "coverage",
                    "tags",
                    function="verdicts_pairs",
                    output_field=django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None),
                ),
                condition=models.Q(("is_current", True)),
                name="row_pairs",
            ),
        ),
        migrations.RemoveIndex(model_name="listrow", name="row_together"),
    ]
