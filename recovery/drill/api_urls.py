"""The addresses of drills in the API."""

from django.urls import path

from recovery.drill import api

urlpatterns = [
    path("drills", api.Drills.as_view(), name="api-drills"),
    path("drills/standing", api.DrillStanding.as_view(), name="api-drills-standing"),
    path("drills/<uuid:pk>", api.DrillDetail.as_view(), name="api-drill"),
    path("drills/<uuid:pk>/report.<str:form>", api.DrillReport.as_view(), name="api-drill-report"),
]
