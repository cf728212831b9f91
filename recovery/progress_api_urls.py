"""The API's addresses of progress, anomalies and goodput, under /api/v1/recovery/."""

from django.urls import path

from recovery import progress_api

urlpatterns = [
    path("recovery/progress", progress_api.Progress.as_view(), name="api-progress"),
    path("recovery/anomalies", progress_api.Anomalies.as_view(), name="api-anomalies"),
    path("recovery/anomalies/<uuid:pk>", progress_api.AnomalyDetail.as_view(), name="api-anomaly"),
    path("recovery/goodput", progress_api.Goodput.as_view(), name="api-goodput"),
]
