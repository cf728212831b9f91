"""The API's addresses of records, under /api/v1/."""

from django.urls import path

from recovery.record import api

urlpatterns = [
    path("attempts/<uuid:pk>/record", api.AttemptRecord.as_view(), name="api-attempt-record"),
    path("records", api.Records.as_view(), name="api-records"),
]
