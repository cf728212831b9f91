"""The API's addresses of what stands around verdicts and rules, under /api/v1/."""

from django.urls import path

from verdicts.fleet import api as fleet_api
from verdicts.fleet import port_pages as fleet_port_pages
from verdicts.people import preferences_pages, subscribe_pages
from verdicts.quality import pages as quality_pages
from verdicts.rulebook import try_pages
from verdicts.upload import api as upload_api

urlpatterns = [
    path("fleet/nodes", fleet_api.Nodes.as_view(), name="api-fleet-nodes"),
    path("fleet/nodes/<uuid:node_id>", fleet_api.NodeDetail.as_view(), name="api-fleet-node"),
    path("fleet/elements", fleet_api.Elements.as_view(), name="api-fleet-elements"),
    path("fleet/ports", fleet_port_pages.Ports.as_view(), name="api-fleet-ports"),
    path("fleet/ports/one", fleet_port_pages.PortDetail.as_view(), name="api-fleet-port"),
    path("fleet/comparison", fleet_api.Comparison.as_view(), name="api-fleet-comparison"),
    path("incidents", upload_api.Incidents.as_view(), name="api-incidents"),
    path("me", preferences_pages.Me.as_view(), name="api-me"),
    path("quality", quality_pages.Figures.as_view(), name="api-quality"),
    path("try", try_pages.Try.as_view(), name="api-try"),
    path("subscriptions", subscribe_pages.Subscriptions.as_view(), name="api-subscriptions"),
    path("subscriptions/<uuid:subscription_id>", subscribe_pages.SubscriptionDetail.as_view(), name="api-subscription"),
]
