"""The pages of proposals and of what keeps them from harm."""

from django.urls import path

from recovery.review import guard_pages, pages, propose_pages, quality_pages

urlpatterns = [
    path("recovery/", pages.queue, name="queue"),
    path("recovery/quality/", quality_pages.part, name="quality"),
    path("recovery/waiting/", pages.waiting, name="waiting"),
    path("recovery/proposals/<uuid:proposal_id>/", pages.proposal, name="proposal"),
    path("recovery/proposals/<uuid:proposal_id>/decision/", pages.decision, name="decision"),
    path("recovery/attempts/<uuid:attempt_id>/proposals/", pages.of_attempt, name="of-attempt"),
    path("recovery/nodes/<uuid:node_id>/", pages.of_node, name="of-node"),
    path("recovery/attempts/<uuid:attempt_id>/propose/", propose_pages.propose_by_hand, name="propose"),
    path("recovery/exclusions/", guard_pages.exclusion_list, name="exclusions"),
    path("recovery/exclusions/<int:exclusion_id>/lift/", guard_pages.lift, name="lift"),
    path("recovery/incidents/", guard_pages.incident_list, name="incidents"),
    path("recovery/incidents/<uuid:incident_id>/close/", guard_pages.incident_close, name="incident-close"),
    path("recovery/brakes/", guard_pages.brake_list, name="brakes"),
    path("recovery/brakes/pull/", guard_pages.brake_pull, name="brake-pull"),
    path("recovery/brakes/<uuid:brake_id>/release/", guard_pages.brake_release, name="brake-release"),
    path("recovery/vetoes/set/", guard_pages.veto_set, name="veto-set"),
    path("recovery/vetoes/<uuid:veto_id>/end/", guard_pages.veto_end, name="veto-end"),
]
