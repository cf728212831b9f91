"""The API's addresses of proposals and of what keeps them from harm, under /api/v1/recovery/."""

from django.urls import path

from recovery.review import api, quality_pages

urlpatterns = [
    path("recovery/proposals", api.Proposals.as_view(), name="api-proposals"),
    path("recovery/proposals/<uuid:pk>", api.ProposalDetail.as_view(), name="api-proposal"),
    path("recovery/proposals/<uuid:pk>/decision", api.Decide.as_view(), name="api-decision"),
    path("recovery/exclusions", api.Exclusions.as_view(), name="api-exclusions"),
    path("recovery/exclusions/<int:pk>/lift", api.Lift.as_view(), name="api-lift"),
    path("recovery/incidents", api.SharedCauses.as_view(), name="api-shared-causes"),
    path("recovery/incidents/<uuid:pk>/close", api.CloseSharedCause.as_view(), name="api-shared-cause-close"),
    path("recovery/brakes", api.Brakes.as_view(), name="api-brakes"),
    path("recovery/brakes/<uuid:pk>/release", api.ReleaseBrake.as_view(), name="api-brake-release"),
    path("recovery/quality", quality_pages.RecoveryQuality.as_view(), name="api-recovery-quality"),
    path("recovery/vetoes", api.Vetoes.as_view(), name="api-vetoes"),
    path("recovery/vetoes/<uuid:pk>/end", api.EndVeto.as_view(), name="api-veto-end"),
]
