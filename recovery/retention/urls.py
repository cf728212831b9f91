"""The addresses of retention's pages."""

from django.urls import path

from recovery.retention import pages

urlpatterns = [
    path("retention/", pages.retention, name="retention"),
    path("retention/attempts/<uuid:attempt_id>/", pages.of_attempt, name="retention-of-attempt"),
    path("retention/holds/", pages.hold_list, name="holds"),
    path("retention/holds/place/", pages.hold_place, name="hold-place"),
    path("retention/holds/<uuid:hold_id>/", pages.hold_detail, name="hold"),
    path("retention/holds/<uuid:hold_id>/review/", pages.hold_review, name="hold-review"),
    path("retention/holds/<uuid:hold_id>/release/", pages.hold_release, name="hold-release"),
]
