"""How a person looks at the lists: saved views, and what they switched off."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class SavedView(models.Model):
    """A list's address under a name: its owner's alone, or for everybody."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=80)
    query = models.TextField(help_text="The filters and the order, as in the address.")
    shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name", "created_at"]
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="view_name_of_owner"),
            models.CheckConstraint(name="view_has_name", condition=~Q(name="")),
        ]
        indexes = [models.Index(fields=["name"], name="view_shared", condition=Q(shared=True))]

    def __str__(self) -> str:
        return self.name


class Preference(models.Model):
    """What a person set for their own console; no row means nothing was changed."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="preference"
    )
    shortcuts = models.BooleanField(default=True, help_text="Whether single keys move in the lists.")
    zone = models.CharField(max_length=64, blank=True, default="", help_text="Empty: the zone of the browser.")
    theme = models.CharField(max_length=8, blank=True, default="", help_text="Empty: as the system.")

    def __str__(self) -> str:
        return f"of {self.user_id}"
