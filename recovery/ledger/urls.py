"""The addresses of the ledger's pages."""

from django.urls import path

from recovery.ledger import outcome_pages, pages

urlpatterns = [
    path("ledger/", pages.entries, name="ledger"),
    path("ledger/export/", pages.export, name="ledger-export"),
    path("ledger/outcomes/", outcome_pages.page, name="outcomes"),
    path("ledger/outcomes/export/<str:form>/", outcome_pages.export, name="outcomes-export"),
    path("ledger/<int:number>/", pages.entry, name="ledger-entry"),
    path("ledger/<int:number>/proof/", pages.proof, name="ledger-proof"),
]
