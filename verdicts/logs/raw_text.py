"""Text out of logs made safe to look at: what would not be seen, or would move or hide other text, is spelled out."""

import re

#: Controls, and the characters that reorder or hide text: all are shown, none is obeyed.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")


def code(match: re.Match[str]) -> str:
    """One such character as `\\x1b` or `\\u202e`."""
    point = ord(match.group())
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}"


def spelled(text: object) -> str:
    """The text with such characters spelled out, for places that take no markup."""
    return UNSEEN.sub(code, str(text))
