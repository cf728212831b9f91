"""Values as the versions of Slurm write them: numbers that may be unset, states with flags, exit codes, text of users.

Text from users (job names, comments) and administrators is data: line ends and bars in it are taken out before a line
is made of it, so that a job cannot be named into having another state.
"""

import re
from collections.abc import Mapping
from typing import Any

#: No list of jobs is longer, in bytes; what is would not fit beside others in a worker's memory.
LARGEST = 256 << 20
#: No more text than this of a name or a comment; a line of evidence is for reading.
MAX_WORDS = 1_000
#: Slurm's "not set" in places where a number has to stand.
_UNSET = frozenset({0xFFFF, 0xFFFE, 0xFFFF_FFFF, 0xFFFF_FFFE, 0xFFFF_FFFF_FFFF_FFFE, 0xFFFF_FFFF_FFFF_FFFF})

#: In printable text: a bar, and blanks that are not single ones between words.
_ODD = re.compile(r"[|]|^ |  | $")
#: The end of the year 9999.
LAST = 253_402_300_799


def number(value: Any) -> int:
    """A number as any version writes it: plain, as text, or as {set, infinite, number}; 0 where it is not set."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") and not value.get("infinite") else 0
    try:
        found = int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0
    return 0 if found in _UNSET or not 0 <= found < 1 << 63 else found


def moment(value: Any) -> int:
    """A time in seconds since 1970; 0 where it is not set and for what no calendar has."""
    found = number(value)
    return found if found <= LAST else 0


def optional(value: Any) -> int | None:
    """The same, None where it is not set: the first task of an array has the number 0."""
    if value is None or (isinstance(value, Mapping) and not value.get("set")):
        return None
    if isinstance(value, int) and value in _UNSET:
        return None
    return number(value)


def words(value: Any) -> str:
    """Text on one line, bounded, without what could be taken for the end of a field."""
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return ""
    text = str(value)[: 4 * MAX_WORDS]
    if text in {"(null)", "None assigned"}:
        return ""
    if len(text) <= MAX_WORDS and text.isprintable() and not _ODD.search(text):
        return text
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029|]", " ", text).split())[:MAX_WORDS]


def state(value: Any) -> str:
    """The state: one word, or in newer versions the base state with flags beside it.

    A flag says more than the state only while the job is not over: COMPLETING beside FAILED is still being cleaned up.
    """
    if not isinstance(value, (list, tuple)):
        return words(value).rstrip("+")
    flags = [words(flag) for flag in value]
    for told in ("COMPLETING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"):
        if told in flags:
            return told
    return flags[0] if flags else ""


def exit_code(value: Any) -> str:
    """An exit code as "CODE:SIGNAL": a raw wait status, an object, or such text already; "" where none is told."""
    if isinstance(value, str):
        return value if re.fullmatch(r"[0-9]{1,5}:[0-9]{1,3}", value) else ""
    if isinstance(value, Mapping):
        signal = value.get("signal")
        killed = number(signal.get("signal_id", signal.get("id"))) if isinstance(signal, Mapping) else 0
        code = optional(value.get("return_code"))
        if code is None and not killed:
            return ""
        return f"{code or 0}:{killed}"
    if isinstance(value, bool) or not isinstance(value, int) or value in _UNSET or not 0 <= value < 1 << 32:
        return ""
    # What a signal ended has no exit code: the rest of the number is slurmctld's own.
    killed = value & 0x7F
    return f"0:{killed}" if killed else f"{value >> 8}:0"


def hosts(value: Any) -> str:
    """A host list, "" where none was assigned; it is never cut, for half a list is another list."""
    text = value.strip() if isinstance(value, str) else ""
    return "" if text in {"None assigned", "(null)", "None", "N/A"} else re.sub(r"[\x00-\x20|]", "", text)
