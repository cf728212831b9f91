"""An expression without the repeats at its end, which an automaton would report character by character.

Whether `a.*` is found in a line says no more than whether `a` is, and `[0-9]+` no more than `[0-9]`; an automaton
that tells every end of a match tells the longer forms once for each character of a line of megabytes. `trimmed`
finds a match wherever the whole expression does, and nowhere else.
"""

import re

_ATOM = re.compile(
    r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|0[0-7]{0,2}|[\s\S])|\[\^?\]?(?:\\[\s\S]|[^\]\\])*\]|[^()|]"
)
_OPEN = re.compile(r"\((?:\?(?:P<\w+>|:|[a-z]+:))?(?!\?)")
_TIMES = re.compile(r"(?P<times>[*+?]|\{\d+(?:,\d*)?\})[?+]?")

#: (text, the branches of a group or None, the group's opening, fewest times, what stands behind it)
_Item = tuple[str, "list[list[_Item]] | None", str, int, str]


class _Unread(ValueError):
    """The expression has a form that is not read here."""


def trimmed(expression: str) -> str:
    """The expression, found in the same lines, without what is optional or repeated at its end; itself if not read."""
    try:
        branches, end = _branches(expression, 0)
        if end != len(expression):
            raise _Unread
    except _Unread:
        return expression
    parts = [_trim(branch) for branch in branches]
    return "|".join(parts) if all(parts) else expression


def _branches(text: str, at: int) -> tuple[list[list[_Item]], int]:
    """The alternatives from a place on, and where they end: behind the text or at a closing bracket."""
    found: list[list[_Item]] = [[]]
    while at < len(text) and text[at] != ")":
        if text[at] == "|":
            found.append([])
            at += 1
            continue
        start, opening, inner = at, "", None
        if text[at] == "(":
            opened = _OPEN.match(text, at)
            if opened is None:
                raise _Unread
            opening = opened[0]
            inner, at = _branches(text, opened.end())
            if at == len(text):
                raise _Unread
            at += 1
        elif atom := _ATOM.match(text, at):
            at = atom.end()
        else:
            raise _Unread
        times = _TIMES.match(text, at)
        suffix = times[0] if times else ""
        found[-1].append((text[start:at], inner, opening, _fewest(times["times"] if times else ""), suffix))
        at += len(suffix)
    return found, at


def _fewest(times: str) -> int:
    if times in ("*", "?"):
        return 0
    return int(re.findall(r"\d+", times)[0]) if times.startswith("{") else 1


def _trim(items: list[_Item]) -> str:
    """A sequence up to what must be there last, that part no longer than it must be; "" when nothing must be."""
    for index in range(len(items) - 1, -1, -1):
        text, inner, opening, fewest, _ = items[index]
        if fewest == 0:
            continue
        last = text
        if inner is not None:
            parts = [_trim(branch) for branch in inner]
            if not all(parts):
                continue
            if fewest == 1:
                last = f"{opening}{'|'.join(parts)})"
        before = "".join(item[0] + item[4] for item in items[:index])
        return before + last + (f"{{{fewest}}}" if fewest > 1 else "")
    return ""
