"""Recovery as a Django app."""

import importlib

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured


class RecoveryConfig(AppConfig):
    """Anomalies, policies, proposals, actions and the ledger."""

    name = "recovery"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Recovery"

    def ready(self) -> None:
        # Whoever begins an action wakes the dispatcher, so every process knows where that listens.
        importlib.import_module("recovery.acting.queue")
        # A mistake in the file is told at the start of the process that reads it, by its key.
        sites = importlib.import_module("recovery.acting.sites")
        try:
            sites.current_sites()
        except sites.SiteError as error:
            raise ImproperlyConfigured(f"INQUEST_RECOVERY_FILE: {error}") from error
