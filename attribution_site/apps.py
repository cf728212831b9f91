"""The site as a Django app: its Celery app, commands and checks."""

import importlib

from django.apps import AppConfig


class SiteConfig(AppConfig):
    """Loads the Celery app, so that `shared_task` binds to it in every process that runs Django."""

    name = "attribution_site"
    label = "site"
    verbose_name = "Site"

    def ready(self) -> None:
        importlib.import_module("attribution_site.celery")
