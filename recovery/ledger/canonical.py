"""JSON with one spelling (RFC 8785): what is hashed and signed is these bytes.

Written here because the rules differ from what any JSON encoder at hand does: members are sorted by UTF-16 code
units and numbers are spelled as ECMAScript spells them.
"""

import math
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any

#: Beyond it a reader that has only IEEE doubles would read another number.
MOST_INTEGER = 2**53 - 1


class NotCanonical(ValueError):
    """A value that has no canonical form; the message says where it is and what to do."""


def canonical(value: Any) -> bytes:
    """The canonical JSON of plain data: None, booleans, numbers, text, lists, tuples and mappings with text keys.

    Raises NotCanonical for numbers that are not finite, for integers that a double cannot hold (give them as text),
    for text that has no UTF-8 and for anything else.
    """
    try:
        return "".join(_parts(value, "")).encode()
    except UnicodeEncodeError as error:
        raise NotCanonical("a text has half a surrogate pair, which has no UTF-8") from error


def _parts(value: Any, where: str) -> Iterator[str]:
    if value is None:
        yield "null"
    elif value is True:
        yield "true"
    elif value is False:
        yield "false"
    elif isinstance(value, str):
        # Escapes exactly what RFC 8785 wants escaped, in the same spelling.
        yield encode_basestring(value)
    elif isinstance(value, int):
        if abs(value) > MOST_INTEGER:
            raise NotCanonical(f"{where or 'the value'} is an integer beyond 2^53: give it as text")
        yield int.__repr__(value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise NotCanonical(f"{where or 'the value'} is {value}, which JSON cannot say")
        yield _float(value)
    elif isinstance(value, list | tuple):
        before = "["
        for number, item in enumerate(value):
            yield before
            yield from _parts(item, f"{where}[{number}]")
            before = ","
        yield "]" if value else "[]"
    elif isinstance(value, dict):
        yield from _members(value, where)
    else:
        raise NotCanonical(f"{where or 'the value'} is a {type(value).__name__}, which is not plain data")


def _members(value: dict[Any, Any], where: str) -> Iterator[str]:
    for key in value:
        if not isinstance(key, str):
            raise NotCanonical(f"{where or 'the value'} has the key {key!r}: keys are text")
    before = "{"
    for key in sorted(value, key=_utf16) if len(value) > 1 else value:
        yield before
        yield encode_basestring(key)
        yield ":"
        yield from _parts(value[key], f"{where}.{key}" if where else key)
        before = ","
    yield "}" if value else "{}"


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _float(value: float) -> str:
    """As ECMAScript's Number::toString spells it: the shortest digits that read back, in its own layout."""
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = float.__repr__(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # Where the point stands, counted from the first digit that is not nought.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f"e{point - 1:+d}"
    return sign + digits[0] + (f".{digits[1:]}" if count > 1 else "") + tail
