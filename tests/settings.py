"""Settings of the tests: those of the site, away from what `make demo` keeps under var/."""

import os
import tempfile
from pathlib import Path

# A process that a test starts, and perhaps kills, works in the folder of its tests.
if not (_folder := os.environ.get("INQUEST_TESTS_FOLDER")):
    _made = tempfile.TemporaryDirectory(prefix="inquest-tests-")
    _folder = os.environ["INQUEST_TESTS_FOLDER"] = _made.name
os.environ["INQUEST_DATA_DIR"] = _folder
os.environ.setdefault("SECRET_KEY", "for tests only, known to everybody")
os.environ.setdefault("CELERY_BROKER_URL", "memory://")
os.environ["INQUEST_HTTPS"] = "false"
os.environ.setdefault("LOG_LEVEL", "WARNING")

from attribution_site.settings import *  # noqa: F403

# As slow as it should be for people, too slow for every test.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
Path(_folder, "static").mkdir(exist_ok=True)
