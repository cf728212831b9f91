"""The REST API of recovery, under /api/v1/; each part has a table of its own."""

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("recovery.ledger_api_urls")),
    path("", include("recovery.queue_api_urls")),
    path("", include("recovery.policy_api_urls")),
    path("", include("recovery.progress_api_urls")),
    path("", include("recovery.record_api_urls")),
]
