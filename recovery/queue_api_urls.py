"""The API's addresses of proposals and of what keeps them from harm, under /api/v1/recovery/."""

from django.urls import path

from recovery import quality_pages, queue_api

urlpatterns = [
    path("recovery/proposals", queue_api.Proposals.as_view(), name="api-proposals"),
    path("recovery/proposals/<uuid:pk>", queue_api.ProposalDetail.as_view(), name="api-proposal"),
    path("recovery/proposals/<uuid:pk>/decision", queue_api.Decide.as_view(), name="api-decision"),
    path("recovery/exclusions", queue_api.Exclusions.as_view(), name="api-exclusions"),
    path("recovery/exclusions/<int:pk>/lift", queue_api.Lift.as_view(), name="api-lift"),
    path("recovery/incidents", queue_api.SharedCauses.as_view(), name="api-shared-causes"),
    path("recovery/incidents/<uuid:pk>/close", queue_api.CloseSharedCause.as_view(), name="api-shared-cause-close"),
    path("recovery/brakes", queue_api.Brakes.as_view(), name="api-brakes"),
    path("recovery/brakes/<uuid:pk>/release", queue_api.ReleaseBrake.as_view(), name="api-brake-release"),
    path("recovery/quality", quality_pages.RecoveryQuality.as_view(), name="api-recovery-quality"),
    path("recovery/vetoes", queue_api.Vetoes.as_view(), name="api-vetoes"),
    path("recovery/vetoes/<uuid:pk>/end", queue_api.EndVeto.as_view(), name="api-veto-end"),
]
