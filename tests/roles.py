"""The roles made anew: a test that empties the tables afterwards takes away what migrations put there."""

from importlib import import_module

from django.apps import apps
from django.db import connection

_MADE_BY = (
    ("verdicts.migrations.0003_groups", "make_groups"),
    ("verdicts.migrations.0009_roles", "make_roles"),
    ("verdicts.migrations.0012_telling", "give_webhooks"),
    ("recovery.migrations.0002_roles", "make_roles"),
    ("recovery.migrations.0010_retention", "give"),
    ("recovery.migrations.0011_replay", "give"),
    ("recovery.migrations.0012_drill", "give"),
)


def make_roles() -> None:
    """Make the groups with their permissions, as the migrations do."""
    for module, made in _MADE_BY:
        getattr(import_module(module), made)(apps, connection.schema_editor())
