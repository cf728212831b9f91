"""Formats that are not plain lines: journald's JSON and export, container JSON, application JSON lines, `dmesg -H`.

Each turns a block into plain lines, one for one, so that line numbers stay true.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from rules.attempt import MAX_RANK
from rules.stamp import MICRO, Stamp, civil, epoch

Rewriter = Callable[[bytes], bytes]

_MESSAGE_KEYS = ("MESSAGE", "log", "message", "msg", "body", "event", "text")
#: Microseconds since 1970 up to the year 5138; a stamp's text longer than any clock prints.
_MICROS, MAX_STAMP = re.compile("[0-9]{1,17}"), 64
_TIME_KEYS = ("time", "timestamp", "ts", "@timestamp", "asctime", "datetime", "eventTime", "lastTimestamp")


def rewriter(sample: str) -> Rewriter | None:
    """What turns this format into plain lines, or None where the file is plain already."""
    first = next((line for line in sample.splitlines() if line.strip()), "")
    if first.startswith("{") and isinstance(record := _json(first), dict) and _message_key(record):
        return json_lines
    if re.match(r"\[\w{3} ?\d{1,2} \d\d:\d\d\] ", first) or re.match(r"\[ *\+\d+\.\d{6}\] ", first):
        return HumanDmesg()
    if first.startswith("__CURSOR="):
        return JournalExport()
    return None


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _message_key(record: dict[str, Any]) -> str:
    return next((k for k in _MESSAGE_KEYS if isinstance(record.get(k), (str, list))), "")


def json_lines(block: bytes) -> bytes:
    """JSON lines as "stamp host program: message"; a line that is no JSON stays as it is."""
    return b"\n".join(_json_line(line) for line in block.split(b"\n"))


def _json_line(raw: bytes) -> bytes:
    if not raw.lstrip().startswith(b"{"):
        return raw
    record = _json(raw.decode("utf-8", "replace"))
    if not isinstance(record, dict) or not (key := _message_key(record)):
        return raw
    return _as_line(record, _text(record[key]))


def _as_line(record: dict[str, Any], message: str) -> bytes:
    """ "stamp host program: message" of a record's fields."""
    extra = record.get("exc_info") or record.get("exception") or record.get("stack_trace")
    if isinstance(extra, str) and extra:
        message += " ⏎ " + (extra.strip().splitlines() or [""])[-1]
    stamp = _stamp(record)
    host = _word(record.get("_HOSTNAME") or record.get("host") or record.get("hostname"))
    program = _word(record.get("SYSLOG_IDENTIFIER") or record.get("_COMM") or record.get("program"))
    rank = record.get("rank")
    parts = []
    if stamp:
        parts.append(stamp)
    if host and stamp:
        parts += [host, f"{program or 'log'}:"]
    if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank <= MAX_RANK:
        parts.append(f"[rank{rank}]:")
    parts.append(message)
    return " ".join(parts).replace("\n", " ").replace("\r", " ").encode("utf-8", "backslashreplace")


def _text(value: Any) -> str:
    """journald gives a message that is no UTF-8 as an array of byte numbers."""
    if isinstance(value, list):
        numbers = [n for n in value if isinstance(n, int) and 0 <= n < 256]
        return bytes(numbers).decode("utf-8", "replace")
    return str(value).rstrip("\n")


def _word(value: Any) -> str:
    return re.sub(r"[^A-Za-z0-9._/-]", "_", value) if isinstance(value, str) else ""


def _written(micros: int) -> str:
    return str(epoch(micros) or "")


def _stamp(record: dict[str, Any]) -> str:
    micros = record.get("__REALTIME_TIMESTAMP") or record.get("_SOURCE_REALTIME_TIMESTAMP")
    if isinstance(micros, str) and _MICROS.fullmatch(micros):
        return _written(int(micros))
    for key in _TIME_KEYS:
        value = record.get(key)
        if isinstance(value, str) and 0 < len(value) <= MAX_STAMP:
            return value
        if isinstance(value, (int, float)) and 10**9 <= value < 10**10:
            return _written(int(value * MICRO))
    return ""


#: A field of an export longer than this is passed over; a length beyond `MAX_SKIPPED` is damage.
MAX_FIELD, MAX_SKIPPED = 1 << 20, 1 << 31
_FIELD_NAME = re.compile(rb"[A-Z_][A-Z0-9_]{0,63}")


class JournalExport:
    """`journalctl -o export`: fields "NAME=value", of which a value with newlines has its length before it.

    A record becomes one line, which stands where its closing empty line was; the lines of its fields become empty,
    so that line numbers stay true. https://systemd.io/JOURNAL_EXPORT_FORMATS/
    """

    def __init__(self) -> None:
        self._record: dict[str, Any] = {}
        self._rest = b""
        self._skip = 0

    def __call__(self, block: bytes) -> bytes:
        """Rewrite one block; a field that goes on in the next one is waited for."""
        data, self._rest = self._rest + block, b""
        out = bytearray()
        at = 0
        while at < len(data):
            if self._skip:
                stop = min(len(data), at + self._skip)
                self._skip -= stop - at
                out += b"\n" * data.count(b"\n", at, stop)
                at = stop
                continue
            end = data.find(b"\n", at)
            if end < 0:
                break
            line = data[at:end]
            name, equals, value = line.partition(b"=")
            if not line:
                out += self._closed() + b"\n"
                at = end + 1
            elif equals or not _FIELD_NAME.fullmatch(name):
                out += b"\n" if _FIELD_NAME.fullmatch(name) else line + b"\n"
                self._set(name, value)
                at = end + 1
            else:
                size = int.from_bytes(data[end + 1 : end + 9], "little")
                stop = end + 9 + size
                if len(data) < end + 9 or (size <= MAX_FIELD and len(data) <= stop):
                    break
                if size > MAX_SKIPPED:
                    out += line + b"\n"
                    at = end + 1
                elif size > MAX_FIELD:
                    out += b"\n" * data.count(b"\n", at, end + 9)
                    at, self._skip = end + 9, size + 1
                else:
                    self._set(name, data[end + 9 : stop])
                    out += b"\n" * data.count(b"\n", at, stop + 1)
                    at = stop + 1
        if len(data) - at > 2 * MAX_FIELD:  # no end of a line in sight: not an export any more
            return bytes(out + data[at:])
        self._rest = data[at:]
        return bytes(out)

    def _set(self, name: bytes, value: bytes) -> None:
        key = name.decode("latin-1")
        if key in _EXPORTED:
            self._record.setdefault(key, value.decode("utf-8", "replace"))

    def _closed(self) -> bytes:
        record, self._record = self._record, {}
        return _as_line(record, record["MESSAGE"].rstrip("\n")) if "MESSAGE" in record else b""


_EXPORTED = {
    "MESSAGE",
    "__REALTIME_TIMESTAMP",
    "_SOURCE_REALTIME_TIMESTAMP",
    "_HOSTNAME",
    "SYSLOG_IDENTIFIER",
    "_COMM",
}


#: End of what a date can say, in microseconds since 1970.
MAX_MICROS = 250_000_000_000 * MICRO
_MONTHS = {m: i for i, m in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
_HEAD = re.compile(rb"\[(\w{3}) ?(\d{1,2}) (\d\d):(\d\d)\] ")
_DELTA = re.compile(rb"\[ *\+(\d{1,9})\.(\d{6})\] ")


class HumanDmesg:
    """`dmesg -H`: a date without year or seconds, then deltas; each line gets its own uptime-like stamp.

    The date gives the minute, the deltas the order: "[May19 19:57]" then "[  +0.000127]".
    """

    def __init__(self) -> None:
        self._now: int | None = None

    def __call__(self, block: bytes) -> bytes:
        """Rewrite one block; the time goes on from block to block."""
        return b"\n".join(self._line(line) for line in block.split(b"\n"))

    def _line(self, line: bytes) -> bytes:
        if match := _HEAD.match(line):
            month = _MONTHS.get(match[1].decode("latin-1"), 0)
            stamp = civil(None, month, int(match[2]), int(match[3]), int(match[4]), 0) if month else None
            self._now = stamp.micros if stamp else None
            return self._with_time(line[match.end() :]) if stamp else line
        if match := _DELTA.match(line):
            if self._now is None:
                return line[match.end() :]
            # Deltas of years go round: only the order within one file is read off them.
            self._now = (self._now + int(match[1]) * MICRO + int(match[2])) % MAX_MICROS
            return self._with_time(line[match.end() :])
        return line

    def _with_time(self, rest: bytes) -> bytes:
        text = str(Stamp("yearless", self._now or 0, 1))  # --05-19T19:57:00.000127
        month = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()[int(text[2:4]) - 1]
        return f"{month} {int(text[5:7]):2d} {text[8:]} - kernel: ".encode() + rest
