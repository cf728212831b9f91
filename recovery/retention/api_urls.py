"""The addresses of retention in the API."""

from django.urls import path

from recovery.retention import api

urlpatterns = [
    path("retention", api.Retention.as_view(), name="api-retention"),
    path("attempts/<uuid:pk>/retention", api.OfAttempt.as_view(), name="api-retention-of-attempt"),
    path("retention/attempts", api.Expiring.as_view(), name="api-retention-attempts"),
    path("retention/expired", api.Expired.as_view(), name="api-retention-expired"),
    path("retention/holds", api.Holds.as_view(), name="api-holds"),
    path("retention/holds/<uuid:pk>", api.HoldDetail.as_view(), name="api-hold"),
    path("retention/holds/<uuid:pk>/review", api.HoldReview.as_view(), name="api-hold-review"),
    path("retention/holds/<uuid:pk>/release", api.HoldRelease.as_view(), name="api-hold-release"),
]
