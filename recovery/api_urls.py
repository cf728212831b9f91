"""The REST API of recovery, under /api/v1/; each part has a table of its own."""

from django.urls import URLPattern, URLResolver

urlpatterns: list[URLPattern | URLResolver] = []
