"""What people say to each other about a verdict."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verdicts.models.judgements import Verdict


class Comment(models.Model):
    """A remark on a verdict. It is not a label: it does not count towards how often verdicts are right."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    verdict = models.ForeignKey(Verdict, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="comments")
    text = models.TextField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [models.CheckConstraint(name="comment_has_text", condition=~Q(text=""))]

    def __str__(self) -> str:
        return self.text[:80]


class Mention(models.Model):
    """A person whom a comment names; `seen_at` is empty until they have seen it."""

    comment = models.ForeignKey(Comment, on_delete=models.CASCADE, related_name="mentions")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mentions")
    seen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-comment__created_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["comment", "person"], name="mention_once")]
        indexes = [models.Index(fields=["person"], name="mention_unseen", condition=Q(seen_at__isnull=True))]

    def __str__(self) -> str:
        return f"@{self.person}"
