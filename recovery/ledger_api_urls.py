"""The addresses of the ledger in the API."""

from django.urls import path

from recovery import ledger_api

urlpatterns = [
    path("ledger", ledger_api.Entries.as_view(), name="api-ledger"),
    path("ledger/checkpoints", ledger_api.Checkpoints.as_view(), name="api-ledger-checkpoints"),
    path("ledger/export", ledger_api.Export.as_view(), name="api-ledger-export"),
    path("ledger/<int:number>", ledger_api.EntryDetail.as_view(), name="api-ledger-entry"),
]
