"""The addresses of what stands around verdicts and rules: first steps and uploads."""

from django.urls import path

from verdicts import preferences_pages, upload_pages

urlpatterns = [
    path("start/", upload_pages.start, name="first-steps"),
    path("start/samples/<str:sample>/", upload_pages.sample, name="sample"),
    path("upload/", upload_pages.upload, name="upload"),
    path("preferences/", preferences_pages.page, name="preferences"),
]
