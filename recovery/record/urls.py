"""The pages of records."""

from django.urls import path

from recovery.record import batch_pages, import_pages, pages

urlpatterns = [
    path("recovery/attempts/<uuid:attempt_id>/record/", pages.download, name="record"),
    path("records/", batch_pages.batches, name="batches"),
    path("records/ask/", batch_pages.ask, name="batch-ask"),
    path("records/import/", import_pages.upload, name="record-import"),
    path("records/<uuid:batch_id>/", batch_pages.batch, name="batch"),
    path("records/<uuid:batch_id>/stop/", batch_pages.stop, name="batch-stop"),
    path("records/<uuid:batch_id>/again/", batch_pages.again, name="batch-again"),
    path("records/<uuid:batch_id>/remove/", batch_pages.remove, name="batch-remove"),
    path("records/<uuid:batch_id>/whole/", batch_pages.download_whole, name="batch-whole"),
    path("records/<uuid:batch_id>/<uuid:attempt_id>/", batch_pages.download, name="batch-record"),
]
