"""What a page says, without its markup."""

import re
from typing import Any


def text_of(response: Any) -> str:
    """The page's words, white space folded."""
    html = response.content.decode()
    html = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))
