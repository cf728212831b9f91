"""Recovery as a Django app."""

import importlib

from django.apps import AppConfig


class RecoveryConfig(AppConfig):
    """Anomalies, policies, proposals, actions and the ledger."""

    name = "recovery"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Recovery"

    def ready(self) -> None:
        # Whoever begins an action wakes the dispatcher, so every process knows where that listens.
        importlib.import_module("recovery.queue")
