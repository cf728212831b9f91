"""The addresses of the ledger in the API."""

from django.urls import path

from recovery.ledger import api, outcome_api

urlpatterns = [
    path("ledger", api.Entries.as_view(), name="api-ledger"),
    path("ledger/checkpoints", api.Checkpoints.as_view(), name="api-ledger-checkpoints"),
    path("ledger/export", api.Export.as_view(), name="api-ledger-export"),
    path("outcomes", outcome_api.Outcomes.as_view(), name="api-outcomes"),
    path("outcomes/figures", outcome_api.OutcomeFigures.as_view(), name="api-outcome-figures"),
    path("ledger/<int:number>", api.EntryDetail.as_view(), name="api-ledger-entry"),
]
