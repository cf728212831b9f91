"""The addresses of the list and the overview."""

from django.urls import path

from verdicts import list_pages, overview

urlpatterns = [
    path("", overview.page, name="start"),
    path("verdicts/", list_pages.verdict_list, name="list"),
    path("verdicts/rows/", list_pages.rows, name="rows"),
    path("verdicts/export/<str:form>/", list_pages.export, name="export"),
    path("verdicts/bulk/", list_pages.apply_bulk, name="bulk"),
    path("verdicts/views/", list_pages.keep_view, name="view-save"),
    path("verdicts/views/<uuid:view_id>/delete/", list_pages.drop_view, name="view-delete"),
    path("verdicts/keys/", list_pages.shortcuts, name="shortcuts"),
]
