"""The pages of recovery; each part has a table of its own."""

from django.urls import URLPattern, URLResolver, include, path

app_name = "recovery"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("recovery.drill.urls")),
    path("", include("recovery.ledger.urls")),
    path("", include("recovery.review.urls")),
    path("", include("recovery.policies.urls")),
    path("", include("recovery.progress.urls")),
    path("", include("recovery.record.urls")),
    path("", include("recovery.replay.urls")),
    path("", include("recovery.retention.urls")),
]
