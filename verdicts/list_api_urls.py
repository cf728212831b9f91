"""The addresses of the list in the API, under /api/v1/."""

from django.urls import path

from verdicts import list_api

urlpatterns = [
    path("", list_api.Root.as_view(), name="api-root"),
    path("overview", list_api.OverviewNumbers.as_view(), name="api-overview"),
    path("verdicts", list_api.Verdicts.as_view(), name="api-verdicts"),
    path("verdicts/export.<str:form>", list_api.Export.as_view(), name="api-export"),
    path("verdicts/bulk", list_api.Bulk.as_view(), name="api-bulk"),
    path("views", list_api.Views.as_view(), name="api-views"),
    path("views/<uuid:pk>", list_api.View.as_view(), name="api-view"),
    path("preferences", list_api.Preferences.as_view(), name="api-preferences"),
]
