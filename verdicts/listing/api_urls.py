"""The addresses of the list in the API, under /api/v1/."""

from django.urls import path

from verdicts.listing import api

urlpatterns = [
    path("", api.Root.as_view(), name="api-root"),
    path("overview", api.OverviewNumbers.as_view(), name="api-overview"),
    path("verdicts", api.Verdicts.as_view(), name="api-verdicts"),
    path("verdicts/export.<str:form>", api.Export.as_view(), name="api-export"),
    path("verdicts/bulk", api.Bulk.as_view(), name="api-bulk"),
    path("views", api.Views.as_view(), name="api-views"),
    path("views/<uuid:pk>", api.View.as_view(), name="api-view"),
    path("preferences", api.Preferences.as_view(), name="api-preferences"),
]
