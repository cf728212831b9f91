"""The addresses of the verdict pages."""

from django.urls import include, path

from verdicts.logs import pages as log_pages
from verdicts.rulebook import pages as rule_pages
from verdicts.sources import pages as source_pages
from verdicts.verdict_page import pages as verdict_pages

app_name = "verdicts"

urlpatterns = [
    path("", include("verdicts.listing.urls")),
    path("verdicts/<uuid:verdict_id>/", verdict_pages.verdict_detail, name="detail"),
    path("verdicts/<uuid:verdict_id>/review/", verdict_pages.review, name="review"),
    path("verdicts/<uuid:verdict_id>/comment/", verdict_pages.comment, name="comment"),
    path("attempts/<uuid:attempt_id>/", verdict_pages.attempt, name="attempt"),
    path("attempts/<uuid:attempt_id>/attribute/", verdict_pages.attribute, name="attribute"),
    path("attempts/<uuid:attempt_id>/log/", log_pages.log, name="log"),
    path("attempts/<uuid:attempt_id>/node/", verdict_pages.node, name="attempt-node"),
    path("attempts/<uuid:attempt_id>/progress/", verdict_pages.progress, name="progress"),
    path("attempts/<uuid:attempt_id>/collection/", source_pages.collection, name="collection"),
    path("attempts/<uuid:attempt_id>/collect/", source_pages.collect, name="collect"),
    path("sources/", source_pages.source_list, name="sources"),
    path("sources/check/", source_pages.check, name="sources-check"),
    path("rules/", rule_pages.catalogue_list, name="rules"),
    path("rules/coverage/", rule_pages.coverage, name="rule-coverage"),
    path("rules/unrecognised/", rule_pages.unrecognised, name="unrecognised"),
    path("rules/unrecognised/<str:digest>/", rule_pages.template_detail, name="template"),
    path("rules/drift/", rule_pages.drifted, name="drift"),
    path("rules/<str:rule_id>/", rule_pages.rule_detail, name="rule"),
    path("", include("verdicts.console_urls")),
]
