"""The API's addresses of policies, scopes, promotions and labels, under /api/v1/recovery/."""

from django.urls import path

from recovery.policies import api

urlpatterns = [
    path("recovery/policies", api.Policies.as_view(), name="api-policies"),
    path("recovery/policies/+try", api.TryPolicy.as_view(), name="api-policy-try"),
    path("recovery/policies/<slug:name>", api.PolicyDetail.as_view(), name="api-policy"),
    path("recovery/policies/<slug:name>/retire", api.RetirePolicy.as_view(), name="api-policy-retire"),
    path("recovery/scopes", api.Scopes.as_view(), name="api-scopes"),
    path("recovery/scopes/<uuid:pk>/promotion", api.Promote.as_view(), name="api-promote"),
    path("recovery/scopes/<uuid:pk>/demotion", api.Demote.as_view(), name="api-demote"),
    path("recovery/promotions", api.Promotions.as_view(), name="api-promotions"),
    path("recovery/promotions/<uuid:pk>/second", api.Second.as_view(), name="api-second"),
    path("recovery/promotions/<uuid:pk>/decline", api.Decline.as_view(), name="api-decline"),
    path("recovery/labels", api.Labels.as_view(), name="api-labels"),
    path("recovery/proposals/<uuid:pk>/label", api.GiveLabel.as_view(), name="api-label"),
    path("recovery/proposals/<uuid:pk>/outcome", api.GiveOutcome.as_view(), name="api-outcome"),
]
