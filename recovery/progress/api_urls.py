"""The API's addresses of progress, anomalies and goodput, under /api/v1/recovery/."""

from django.urls import path

from recovery.progress import api

urlpatterns = [
    path("recovery/progress", api.Progress.as_view(), name="api-progress"),
    path("recovery/anomalies", api.Anomalies.as_view(), name="api-anomalies"),
    path("recovery/anomalies/<uuid:pk>", api.AnomalyDetail.as_view(), name="api-anomaly"),
    path("recovery/goodput", api.Goodput.as_view(), name="api-goodput"),
]
