"""Ports that findings name, as rows: what the fleet's pages about switches and their ports count."""

from django.db import models
from django.db.models.functions import Now

from verdicts.choices import FindingStatus
from verdicts.models.checks import closed
from verdicts.models.judgements import Verdict


class NamedPort(models.Model):
    """A finding of a verdict that names a switch, or a port of a switch or of a node.

    Few findings do, so that they are rows of their own and not columns of all. Written with the verdict and never
    changed; the verdict's body has the whole finding.
    """

    verdict = models.ForeignKey(Verdict, on_delete=models.CASCADE, related_name="ports")
    finding = models.CharField(max_length=32)
    status = models.CharField(max_length=16)
    symptom = models.CharField(max_length=255)
    of = models.CharField(max_length=8, help_text="What has the port: switch or node.")
    owner = models.CharField(max_length=255, help_text="Its name.")
    port = models.CharField(max_length=255, blank=True, help_text="Empty where a switch is named without a port.")
    happened_at = models.DateTimeField(
        db_default=Now(), editable=False, help_text="The verdict's; the database copies it."
    )

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["verdict", "finding", "status"], name="port_once"),
            closed("port", "status", FindingStatus),
            models.CheckConstraint(name="port_of", condition=models.Q(of__in=["switch", "node"])),
        ]
        indexes = [
            models.Index(fields=["owner", "port", "verdict"], name="port_named"),
            models.Index(fields=["happened_at"], name="port_at"),
        ]

    def __str__(self) -> str:
        return f"{self.owner} {self.port}"
