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


# All migrations were seen applied. This process knows no others, so it need not look again: looking takes
# tens of milliseconds, and probes are many.
_applied = threading.Event()


def database() -> str:
    """`ok`, `migrations pending` or `unreachable`."""
    connection = connections[DEFAULT_DB_ALIAS]
    try:
        if _applied.is_set():
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            return "ok"
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return "migrations pending"
    except DatabaseError as error:
        log.warning("database unreachable", error=str(error))
        connection.close()
        return "unreachable"
    _applied.set()
    return "ok"


class Broker:
    """Whether the broker can be reached, asked at most every few seconds however many probes come."""

    def __init__(self, fresh_for: float) -> None:
        self._fresh_for = fresh_for
        self._lock = threading.Lock()
        self._asked = float("-inf")
        self._there = False

    def state(self) -> str:
        """`ok` or `unreachable`."""
        with self._lock:
            if time.monotonic() - self._asked > self._fresh_for:
                self._there = self._ask()
                self._asked = time.monotonic()
            return "ok" if self._there else "unreachable"

    def _ask(self) -> bool:
        try:
            with Connection(settings.CELERY_BROKER_URL, connect_timeout=2) as connection:
                connection.ensure_connection(max_retries=1, interval_start=0, timeout=3)
        except (OperationalError, OSError) as error:
            log.warning("broker unreachable", error=str(error))
            return False
        return True


broker = Broker(fresh_for=5)


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
    parts = {"database": database(), "broker": broker.state(), "ruleset": ruleset_digest()}
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
