"""What is logged has no secrets: not in the event, its fields, the text of an exception, in either form."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import logging
import structlog
from attribution_site import logs
logs.configure(level="INFO", form="{form}")
log = logging.getLogger("a.b")
log.info("connecting to %s", "postgresql://ada:s3cretpass@db/x", extra={{"api_key": "s3cretpass", "tries": 3}})
structlog.get_logger().info("asked", headers={{"Authorization": "Bearer s3cretpass12345678"}}, to=["ada@example.org"])
try:
    raise ValueError("PGPASSWORD=s3cretpass psql")
except ValueError:
    log.exception("failed")
"""


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_secret_is_logged(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(form=form)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "s3cretpass" not in done.stderr
    assert "ada@example.org" not in done.stderr
    for wanted in (
        "ada:[redacted: password]@db",
        "Bearer [redacted: token]",
        "PGPASSWORD=[redacted: secret]",
        "Traceback",
    ):
        assert wanted in done.stderr
    if form == "json":
        first, second, third = map(json.loads, done.stderr.splitlines())
        assert (first["api_key"], first["tries"]) == ("[redacted: secret]", 3)
        assert second["to"] == ["[redacted: e-mail address]"]
        assert third["event"] == "failed"
