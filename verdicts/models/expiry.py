"""What is left of what expired."""

from django.db import models
from django.db.models import Q

from verdicts.keeping import Kept
from verdicts.models.attempts import Attempt
from verdicts.models.checks import closed


class Tombstone(models.Model):
    """That a class of an attempt expired: how much went, when, and by which rule. Written with the deletion itself."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="tombstones")
    kept = models.CharField(max_length=16, help_text="The class.")
    at = models.DateTimeField()
    rows = models.PositiveBigIntegerField()
    bytes = models.PositiveBigIntegerField(help_text="Of the texts that went, without what a database adds to them.")
    rule = models.TextField()

    class Meta:
        ordering = ["at", "id"]
        constraints = [
            closed("tombstone", "kept", Kept),
            # Words go when each is old enough, the others at once.
            models.UniqueConstraint(
                fields=["attempt", "kept"], condition=~Q(kept=Kept.WORDS.value), name="tombstone_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kept} of {self.attempt_id}, {self.at:%Y-%m-%d}"
