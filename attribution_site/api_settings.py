"""How the REST API reads, answers, limits and describes itself."""

from __future__ import annotations

from typing import Any

import environ

from rules.words import Source
from verdicts.keeping import Kept

SCHEMA: dict[str, Any] = {
    "TITLE": "Inquest",
    "DESCRIPTION": "Attempts, their evidence, and the verdicts on why they ended as they did.",
    "VERSION": "1",
    # Shapes of what is sent say "null" as a type, which 3.0 has not.
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": r"/api/v[0-9]+",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "COMPONENT_SPLIT_REQUEST": True,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # Each of these has a field called "type"; without names of ours they get invented ones.
    "ENUM_NAME_OVERRIDES": {
        f"{kind}ErrorEnum": f"drf_standardized_errors.openapi_serializers.{kind}ErrorEnum.choices"
        for kind in ("Validation", "Client", "Server")
    }
    | {
        "SourceEnum": [source.value for source in Source],
        "KeptEnum": [kept.value for kept in Kept],
    },
    "POSTPROCESSING_HOOKS": [
        "drf_standardized_errors.openapi_hooks.postprocess_schema_enums",
        "verdicts.schema.plain_paths",
    ],
}


def rest_framework(env: environ.Env, proxies: int) -> dict[str, Any]:
    """The framework's settings, behind so many proxies."""
    return {
        "DEFAULT_AUTHENTICATION_CLASSES": [
            "attribution_site.tokens.ApiToken",
            "rest_framework.authentication.SessionAuthentication",
        ],
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
        # Not the framework's own: that ends with an error of ours at deep nesting and at half a surrogate pair.
        "DEFAULT_PARSER_CLASSES": ["verdicts.given.BoundedJSON"],
        "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
        "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination",
        "PAGE_SIZE": 50,
        "DEFAULT_SCHEMA_CLASS": "drf_standardized_errors.openapi.AutoSchema",
        "EXCEPTION_HANDLER": "drf_standardized_errors.handler.exception_handler",
        "DEFAULT_THROTTLE_CLASSES": [
            "rest_framework.throttling.AnonRateThrottle",
            "rest_framework.throttling.UserRateThrottle",
        ],
        "DEFAULT_THROTTLE_RATES": {
            "anon": env.str("INQUEST_API_RATE_ANONYMOUS", default="60/min"),
            "user": env.str("INQUEST_API_RATE", default="3000/min"),
            "token": "10/min",
            # Every rank of every job may post: with one account for all of them that is a lot.
            "progress": env.str("INQUEST_PROGRESS_RATE", default="60000/min"),
        },
        "NUM_PROXIES": proxies,
        "COERCE_DECIMAL_TO_STRING": False,
        "TEST_REQUEST_DEFAULT_FORMAT": "json",
    }
