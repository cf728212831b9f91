"""Log lines as JSON, one object a line, each with the request or task that it belongs to."""

from __future__ import annotations

import logging.config
from collections.abc import Mapping
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from rules.redact import PLAIN, Redactor

SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


class WithoutSecrets:
    """Takes secrets out of whatever is logged: the event, its fields, the text of an exception."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {name: self._clean(name, value) for name, value in event.items()}

    def _clean(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            return {str(key): self._clean(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean(name, item) for item in value]
        return self._redactor.redact_field(name, str(value))


def configure(*, level: str, form: str, redactor: Redactor = PLAIN) -> None:
    """Send structlog and the standard library's loggers to stderr; `form` is `json` or `console`."""
    last: list[Processor] = (
        # A traceback with its variables would print passwords and tokens, and take seconds to lay out.
        [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
        if form == "console"
        else [structlog.processors.JSONRenderer(default=str)]
    )
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "lines": {
                    "()": structlog.stdlib.ProcessorFormatter,
                    "foreign_pre_chain": [structlog.stdlib.ExtraAdder(), *SHARED],
                    "processors": [
                        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                        structlog.processors.format_exc_info,
                        WithoutSecrets(redactor),
                        *last,
                    ],
                }
            },
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
            "root": {"handlers": ["stderr"], "level": level},
            "loggers": {
                # RequestLog says the same with the request's id.
                "django.server": {"level": "WARNING"},
                "django.request": {"level": "ERROR"},
                # A line for each beat and each task received is noise at rest.
                "celery.beat": {"level": "WARNING"},
                "celery.worker.strategy": {"level": "WARNING"},
                "celery.app.trace": {"level": "WARNING"},
                # Each question to a source, with all its parameters: the collector's report says what matters.
                "httpx2": {"level": "WARNING"},
                "httpcore2": {"level": "WARNING"},
            },
        }
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
