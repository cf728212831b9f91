"""The pages of progress, anomalies and goodput."""

from django.urls import path

from recovery.goodput import pages as goodput_pages
from recovery.progress import pages

urlpatterns = [
    path("recovery/anomalies/", pages.anomalies, name="anomalies"),
    path("recovery/anomalies/<uuid:anomaly_id>/", pages.anomaly, name="anomaly"),
    path("recovery/attempts/<uuid:attempt_id>/progress/", pages.of_attempt, name="progress-of-attempt"),
    path("recovery/goodput/", goodput_pages.page, name="goodput"),
]
