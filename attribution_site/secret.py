"""Where the site's secret key comes from."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path


def key_from(path: Path) -> str:
    """The key kept in `path`, made on first use and readable by its owner alone.

    Two processes may come first at the same time: each writes its own file and links it into place, and
    the link that loses is ignored.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".secret-key-")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_urlsafe(64))
            with contextlib.suppress(FileExistsError):
                os.link(name, path)
        finally:
            Path(name).unlink()
    return path.read_text().strip()
