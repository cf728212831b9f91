"""The pages of replays."""

from django.urls import path

from recovery.replay import pages

urlpatterns = [
    path("recovery/replays/", pages.replay_list, name="replays"),
    path("recovery/replays/+new/", pages.replay_new, name="replay-new"),
    path("recovery/replays/<uuid:replay_id>/", pages.replay, name="replay"),
    path("recovery/replays/<uuid:replay_id>/cancel/", pages.cancel, name="replay-cancel"),
    path("recovery/replays/<uuid:replay_id>/resume/", pages.resume, name="replay-resume"),
    path("recovery/replays/<uuid:replay_id>/judge/", pages.judge_items, name="replay-judge"),
    path("recovery/replays/<uuid:replay_id>/export.<slug:form>", pages.export, name="replay-export"),
]
