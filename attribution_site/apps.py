"""The site as a Django app: its Celery app, commands and checks."""

import importlib

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured


class SiteConfig(AppConfig):
    """Loads the Celery app, so that `shared_task` binds to it in every process that runs Django."""

    name = "attribution_site"
    label = "site"
    verbose_name = "Site"

    def ready(self) -> None:
        importlib.import_module("attribution_site.celery")
        # A mistake in the clusters file is told at the start, by its key, and not by the first attempt.
        clusters = importlib.import_module("verdicts.clusters")
        config = importlib.import_module("verdicts.collectors.config")
        try:
            clusters.current_clusters()
        except config.ConfigError as error:
            raise ImproperlyConfigured(f"INQUEST_CLUSTERS_FILE: {error}") from error
