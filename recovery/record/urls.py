"""The pages of records."""

from django.urls import path

from recovery.record import pages

urlpatterns = [
    path("recovery/attempts/<uuid:attempt_id>/record/", pages.download, name="record"),
]
