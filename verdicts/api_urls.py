"""The addresses of the API, under /api/v1/."""

from django.urls import include, path

from verdicts import api, rule_api

urlpatterns = [
    path("attempts", api.Attempts.as_view(), name="api-attempts"),
    path("attempts/<uuid:pk>", api.AttemptDetail.as_view(), name="api-attempt"),
    path(
        "attempts/<uuid:pk>/observations",
        api.Observations.as_view(),
        name="api-observations",
    ),
    path("attempts/<uuid:pk>/reports", api.Reports.as_view(), name="api-reports"),
    path(
        "attempts/<uuid:pk>/attributions",
        api.Attributions.as_view(),
        name="api-attributions",
    ),
    path(
        "attempts/<uuid:pk>/verdict",
        api.StandingVerdict.as_view(),
        name="api-standing-verdict",
    ),
    path(
        "attempts/<uuid:pk>/verdicts",
        api.VerdictHistory.as_view(),
        name="api-verdict-history",
    ),
    path(
        "attributions/<uuid:pk>",
        api.AttributionDetail.as_view(),
        name="api-attribution",
    ),
    path("verdicts", api.Verdicts.as_view(), name="api-verdicts"),
    path("verdicts/<uuid:pk>", api.VerdictDetail.as_view(), name="api-verdict"),
    path("verdicts/<uuid:pk>/body", api.VerdictBody.as_view(), name="api-verdict-body"),
    path("reviews", api.Reviews.as_view(), name="api-reviews"),
    path("clusters", api.Clusters.as_view(), name="api-clusters"),
    path("nodes", api.Nodes.as_view(), name="api-nodes"),
    path("ruleset", api.RulesetInForce.as_view(), name="api-ruleset"),
    path("rules", rule_api.Rules.as_view(), name="api-rules"),
    path("rules/coverage", rule_api.RuleCoverage.as_view(), name="api-rule-coverage"),
    path("rules/unrecognised", rule_api.UnrecognisedTemplates.as_view(), name="api-unrecognised"),
    path("rules/unrecognised/<str:digest>", rule_api.Template.as_view(), name="api-template"),
    path("rules/drift", rule_api.Drift.as_view(), name="api-drift"),
    path("rules/<str:rule_id>", rule_api.RuleDetail.as_view(), name="api-rule"),
    path("", include("verdicts.console_api_urls")),
]
