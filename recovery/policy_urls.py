"""The pages of policies and labels."""

from django.urls import path

from recovery import label_pages, policy_pages

urlpatterns = [
    path("recovery/policies/", policy_pages.policy_list, name="policies"),
    path("recovery/policies/+new/", policy_pages.policy_new, name="policy-new"),
    path("recovery/policies/<slug:name>/", policy_pages.policy_detail, name="policy"),
    path("recovery/policies/<slug:name>/change/", policy_pages.policy_change, name="policy-change"),
    path("recovery/policies/<slug:name>/retire/", policy_pages.policy_retire, name="policy-retire"),
    path("recovery/scopes/<uuid:scope_id>/promote/", policy_pages.promote, name="promote"),
    path("recovery/scopes/<uuid:scope_id>/demote/", policy_pages.demote, name="demote"),
    path("recovery/promotions/<uuid:promotion_id>/", policy_pages.promotion, name="promotion"),
    path("recovery/labels/", label_pages.label_list, name="labels"),
    path("recovery/proposals/<uuid:proposal_id>/label/", label_pages.label, name="label"),
    path("recovery/proposals/<uuid:proposal_id>/outcome/", label_pages.tell_outcome, name="outcome"),
]
