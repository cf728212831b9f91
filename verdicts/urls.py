"""The addresses of the verdict pages."""

from django.urls import path
from django.views.generic import RedirectView

from verdicts import pages

app_name = "verdicts"

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="verdicts:list"), name="start"),
    path("verdicts/", pages.verdict_list, name="list"),
    path("verdicts/<uuid:verdict_id>/", pages.verdict_detail, name="detail"),
    path("verdicts/<uuid:verdict_id>/review/", pages.review, name="review"),
    path("attempts/<uuid:attempt_id>/", pages.attempt, name="attempt"),
    path("attempts/<uuid:attempt_id>/attribute/", pages.attribute, name="attribute"),
    path("attempts/<uuid:attempt_id>/progress/", pages.progress, name="progress"),
]
