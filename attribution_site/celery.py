"""The Celery app. Workers are started with `celery -A attribution_site.celery worker`."""

from __future__ import annotations

import os
from typing import Any

import structlog
from celery import Celery
from celery.signals import setup_logging, task_postrun, task_prerun

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "attribution_site.settings")

app = Celery("inquest")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**kwargs: Any) -> None:
    """Being connected is enough: Celery then leaves the logging of settings.py as it is."""


@task_prerun.connect
def bind_task(task_id: str, task: Any, **kwargs: Any) -> None:
    """Put the task's id and name on every log line of its run."""
    structlog.contextvars.bind_contextvars(task_id=task_id, task=task.name)


@task_postrun.connect
def unbind_task(**kwargs: Any) -> None:
    """Take them off again: the process goes on to other tasks."""
    structlog.contextvars.unbind_contextvars("task_id", "task")
