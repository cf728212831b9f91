"""The verdict list as one narrow table: what a row can be filtered, sorted and counted by, side by side.

The database keeps it (see the migration that makes it): triggers write the rows of an attempt anew whenever
the attempt, a verdict, a finding, a review or a request of it changes. No code writes here.
"""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q

from verdicts.choices import Origin
from verdicts.models.attempts import Attempt
from verdicts.models.checks import CURRENT
from verdicts.models.judgements import Verdict

#: The closed sets that lists are most often narrowed by. Where an index carries them, rows that they rule out
#: are passed over without being read.
CARRIED = ("domain", "state", "cluster", "strength_step", "coverage", "reviewed", "asked", "origin")

#: Each two words of a row, of those that most rows of a large store may have: see the migration of the function.
PAIRS = Func(
    *("domain", "state", "strength_step", "cluster", "coverage", "tags"),
    function="verdicts_pairs",
    output_field=ArrayField(models.TextField()),
)


def _walk(name: str, *fields: str, carry: bool = False) -> models.Index:
    """An index that gives the newest rows of one word first."""
    include = [field for field in CARRIED if field not in fields] if carry else None
    return models.Index(*fields, F("happened_at").desc(), F("id").desc(), name=name, condition=CURRENT, include=include)


class ListRow(models.Model):
    """A verdict as the list shows it, or an attempt that has none yet. Attempts of drills have none.

    `tags` holds what a row has several of: `s:symptom` and `s:symptom:status`, `r:rule` and `r:rule:status`,
    `m:source` for a source that was not seen whole, `l:label` for what a standing review says.
    """

    id = models.UUIDField(
        primary_key=True, default=uuid.uuid4, editable=False, help_text="The verdict's, or attempt's."
    )
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="rows")
    verdict = models.OneToOneField(Verdict, null=True, blank=True, on_delete=models.CASCADE, related_name="row")
    is_current = models.BooleanField()
    happened_at = models.DateTimeField()
    created_at = models.DateTimeField()
    job_id = models.TextField()
    cluster = models.TextField(blank=True)
    workload = models.TextField(blank=True)
    user = models.TextField(blank=True)
    account = models.TextField(blank=True)
    domain = models.TextField()
    state = models.TextField()
    strength = models.TextField(blank=True)
    strength_step = models.SmallIntegerField(help_text="0 for none to 3 for strong.")
    mode = models.TextField(blank=True)
    ruleset = models.TextField(blank=True)
    coverage = models.TextField(blank=True)
    reviewed = models.BooleanField()
    asked = models.TextField(blank=True, help_text="Whether an attribution is open, or the last one failed.")
    origin = models.TextField(db_default=Origin.OWN.value, help_text="Whether it is this site's own, or imported.")
    nodes = ArrayField(models.TextField(), default=list, blank=True)
    tags = ArrayField(models.TextField(), default=list, blank=True)
    shared = models.TextField(blank=True, help_text="What the affected nodes have in common, as kind:name.")
    text = models.TextField(blank=True, help_text="Lower case: what free text is looked for in.")

    class Meta:
        ordering = ["-happened_at", "-id"]
        indexes = [
            # Of all rows, so that a list with superseded verdicts has an index to walk as well.
            models.Index(F("happened_at").desc(), F("id").desc(), name="row_at", include=["is_current", *CARRIED]),
            _walk("row_domain", "domain", carry=True),
            _walk("row_state", "state", carry=True),
            _walk("row_strength", "strength_step"),
            _walk("row_cluster", "cluster", carry=True),
            _walk("row_workload", "workload"),
            _walk("row_user", "user"),
            _walk("row_account", "account"),
            _walk("row_job", "job_id"),
            _walk("row_ruleset", "ruleset"),
            _walk("row_coverage", "coverage"),
            _walk("row_reviewed", "reviewed"),
            _walk("row_asked", "asked"),
            # In no order of a list: where two words are hardly ever in one row, which rows have both.
            GinIndex(PAIRS, name="row_pairs", condition=CURRENT),
            models.Index(F("created_at").desc(), F("id").desc(), name="row_created", condition=CURRENT),
            models.Index(
                F("shared"),
                F("happened_at").desc(),
                F("id").desc(),
                name="row_shared",
                condition=CURRENT & Q(shared__gt=""),
            ),
            # The few that are not this site's own: the others have every index above.
            models.Index(
                F("happened_at").desc(),
                F("id").desc(),
                name="row_foreign",
                condition=CURRENT & ~Q(origin=Origin.OWN.value),
            ),
            GinIndex(fields=["nodes"], name="row_nodes", condition=CURRENT),
            GinIndex(fields=["tags"], name="row_tags", condition=CURRENT),
        ]

    def __str__(self) -> str:
        return self.job_id


class WeekTally(models.Model):
    """How many of this site's standing rows there are of attempts that ended in a week, by state and domain.

    The number of a key is the sum of its lines. The database keeps it beside the list, by triggers on `ListRow`, so
    that both agree at every moment; `verdicts.overview.tally` folds many lines of a key into one.
    """

    week = models.DateField(help_text="Its Monday, UTC.")
    state = models.TextField()
    domain = models.TextField()
    number = models.IntegerField(help_text="To be added to the others of its key.")

    class Meta:
        indexes = [models.Index(fields=["week"], include=["state", "domain", "number"], name="tally_week")]

    def __str__(self) -> str:
        return f"{self.week:%Y-%m-%d} {self.state} {self.domain}: {self.number:+}"


class Blame(models.Model):
    """A node that a standing row of this site names as affected, the element that its nodes share, a port it blames.

    The database keeps it beside the list, as it does `WeekTally`: to count whom failures blame, no list row is read.
    """

    row = models.UUIDField(db_index=True, help_text="Of the list.")
    happened_at = models.DateTimeField()
    state = models.TextField()
    cluster = models.TextField(blank=True)
    kind = models.TextField(
        help_text="node; shared: an element that affected nodes share; port_of_switch, port_of_node."
    )
    name = models.TextField()
    port = models.TextField(blank=True, db_default="", help_text="Of name.")

    class Meta:
        indexes = [models.Index(fields=["kind", "happened_at"], include=["state", "cluster", "name"], name="blame_at")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.cluster}"
