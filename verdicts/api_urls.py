"""The addresses of the API, under /api/v1/."""

from django.urls import include, path

from verdicts import attempts_api, inventory_api, verdicts_api
from verdicts.rulebook import api as rule_api
from verdicts.sources import api as source_api
from verdicts.verdict_page import api as verdict_api

urlpatterns = [
    path("attempts", attempts_api.Attempts.as_view(), name="api-attempts"),
    path("attempts/<uuid:pk>", attempts_api.AttemptDetail.as_view(), name="api-attempt"),
    path(
        "attempts/<uuid:pk>/observations",
        attempts_api.Observations.as_view(),
        name="api-observations",
    ),
    path("attempts/<uuid:pk>/reports", attempts_api.Reports.as_view(), name="api-reports"),
    path(
        "attempts/<uuid:pk>/attributions",
        verdicts_api.Attributions.as_view(),
        name="api-attributions",
    ),
    path(
        "attempts/<uuid:pk>/verdict",
        verdicts_api.StandingVerdict.as_view(),
        name="api-standing-verdict",
    ),
    path(
        "attempts/<uuid:pk>/verdicts",
        verdicts_api.VerdictHistory.as_view(),
        name="api-verdict-history",
    ),
    path("attempts/<uuid:pk>/collections", source_api.Collections.as_view(), name="api-collections"),
    path("collections/<uuid:pk>", source_api.CollectionDetail.as_view(), name="api-collection"),
    path("sources", source_api.Sources.as_view(), name="api-sources"),
    path("sources/check", source_api.SourceChecks.as_view(), name="api-source-checks"),
    path("discoveries", source_api.Discoveries.as_view(), name="api-discoveries"),
    path(
        "attributions/<uuid:pk>",
        verdicts_api.AttributionDetail.as_view(),
        name="api-attribution",
    ),
    path("", include("verdicts.listing.api_urls")),
    path("verdicts/<uuid:pk>", verdicts_api.VerdictDetail.as_view(), name="api-verdict"),
    path("verdicts/<uuid:pk>/body", verdicts_api.VerdictBody.as_view(), name="api-verdict-body"),
    path("verdicts/<uuid:pk>/short", verdict_api.VerdictInShort.as_view(), name="api-verdict-short"),
    path("verdicts/<uuid:pk>/timeline", verdict_api.VerdictTimeline.as_view(), name="api-verdict-timeline"),
    path("verdicts/<uuid:pk>/related", verdict_api.VerdictRelated.as_view(), name="api-verdict-related"),
    path("verdicts/<uuid:pk>/comments", verdicts_api.Comments.as_view(), name="api-comments"),
    path("reviews", verdicts_api.Reviews.as_view(), name="api-reviews"),
    path("clusters", inventory_api.Clusters.as_view(), name="api-clusters"),
    path("nodes", inventory_api.Nodes.as_view(), name="api-nodes"),
    path("ruleset", inventory_api.RulesetInForce.as_view(), name="api-ruleset"),
    path("rules", rule_api.Rules.as_view(), name="api-rules"),
    path("rules/coverage", rule_api.RuleCoverage.as_view(), name="api-rule-coverage"),
    path("rules/unrecognised", rule_api.UnrecognisedTemplates.as_view(), name="api-unrecognised"),
    path("rules/unrecognised/<str:digest>", rule_api.Template.as_view(), name="api-template"),
    path("rules/drift", rule_api.Drift.as_view(), name="api-drift"),
    path("rules/<str:rule_id>", rule_api.RuleDetail.as_view(), name="api-rule"),
    path("", include("verdicts.console_api_urls")),
]
