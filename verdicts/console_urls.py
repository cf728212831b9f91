"""The addresses of what stands around verdicts and rules: the fleet, quality, uploads, settings."""

from django.urls import path

from verdicts.fleet import pages as fleet_pages
from verdicts.fleet import port_pages as fleet_port_pages
from verdicts.people import preferences_pages, subscribe_pages
from verdicts.quality import pages as quality_pages
from verdicts.rulebook import try_pages
from verdicts.upload import pages as upload_pages

urlpatterns = [
    path("fleet/", fleet_pages.nodes, name="fleet"),
    path("fleet/nodes/<uuid:node_id>/", fleet_pages.node, name="node"),
    path("fleet/nodes/<uuid:node_id>/gpu/", fleet_pages.gpu, name="gpu"),
    path("fleet/elements/", fleet_pages.topology, name="topology"),
    path("fleet/elements/<str:kind>/<path:element>/", fleet_pages.element, name="element"),
    path("fleet/ports/", fleet_port_pages.ports, name="ports"),
    path("fleet/ports/one/", fleet_port_pages.port, name="port"),
    path("fleet/comparison/", fleet_pages.comparison, name="comparison"),
    path("start/", upload_pages.start, name="first-steps"),
    path("start/samples/<str:sample>/", upload_pages.sample, name="sample"),
    path("upload/", upload_pages.upload, name="upload"),
    path("preferences/", preferences_pages.page, name="preferences"),
    path("quality/", quality_pages.page, name="quality"),
    path("try/", try_pages.page, name="try"),
    path("subscriptions/", subscribe_pages.page, name="subscriptions"),
    path("subscriptions/<uuid:subscription_id>/", subscribe_pages.change, name="subscription"),
    path("subscriptions/mentions/", subscribe_pages.seen, name="mentions-seen"),
]
