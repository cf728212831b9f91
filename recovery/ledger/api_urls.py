"""The addresses of the ledger in the API."""

from django.urls import path

from recovery.ledger import api

urlpatterns = [
    path("ledger", api.Entries.as_view(), name="api-ledger"),
    path("ledger/checkpoints", api.Checkpoints.as_view(), name="api-ledger-checkpoints"),
    path("ledger/export", api.Export.as_view(), name="api-ledger-export"),
    path("ledger/<int:number>", api.EntryDetail.as_view(), name="api-ledger-entry"),
]
