"""The addresses of the ledger's pages."""

from django.urls import path

from recovery import ledger_pages

urlpatterns = [
    path("ledger/", ledger_pages.entries, name="ledger"),
    path("ledger/export/", ledger_pages.export, name="ledger-export"),
    path("ledger/<int:number>/", ledger_pages.entry, name="ledger-entry"),
    path("ledger/<int:number>/proof/", ledger_pages.proof, name="ledger-proof"),
]
