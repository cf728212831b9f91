"""The site's settings as a process would find them that starts under another environment."""

from __future__ import annotations

import os
import runpy
from typing import Any
from unittest.mock import patch

from attribution_site import settings


def evaluated(**environment: str) -> dict[str, Any]:
    """All settings under an environment that has nothing but what is given.

    The module is run anew in this process: it has no effect but its names, and a Python of its own for each case costs
    half a second.
    """
    with patch.dict(os.environ, environment, clear=True):
        return runpy.run_path(settings.__file__)
