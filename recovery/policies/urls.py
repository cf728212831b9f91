"""The pages of policies and labels."""

from django.urls import path

from recovery.policies import label_pages, pages

urlpatterns = [
    path("recovery/policies/", pages.policy_list, name="policies"),
    path("recovery/policies/+new/", pages.policy_new, name="policy-new"),
    path("recovery/policies/<slug:name>/", pages.policy_detail, name="policy"),
    path("recovery/policies/<slug:name>/change/", pages.policy_change, name="policy-change"),
    path("recovery/policies/<slug:name>/retire/", pages.policy_retire, name="policy-retire"),
    path("recovery/scopes/<uuid:scope_id>/promote/", pages.promote, name="promote"),
    path("recovery/scopes/<uuid:scope_id>/demote/", pages.demote, name="demote"),
    path("recovery/promotions/<uuid:promotion_id>/", pages.promotion, name="promotion"),
    path("recovery/labels/", label_pages.label_list, name="labels"),
    path("recovery/proposals/<uuid:proposal_id>/label/", label_pages.label, name="label"),
    path("recovery/proposals/<uuid:proposal_id>/outcome/", label_pages.tell_outcome, name="outcome"),
]
