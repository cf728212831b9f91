"""Settings of the site, all of them from the environment. The table is in docs/settings.md."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta
from pathlib import Path

import django_stubs_ext
import environ
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse_lazy
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from attribution_site import api_settings, beat_settings, keep_settings, logs, sso_settings, webhooks
from attribution_site.secret import key_from
from rules.redact import Redactor
from rules.redaction_file import RedactionError, read_redaction_file

# Django's generic classes take their parameters at run time too: `Paginator[Verdict]`.
django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

DATA_DIR = Path(env.str("INQUEST_DATA_DIR", default="") or BASE_DIR / "var").resolve()
# A running `make demo` says here where its database and broker are, so that commands in another terminal
# find them. The environment wins.
env.read_env(DATA_DIR / "demo.env")

DEBUG = env.bool("DEBUG", default=False)


def _secret_key() -> str:
    if key := env.str("SECRET_KEY", default=""):
        return key
    path = Path(env.str("SECRET_KEY_FILE", default="") or DATA_DIR / "secret-key")
    try:
        return key_from(path)
    except OSError as error:
        raise ImproperlyConfigured(f"SECRET_KEY is not set and {path} cannot be used: {error}") from error


SECRET_KEY = _secret_key()
SECRET_KEY_FALLBACKS = env.list("SECRET_KEY_FALLBACKS", default=[])

# --- What the site is made of -------------------------------------------------------------------

INSTALLED_APPS = [
    "attribution_site.apps.SiteConfig",
    "verdicts.apps.VerdictsConfig",
    "recovery.apps.RecoveryConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "csp",
    "django_filters",
    "django_htmx",
    "template_partials.apps.SimpleAppConfig",
    "rest_framework",
    "knox",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "drf_standardized_errors",
]

MIDDLEWARE = [
    "attribution_site.middleware.RequestLog",
    # Before anything that asks for a host name or a session: probes have neither.
    "attribution_site.health.Health",
    "attribution_site.metrics.Metrics",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "attribution_site.middleware.Private",
    "attribution_site.middleware.Zone",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]

ROOT_URLCONF = "attribution_site.urls"
WSGI_APPLICATION = "attribution_site.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The cached loader hides edits to a template until a restart: not wanted while developing.
_LOADERS = ["django.template.loaders.filesystem.Loader", "django.template.loaders.app_directories.Loader"]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "template_partials.loader.Loader",
                    _LOADERS if DEBUG else [("django.template.loaders.cached.Loader", _LOADERS)],
                )
            ],
            "builtins": ["template_partials.templatetags.partials"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# --- Database, cache and broker -----------------------------------------------------------------


def _database(url: str) -> dict[str, object]:
    """Django's form of a libpq URL, so that every libpq option (sslmode, a socket folder, …) works."""
    try:
        parts = dict(conninfo_to_dict(url))
    except ProgrammingError as error:
        raise ImproperlyConfigured(f"DATABASE_URL is not a PostgreSQL URL: {error}") from error
    known = {name: str(parts.pop(name, "") or "") for name in ("dbname", "user", "password", "host", "port")}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": known["dbname"] or known["user"],
        "USER": known["user"],
        "PASSWORD": known["password"],
        "HOST": known["host"],
        "PORT": known["port"],
        "OPTIONS": {"connect_timeout": 5, "application_name": "inquest", **parts},
        "CONN_MAX_AGE": env.int("DATABASE_MAX_AGE", default=60),
        # A restart of the server costs one failed check, not one failed request.
        "CONN_HEALTH_CHECKS": True,
    }


DATABASES = {"default": _database(env.str("DATABASE_URL", default="postgresql://inquest@localhost/inquest"))}
CACHES = {"default": env.cache("CACHE_URL", default="locmemcache://")}

CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", default="redis://localhost:6379/0")
CELERY_TASK_DEFAULT_QUEUE = "inquest"
# A task is given back when its worker dies, and every task may run twice. What must not be lost is a row
# in the database, and `verdicts.sweep` sends it again: the broker only wakes workers, and those wake-ups are
# acknowledged when they come (see verdicts/tasks.py).
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_TIME_LIMIT = env.int("INQUEST_TASK_SECONDS", default=330)
CELERY_TASK_SOFT_TIME_LIMIT = int(CELERY_TASK_TIME_LIMIT * 0.9)
# Redis has no notion of a dead consumer, only of a message held too long: just above the longest task.
CELERY_BROKER_TRANSPORT_OPTIONS = (
    {"visibility_timeout": CELERY_TASK_TIME_LIMIT + 30}
    if CELERY_BROKER_URL.startswith(("redis", "rediss", "sentinel"))
    else {}
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_TIMEOUT = 4
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_MAX_TASKS_PER_CHILD = 500
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
# Nothing about the schedule is worth keeping in a file between starts.
CELERY_BEAT_SCHEDULER = "celery.beat.Scheduler"
CELERY_BEAT_SCHEDULE = beat_settings.read(env)

# --- Clusters -----------------------------------------------------------------------------------

# Which clusters there are and where their evidence is, see docs/collectors.md. Empty: nothing is collected.
INQUEST_CLUSTERS_FILE = env.str("INQUEST_CLUSTERS_FILE", default="")

# --- Recovery -----------------------------------------------------------------------------------

# Which schedulers may be acted on, see docs/recovery.md. Only the dispatcher's process needs it; empty: nothing acts.
INQUEST_RECOVERY_FILE = env.str("INQUEST_RECOVERY_FILE", default="")
# The kill switch: while this file is there, nothing is sent to a scheduler but what gives back.
INQUEST_RECOVERY_STOP_FILE = env.str("INQUEST_RECOVERY_STOP_FILE", default="") or str(DATA_DIR / "recovery.stop")

# How patient detection is, see docs/progress.md and recovery.progress.detect.Limits.
INQUEST_DETECTION = {
    "multiple": env.float("INQUEST_HANG_MULTIPLE", default=5.0),
    "floor": env.float("INQUEST_HANG_FLOOR_SECONDS", default=300.0),
    "pause": env.float("INQUEST_HANG_PAUSE_SECONDS", default=1_800.0),
    "start": env.float("INQUEST_HANG_START_SECONDS", default=3_600.0),
    "slower": env.float("INQUEST_STRAGGLER_RATIO", default=1.15),
    "window": env.float("INQUEST_STRAGGLER_SECONDS", default=900.0),
}

# --- The ledger ---------------------------------------------------------------------------------

# What signs checkpoints, made on first use, and where they are kept besides the database; see docs/ledger.md.
INQUEST_LEDGER_KEY_FILE = env.str("INQUEST_LEDGER_KEY_FILE", default="") or str(DATA_DIR / "ledger-key.pem")
INQUEST_LEDGER_CHECKPOINT_FILE = env.str("INQUEST_LEDGER_CHECKPOINT_FILE", default="") or str(
    DATA_DIR / "ledger-checkpoints.ndjson"
)
# The name of one of INQUEST_WEBHOOKS that each checkpoint is sent to as well.
INQUEST_LEDGER_CHECKPOINT_WEBHOOK = env.str("INQUEST_LEDGER_CHECKPOINT_WEBHOOK", default="")

# For how long a record that was exported may be kept, and who may have signed one that is imported here, besides this
# site itself: a file with a public key in PEM, or a line of 64 hex digits for each. See docs/records.md.
INQUEST_RECORD_DAYS = env.int("INQUEST_RECORD_DAYS", default=365)
INQUEST_RECORD_KEYS_FILE = env.str("INQUEST_RECORD_KEYS_FILE", default="")
# Where records that are exported many at once are kept until they are taken away: workers and web processes share it.
INQUEST_EXPORT_DIR = env.str("INQUEST_EXPORT_DIR", default="") or str(DATA_DIR / "exports")
INQUEST_EXPORT_DAYS = env.int("INQUEST_EXPORT_DAYS", default=7)
# So many are written at once: they must not keep attributions waiting.
INQUEST_EXPORT_WORKERS = env.int("INQUEST_EXPORT_WORKERS", default=2)

# --- Retention ----------------------------------------------------------------------------------

# For how many days each class of evidence is kept, by its word; 0 is for ever. See docs/retention.md.
INQUEST_KEEP_DAYS = keep_settings.read(env)

# A retention drill runs so often, 0 for never; it asks the site at this address, else at INQUEST_PUBLIC_URL. A file of
# certificates says who may have signed the site's own, where the system does not know. See docs/drill.md.
INQUEST_DRILL_HOURS = env.float("INQUEST_DRILL_HOURS", default=168.0)
if not 0 <= INQUEST_DRILL_HOURS <= 24 * 366:
    raise ImproperlyConfigured(f"INQUEST_DRILL_HOURS is {INQUEST_DRILL_HOURS:g}: give 0, or hours up to a year")
INQUEST_DRILL_URL = env.str("INQUEST_DRILL_URL", default="")
INQUEST_DRILL_CA_FILE = env.str("INQUEST_DRILL_CA_FILE", default="")

# --- The engine ---------------------------------------------------------------------------------

INQUEST_RULES_DIR = env.str("INQUEST_RULES_DIR", default="")
# How much of one source of one attempt is kept.
INQUEST_MAX_OBSERVATIONS = env.int("INQUEST_MAX_OBSERVATIONS", default=20_000)
INQUEST_MAX_OBSERVATION_CHARACTERS = env.int("INQUEST_MAX_OBSERVATION_CHARACTERS", default=32 * 1024 * 1024)
# Telling people of verdicts: mail by a server, webhooks at addresses that are named here and nowhere else.
EMAIL_URL = env.str("EMAIL_URL", default="")
globals().update(env.email_url_config(EMAIL_URL or "consolemail://"))
EMAIL_TIMEOUT = 20
DEFAULT_FROM_EMAIL = env.str("INQUEST_EMAIL_FROM", default="inquest@localhost")
WEBHOOKS = webhooks.read(env)
# How people reach the site, for links in what is sent: https://inquest.example.org
INQUEST_PUBLIC_URL = env.str("INQUEST_PUBLIC_URL", default="")
# What `inquest bench attribution --json` printed, for the page about quality.
INQUEST_BENCH_FILE = env.str("INQUEST_BENCH_FILE", default="")
# The daily look for parser drift compares so many days with as many before.
INQUEST_DRIFT_DAYS = env.int("INQUEST_DRIFT_DAYS", default=7)
if not 1 <= INQUEST_DRIFT_DAYS <= 180:
    raise ImproperlyConfigured(f"INQUEST_DRIFT_DAYS is {INQUEST_DRIFT_DAYS}: give 1 to 180 days")
# Who sends this as a bearer token may read /metrics from anywhere; loopback always may.
INQUEST_METRICS_TOKEN = env.str("INQUEST_METRICS_TOKEN", default="")

# --- Redaction: what is taken out of evidence and logs before they are written --------------------------


def _redactor() -> Redactor:
    file = env.str("INQUEST_REDACTION_FILE", default="")
    key_file = env.str("INQUEST_REDACTION_KEY_FILE", default="")
    try:
        extra = read_redaction_file(Path(file)) if file else ()
        key = Path(key_file).read_text().strip() if key_file else env.str("INQUEST_REDACTION_KEY", default="")
    except RedactionError as error:
        raise ImproperlyConfigured(f"INQUEST_REDACTION_FILE: {error}") from error
    except OSError as error:
        name = "INQUEST_REDACTION_KEY_FILE" if error.filename == key_file else "INQUEST_REDACTION_FILE"
        raise ImproperlyConfigured(f"{name}: {error}") from error
    if key and len(key) < 16:
        raise ImproperlyConfigured("INQUEST_REDACTION_KEY has fewer than 16 characters: its tags could be guessed")
    # Equal secrets have equal tags on one site; without the key a tag says nothing.
    made = hmac.new((key or SECRET_KEY).encode(), b"inquest: tags of redacted secrets", hashlib.sha256).digest()
    return Redactor(emails=env.bool("INQUEST_REDACT_EMAILS", default=True), extra=extra, key=made)


INQUEST_REDACTOR = _redactor()

# --- People and tokens --------------------------------------------------------------------------

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = reverse_lazy("login")
# Whether accounts with a password of this site may be used; without, single sign-on is the only way in.
PASSWORD_LOGIN = env.bool("INQUEST_PASSWORD_LOGIN", default=True)
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = reverse_lazy("login")
SESSION_COOKIE_AGE = env.int("INQUEST_SESSION_SECONDS", default=12 * 3600)
# Wrong passwords within five minutes, by account and by address, before the login page asks to wait.
LOGIN_FAILURES_ALLOWED = env.int("INQUEST_LOGIN_FAILURES", default=10)
LOGIN_FAILURES_SECONDS = 300

# --- Single sign-on (attribution_site/sso.py) ---------------------------------------------------------

OIDC = sso_settings.read(env, password_login=PASSWORD_LOGIN)
ACCOUNT_ADAPTER = "attribution_site.sso.Accounts"
SOCIALACCOUNT_ADAPTER = "attribution_site.sso.People"
ACCOUNT_EMAIL_VERIFICATION = SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_REQUESTS_TIMEOUT = 10

# --- The network around it ----------------------------------------------------------------------

ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

# How many proxies of ours stand in front: so many entries of X-Forwarded-For are believed, and
# X-Forwarded-Proto only if there is one. Anybody can send these headers.
PROXIES = env.int("INQUEST_PROXIES", default=0)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PROXIES else None

HTTPS = env.bool("INQUEST_HTTPS", default=True)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = env.int("INQUEST_HSTS_SECONDS", default=30 * 24 * 3600) if HTTPS else 0
SECURE_SSL_REDIRECT = env.bool("INQUEST_HTTPS_REDIRECT", default=False)
# Subdomains, preload lists and the redirect belong to whoever has the domain and the proxy.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W008", "security.W021"]
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        # The style sheet carries its arrows and check marks as data: pictures.
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "manifest-src": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}

# One batch of observations, or one form. The views set their own, lower limits.
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024

# --- Incidents that people send through the pages or the API --------------------------------------

# The files of a request are dropped unread, except by the views that ask for them (verdicts/upload/store.py).
FILE_UPLOAD_HANDLERS: list[str] = []
FILE_UPLOAD_TEMP_DIR = env.str("INQUEST_UPLOAD_DIR", default="") or None
DATA_UPLOAD_MAX_NUMBER_FILES = 200
#: What one request may bring, what it may unpack to in all and in one file, and in how many files.
INQUEST_UPLOAD_BYTES = env.int("INQUEST_UPLOAD_BYTES", default=256 * 1024 * 1024)
INQUEST_UPLOAD_UNPACKED_BYTES = env.int("INQUEST_UPLOAD_UNPACKED_BYTES", default=1024 * 1024 * 1024)
INQUEST_UPLOAD_FILE_BYTES = env.int("INQUEST_UPLOAD_FILE_BYTES", default=512 * 1024 * 1024)
INQUEST_UPLOAD_FILES = env.int("INQUEST_UPLOAD_FILES", default=20_000)

# --- Static files, time and language ------------------------------------------------------------

STATIC_URL = "static/"
STATIC_ROOT = Path(env.str("INQUEST_STATIC_ROOT", default="") or DATA_DIR / "static")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = DEBUG

LANGUAGE_CODE = "en-us"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

# --- API ----------------------------------------------------------------------------------------

REST_FRAMEWORK = api_settings.rest_framework(env, PROXIES)
REST_KNOX = {
    "TOKEN_TTL": timedelta(days=env.int("INQUEST_TOKEN_DAYS", default=30)),
    "TOKEN_LIMIT_PER_USER": 20,
    "AUTO_REFRESH": False,
    "TOKEN_PREFIX": "inq_",
}
SPECTACULAR_SETTINGS = api_settings.SCHEMA

# --- Logs ---------------------------------------------------------------------------------------

LOG_LEVEL = env.str("LOG_LEVEL", default="INFO").upper()
LOG_FORMAT = env.str("LOG_FORMAT", default="console" if DEBUG else "json")
LOGGING_CONFIG = None
logs.configure(level=LOG_LEVEL, form=LOG_FORMAT, redactor=INQUEST_REDACTOR)
