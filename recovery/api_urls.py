"""The REST API of recovery, under /api/v1/; each part has a table of its own."""

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("recovery.drill.api_urls")),
    path("", include("recovery.ledger.api_urls")),
    path("", include("recovery.review.api_urls")),
    path("", include("recovery.policies.api_urls")),
    path("", include("recovery.progress.api_urls")),
    path("", include("recovery.record.api_urls")),
    path("", include("recovery.replay.api_urls")),
    path("", include("recovery.retention.api_urls")),
]
