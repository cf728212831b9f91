"""The API's addresses of records, under /api/v1/."""

from django.urls import path

from recovery.record import api, batch_api

urlpatterns = [
    path("attempts/<uuid:pk>/record", api.AttemptRecord.as_view(), name="api-attempt-record"),
    path("records", api.Records.as_view(), name="api-records"),
    path("record-batches", batch_api.Batches.as_view(), name="api-batches"),
    path("record-batches/<uuid:pk>", batch_api.Batch.as_view(), name="api-batch"),
    path("record-batches/<uuid:pk>/records", batch_api.BatchRecords.as_view(), name="api-batch-records"),
    path("record-batches/<uuid:pk>/file", batch_api.WholeBatch.as_view(), name="api-batch-whole"),
    path("record-batches/<uuid:pk>/stop", batch_api.StopBatch.as_view(), name="api-batch-stop"),
    path("record-batches/<uuid:pk>/again", batch_api.BatchAgain.as_view(), name="api-batch-again"),
    path("record-batches/<uuid:pk>/records/<uuid:attempt>", batch_api.BatchFile.as_view(), name="api-batch-file"),
]
