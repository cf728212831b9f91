"""The ledger is told when hangs of an attempt would not be seen, and when they would be again."""

from django.db import migrations, models

ENTRY_KINDS = [
    "verdict.issued",
    "verdict.superseded",
    "review.given",
    "anomaly.detected",
    "proposal.made",
    "proposal.observed",
    "proposal.approved",
    "proposal.rejected",
    "proposal.asked",
    "proposal.expired",
    "proposal.withdrawn",
    "proposal.vetoed",
    "proposal.closed",
    "outcome.given",
    "label.given",
    "action.intended",
    "action.sent",
    "action.observed",
    "milestone.observed",
    "exclusion.made",
    "exclusion.lifted",
    "exclusion.expired",
    "exclusion.wrong",
    "incident.opened",
    "incident.closed",
    "veto.set",
    "veto.ended",
    "policy.created",
    "policy.changed",
    "policy.retired",
    "promotion.asked",
    "policy.promoted",
    "policy.demoted",
    "brake.opened",
    "brake.released",
    "export.made",
    "record.imported",
    "evidence.read",
    "retention.applied",
    "hold.set",
    "hold.ended",
    "sign_in.noted",
    "source.blind",
    "source.sees",
    "progress.blind",
    "progress.sees",
    "ruleset.changed",
    "replay.begun",
    "replay.ended",
    "replay.judged",
    "checkpoint.failed",
    "drill.begun",
    "drill.ended",
]


class Migration(migrations.Migration):
    dependencies = [("recovery", "0013_outcome_by")]

    operations = [
        migrations.RemoveConstraint(model_name="ledgerentry", name="entry_kind_word"),
        migrations.AddConstraint(
            model_name="ledgerentry",
            constraint=models.CheckConstraint(condition=models.Q(("kind__in", ENTRY_KINDS)), name="entry_kind_word"),
        ),
    ]
