"""The addresses of the list and the overview."""

from django.urls import path

from verdicts.listing import pages
from verdicts.overview import pages as overview

urlpatterns = [
    path("", overview.page, name="start"),
    path("verdicts/", pages.verdict_list, name="list"),
    path("verdicts/rows/", pages.rows, name="rows"),
    path("verdicts/export/<str:form>/", pages.export, name="export"),
    path("verdicts/bulk/", pages.apply_bulk, name="bulk"),
    path("verdicts/views/", pages.keep_view, name="view-save"),
    path("verdicts/views/<uuid:view_id>/delete/", pages.drop_view, name="view-delete"),
    path("verdicts/keys/", pages.shortcuts, name="shortcuts"),
]
