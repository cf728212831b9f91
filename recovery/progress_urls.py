"""The pages of progress, anomalies and goodput."""

from django.urls import path

from recovery import goodput_pages, progress_pages

urlpatterns = [
    path("recovery/anomalies/", progress_pages.anomalies, name="anomalies"),
    path("recovery/anomalies/<uuid:anomaly_id>/", progress_pages.anomaly, name="anomaly"),
    path("recovery/attempts/<uuid:attempt_id>/progress/", progress_pages.of_attempt, name="progress-of-attempt"),
    path("recovery/goodput/", goodput_pages.page, name="goodput"),
]
