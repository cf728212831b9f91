"""The API's addresses of what stands around verdicts and rules, under /api/v1/."""

from django.urls import path

from verdicts import preferences_pages, upload_api

urlpatterns = [
    path("incidents", upload_api.Incidents.as_view(), name="api-incidents"),
    path("me", preferences_pages.Me.as_view(), name="api-me"),
]
