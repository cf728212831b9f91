"""The pages of recovery; each part has a table of its own."""

from django.urls import URLPattern, URLResolver, include, path

app_name = "recovery"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("recovery.ledger_urls")),
    path("", include("recovery.queue_urls")),
    path("", include("recovery.policy_urls")),
    path("", include("recovery.progress_urls")),
    path("", include("recovery.record_urls")),
]
