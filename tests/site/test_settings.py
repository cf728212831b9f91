"""Settings as a process sees them."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from attribution_site.secret import key_from
from tests.site.evaluated import evaluated


def settings(folder: Path, *names: str, **environment: str) -> dict[str, Any]:
    """The named settings, as JSON has them."""
    found = evaluated(INQUEST_DATA_DIR=str(folder), **environment)
    named: dict[str, Any] = json.loads(json.dumps({name: found[name] for name in names}, default=str))
    return named


def test_without_any_setting_the_site_is_closed(tmp_path: Path) -> None:
    names = ["DEBUG", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_PROXY_SSL_HEADER", "SECURE_HSTS_SECONDS"]
    found = settings(tmp_path, *names, "ALLOWED_HOSTS", "SESSION_COOKIE_HTTPONLY", "CSRF_COOKIE_HTTPONLY")
    assert found["DEBUG"] is False
    assert found["SESSION_COOKIE_SECURE"] is found["CSRF_COOKIE_SECURE"] is True
    assert found["SESSION_COOKIE_HTTPONLY"] is found["CSRF_COOKIE_HTTPONLY"] is True
    assert found["SECURE_PROXY_SSL_HEADER"] is None
    assert found["SECURE_HSTS_SECONDS"] == 30 * 24 * 3600
    assert found["ALLOWED_HOSTS"] == ["localhost", "127.0.0.1", "[::1]"]


def test_a_forwarded_scheme_is_believed_only_behind_a_proxy(tmp_path: Path) -> None:
    found = settings(tmp_path, "SECURE_PROXY_SSL_HEADER", INQUEST_PROXIES="1")
    assert found["SECURE_PROXY_SSL_HEADER"] == ["HTTP_X_FORWARDED_PROTO", "https"]


def test_the_content_policy_allows_no_inline_script_or_style(tmp_path: Path) -> None:
    policy = settings(tmp_path, "CONTENT_SECURITY_POLICY")["CONTENT_SECURITY_POLICY"]
    assert "unsafe" not in json.dumps(policy)
    assert policy["DIRECTIVES"]["script-src"] == ["'self'"]


def test_a_secret_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    first = settings(tmp_path, "SECRET_KEY")["SECRET_KEY"]
    assert isinstance(first, str)
    assert len(first) > 60
    assert settings(tmp_path, "SECRET_KEY")["SECRET_KEY"] == first
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret-key"]


def test_a_secret_key_comes_from_the_environment_first(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from the file\n")
    assert settings(tmp_path, "SECRET_KEY", SECRET_KEY_FILE=str(file))["SECRET_KEY"] == "from the file"
    both = settings(tmp_path, "SECRET_KEY", SECRET_KEY="given", SECRET_KEY_FILE=str(file))
    assert both["SECRET_KEY"] == "given"


def test_a_secret_key_that_cannot_be_kept_says_what_to_set(tmp_path: Path) -> None:
    file = tmp_path / "not-a-folder"
    file.touch()
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY is not set"):
        settings(file, "SECRET_KEY")


def test_an_existing_key_is_kept_when_another_process_was_first(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("theirs")
    assert key_from(tmp_path / "key") == "theirs"


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://me:p%40ss@db.example:6432/store?sslmode=require", ("store", "me", "p@ss", "db.example", "6432")),
        ("postgresql://me@/store?host=%2Frun%2Fa%20b", ("store", "me", "", "/run/a b", "")),
        ("postgresql://me@db", ("me", "me", "", "db", "")),
    ],
)
def test_a_database_url_may_be_any_that_libpq_takes(tmp_path: Path, url: str, wanted: tuple[str, ...]) -> None:
    default = settings(tmp_path, "DATABASES", DATABASE_URL=url)["DATABASES"]["default"]
    assert tuple(default[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")) == wanted
    assert ("sslmode" in default["OPTIONS"]) == ("sslmode" in url)


def test_a_wrong_database_url_is_named_by_its_setting(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL is not a PostgreSQL URL"):
        settings(tmp_path, "DATABASES", DATABASE_URL="mysql://root@localhost/x")


def test_a_running_demo_is_found_and_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "demo.env").write_text("CELERY_BROKER_URL=redis+socket:///run/demo\n")
    assert settings(tmp_path, "CELERY_BROKER_URL")["CELERY_BROKER_URL"] == "redis+socket:///run/demo"
    given = settings(tmp_path, "CELERY_BROKER_URL", CELERY_BROKER_URL="amqp://broker")
    assert given["CELERY_BROKER_URL"] == "amqp://broker"


def test_redis_holds_a_message_longer_than_the_longest_task(tmp_path: Path) -> None:
    names = ["CELERY_BROKER_TRANSPORT_OPTIONS", "CELERY_TASK_TIME_LIMIT"]
    found = settings(tmp_path, *names, CELERY_BROKER_URL="redis://localhost")
    options = found["CELERY_BROKER_TRANSPORT_OPTIONS"]
    assert options["visibility_timeout"] > found["CELERY_TASK_TIME_LIMIT"]
    assert settings(tmp_path, *names, CELERY_BROKER_URL="amqp://x")["CELERY_BROKER_TRANSPORT_OPTIONS"] == {}
