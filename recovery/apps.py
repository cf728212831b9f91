"""Recovery as a Django app."""

from django.apps import AppConfig


class RecoveryConfig(AppConfig):
    """Anomalies, policies, proposals, actions and the ledger."""

    name = "recovery"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Recovery"
