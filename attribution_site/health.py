"""Whether the process is alive (`/healthz`) and whether it can do its work (`/readyz`).

Both answer before host names, sessions and logins are looked at: a probe has none of them. They tell
states and counts, never addresses or error texts, since anybody may ask.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from kombu import Connection
from kombu.exceptions import OperationalError

from rules.rule import RuleError
from rules.ruleset import load_ruleset

log = structlog.get_logger("inquest.health")

# Probes come every few seconds from several places; the broker is asked at most this often.
BROKER_SECONDS = 5.0
_broker_lock = threading.Lock()
_broker_seen: tuple[float, bool] | None = None


def database() -> str:
    """`ok`, `migrations pending` or `unreachable`."""
    connection = connections[DEFAULT_DB_ALIAS]
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        log.warning("database unreachable", error=str(error))
        connection.close()
        return "unreachable"
    return "migrations pending" if pending else "ok"


def _ask_broker() -> bool:
    try:
        with Connection(settings.CELERY_BROKER_URL, connect_timeout=2) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=3)
    except (OperationalError, OSError) as error:
        log.warning("broker unreachable", error=str(error))
        return False
    return True


def broker() -> str:
    """`ok` or `unreachable`, as seen in the last seconds."""
    global _broker_seen
    with _broker_lock:
        now = time.monotonic()
        if _broker_seen is None or now - _broker_seen[0] > BROKER_SECONDS:
            _broker_seen = (now, _ask_broker())
        return "ok" if _broker_seen[1] else "unreachable"


@cache
def ruleset_digest() -> str | None:
    """The digest of the rules this process would use; None if they cannot be loaded."""
    try:
        return load_ruleset(settings.INQUEST_RULES_DIR or None).digest
    except (RuleError, OSError) as error:
        log.error("rules cannot be loaded", error=str(error))
        return None


def ready() -> tuple[int, dict[str, str | None]]:
    """The status code and body of `/readyz`.

    A broker that is away degrades the site and does not take it out of service: requests are rows in the
    database, and are sent when it is back.
    """
    parts = {"database": database(), "broker": broker(), "ruleset": ruleset_digest()}
    able = parts["database"] == "ok" and parts["ruleset"] is not None
    status = "not ready" if not able else "ok" if parts["broker"] == "ok" else "degraded"
    return 200 if able else 503, {"status": status, **parts}


class Health:
    """Answers the two probes; everything else goes on."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path == "/healthz":
            return JsonResponse({"status": "ok"}, headers={"Cache-Control": "no-store"})
        if request.path == "/readyz":
            code, body = ready()
            return JsonResponse(body, status=code, headers={"Cache-Control": "no-store"})
        return self.get_response(request)
