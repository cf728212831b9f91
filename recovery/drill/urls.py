"""The addresses of drills."""

from django.urls import path

from recovery.drill import pages

urlpatterns = [
    path("recovery/drills/", pages.drills, name="drills"),
    path("recovery/drills/run/", pages.ask, name="drill-run"),
    path("recovery/drills/<uuid:drill_id>/", pages.drill, name="drill"),
    path("recovery/drills/<uuid:drill_id>/report.<str:form>", pages.file, name="drill-report"),
]
