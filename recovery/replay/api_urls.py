"""The API's addresses of replays, under /api/v1/recovery/."""

from django.urls import path

from recovery.replay import api

urlpatterns = [
    path("recovery/replays", api.Replays.as_view(), name="api-replays"),
    path("recovery/replays/rulesets", api.Rulesets.as_view(), name="api-replay-rulesets"),
    path("recovery/replays/gate", api.GateOf.as_view(), name="api-replay-gate"),
    path("recovery/replays/<uuid:pk>", api.ReplayDetail.as_view(), name="api-replay"),
    path("recovery/replays/<uuid:pk>/items", api.Items.as_view(), name="api-replay-items"),
    path("recovery/replays/<uuid:pk>/items.<slug:form>", api.ItemsFile.as_view(), name="api-replay-file"),
    path("recovery/replays/<uuid:pk>/cancel", api.Cancel.as_view(), name="api-replay-cancel"),
    path("recovery/replays/<uuid:pk>/resume", api.Resume.as_view(), name="api-replay-resume"),
    path("recovery/replays/<uuid:pk>/judgement", api.Judge.as_view(), name="api-replay-judgement"),
]
