"""What is kept beside the list so that nobody counts it anew: the weekly tally, and whom rows blame.

Triggers write both whenever a row comes, goes or becomes another; see the migrations that make them. Here the tally is
kept short, both are compared with the list, and made anew.
"""

from dataclasses import dataclass
from datetime import date
from uuid import UUID

from django.db import connection, transaction

_LOCK = (715024, -1)  # beside those of attempts, see verdicts_list_rows()

#: Lines of one key become one, of what was there when it began.
_FOLD = """
WITH many AS (
    SELECT week, state, domain FROM verdicts_weektally GROUP BY 1, 2, 3 HAVING count(*) > 1
), taken AS (
    DELETE FROM verdicts_weektally AS line USING many
    WHERE (line.week, line.state, line.domain) = (many.week, many.state, many.domain)
    RETURNING line.week, line.state, line.domain, line.number
), kept AS (
    INSERT INTO verdicts_weektally (week, state, domain, number)
    SELECT week, state, domain, sum(number) FROM taken GROUP BY 1, 2, 3 HAVING sum(number) <> 0
)
SELECT count(*) FROM taken
"""
#: Both are counted by one statement, so that what is written meanwhile is in both or in neither.
_COMPARED = """
WITH told AS (
    SELECT week, state, domain, sum(number) AS number FROM verdicts_weektally GROUP BY 1, 2, 3
), counted AS (
    SELECT date_trunc('week', happened_at AT TIME ZONE 'UTC')::date AS week, state, domain, count(*) AS number
    FROM verdicts_listrow WHERE is_current AND origin = 'own' GROUP BY 1, 2, 3
)
SELECT week, state, domain, COALESCE(told.number, 0), COALESCE(counted.number, 0)
FROM told FULL JOIN counted USING (week, state, domain)
WHERE COALESCE(told.number, 0) <> COALESCE(counted.number, 0)
ORDER BY 1, 2, 3
"""
_BLAMED = """
WITH counted AS (
    SELECT id, happened_at, state, cluster, 'node' AS kind, unnest(nodes) AS name, '' AS port
    FROM verdicts_listrow WHERE is_current AND origin = 'own'
    UNION ALL
    SELECT id, happened_at, state, cluster, 'shared', shared, ''
    FROM verdicts_listrow WHERE is_current AND origin = 'own' AND shared <> ''
    UNION ALL
    SELECT DISTINCT listed.id, listed.happened_at, state, cluster, 'port_of_' || named."of", named.owner, named.port
    FROM verdicts_listrow AS listed JOIN verdicts_namedport AS named ON named.verdict_id = listed.verdict_id
    WHERE is_current AND origin = 'own' AND named.status IN ('cause', 'candidate')
), told AS (
    SELECT "row", happened_at, state, cluster, kind, name, port FROM verdicts_blame
)
SELECT DISTINCT id FROM (
    (SELECT * FROM counted EXCEPT ALL SELECT * FROM told)
    UNION ALL
    (SELECT * FROM told EXCEPT ALL SELECT * FROM counted)
) AS different (id, happened_at, state, cluster, kind, name, port)
ORDER BY 1
"""


@dataclass(frozen=True)
class Difference:
    """A key of which the tally says another number than the list has rows."""

    week: date
    state: str
    domain: str
    told: int
    counted: int


def fold() -> int:
    """Add up the lines of each key; returns how many were added up. What readers see does not change."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", _LOCK)
        if not cursor.fetchone()[0]:  # somebody is at it
            return 0
        cursor.execute(_FOLD)
        return int(cursor.fetchone()[0])


def differences() -> list[Difference]:
    """Where tally and list disagree: nowhere, unless somebody switched the triggers off."""
    with connection.cursor() as cursor:
        cursor.execute(_COMPARED)
        return [Difference(*row) for row in cursor.fetchall()]


def misblamed() -> list[UUID]:
    """The rows of which the list names others as affected than are kept beside it: none, as above."""
    with connection.cursor() as cursor:
        cursor.execute(_BLAMED)
        return [row for (row,) in cursor.fetchall()]


@transaction.atomic
def rebuild() -> None:
    """Make both anew from the list; whoever writes meanwhile waits."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT verdicts_blame_all()")
        cursor.execute("SELECT verdicts_tally_all()")
