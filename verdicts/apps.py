"""The app."""

from django.apps import AppConfig


class VerdictsConfig(AppConfig):
    """Workloads, attempts, evidence, verdicts and reviews."""

    name = "verdicts"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Verdicts"
