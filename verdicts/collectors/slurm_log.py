"""The lines of slurmctld's log that speak of a job or of its nodes, out of a log of any size."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import BinaryIO
from zoneinfo import ZoneInfo

from rules.attempt import expand_hostlist
from verdicts.collectors.ask import Ask
from verdicts.collectors.sink import Sink

#: LogTimeFormat: iso8601_ms by default, rfc5424_ms with a zone, the older ones without fractions.
_STAMP = re.compile(
    rb"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,6})?([+-]\d\d:?\d\d|Z)?\]|"
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,6})?([+-]\d\d:?\d\d|Z)? "
)
#: A line that is longer is looked at in pieces; between two stamps there may be so many lines without one.
MAX_LINE, SEARCH = 64 << 10, 256 << 10
#: Whether a line that was written at a moment is about an attempt.
About = Callable[[bytes, float | None], bool]
#: Lines are handed on in blocks of so many.
BLOCK = 500


def lines_about(path: str, timezone: str, ask: Ask, out: Sink, own: tuple[float, float]) -> None:
    """Read the log in the attempt's window, and of it what names one of its nodes, or the job within its `own` time.

    The lines get their stamps in UTC: the log has its host's local time.
    """
    zone: tzinfo | None = ZoneInfo(timezone) if timezone else None
    begin = ask.begin.timestamp()
    about = _about(ask.attempt.job_id, own, frozenset(ask.nodes))
    try:
        with Path(path).open("rb") as log:
            oldest = _oldest(log, zone)
            if oldest is not None and oldest > begin and not _read_before(path, zone, ask, about, out):
                out.partial(f"controller_log begins at {datetime.fromtimestamp(oldest, UTC):%Y-%m-%dT%H:%M:%S} UTC")
            _read(log, zone, ask, about, out)
    except OSError as error:
        out.partial(f"controller_log: {path} cannot be read: {error.strerror or error}")


def _read_before(path: str, zone: tzinfo | None, ask: Ask, about: About, out: Sink) -> bool:
    """Read what rotation put aside last; whether that reaches back to the window's begin."""
    aside = Path(f"{path}.1")
    if not aside.is_file():
        return False
    with aside.open("rb") as log:
        oldest = _oldest(log, zone)
        _read(log, zone, ask, about, out)
    return oldest is not None and oldest <= ask.begin.timestamp()


def _read(log: BinaryIO, zone: tzinfo | None, ask: Ask, about: About, out: Sink) -> None:
    """Hand on what a log has in the window."""
    reader = out.stream("slurmctld.log")
    block: list[bytes] = []
    begin, end = ask.begin.timestamp(), ask.end.timestamp()
    log.seek(_first_after(log, begin, zone))
    try:
        for line in _lines(log, ask):
            stamp = _time(line, zone)
            if stamp is not None and stamp[0] > end:
                break
            if (stamp is None or stamp[0] >= begin) and about(line, stamp and stamp[0]):
                block.append(line if stamp is None else stamp[1])
            if len(block) == BLOCK:
                reader.feed(b"\n".join(block))
                block.clear()
    finally:
        if block:
            reader.feed(b"\n".join(block))


def _lines(log: BinaryIO, ask: Ask) -> Iterator[bytes]:
    """The lines from here on, within the budget."""
    while line := log.readline(MAX_LINE):
        ask.budget.take(len(line))
        yield line.rstrip(b"\r\n")


def _about(job: str, own: tuple[float, float], nodes: frozenset[str]) -> About:
    """Whether a line names the job in its own time, or names no job and a node, alone or in a host list."""
    number, _, task = job.partition("_")
    ids = re.compile(rb"\b(?:JobId=|StepId=|job_id[ =:]|job |JOB )(?P<job>\d+)(?:[_+](?P<task>\d+))?\b")
    names = re.compile(rb"\b(?:" + b"|".join(re.escape(name.encode()) for name in sorted(nodes)) + rb")\b(?![\w-])")
    lists = re.compile(rb"[A-Za-z][\w.-]*\[[0-9,-]{1,2000}\][\w.-]*")

    def about(line: bytes, moment: float | None) -> bool:
        jobs = list(ids.finditer(line))
        for match in jobs:
            told = match["task"]
            if match["job"].decode() == number and (not task or told is None or told.decode() == task):
                return moment is None or own[0] <= moment < own[1]
        # What befell another job on the node is that job's.
        if jobs or not nodes:
            return False
        if names.search(line):
            return True
        return any(nodes.intersection(_expanded(match[0])) for match in lists.finditer(line[:4096]))

    return about


def _expanded(text: bytes) -> list[str]:
    try:
        return expand_hostlist(text.decode())
    except (ValueError, UnicodeDecodeError):
        return []


def _time(line: bytes, zone: tzinfo | None) -> tuple[float, bytes] | None:
    """When a line was written, and the line with that in UTC; None for a line without a stamp."""
    match = _STAMP.match(line)
    if match is None:
        return None
    date, fraction, offset = (match[1], match[2], match[3]) if match[1] else (match[4], match[5], match[6])
    try:
        moment = datetime.fromisoformat((date + (fraction or b"") + (offset or b"")).decode())
    except ValueError:
        return None
    if moment.tzinfo is None:
        # Without a zone in the settings, that of this host: the log is on it.
        moment = moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()
    moment = moment.astimezone(UTC)
    return moment.timestamp(), b"[" + moment.isoformat(timespec="milliseconds").encode() + b"] " + line[
        match.end() :
    ].lstrip()


def _oldest(log: BinaryIO, zone: tzinfo | None) -> float | None:
    """The first stamp in the log."""
    log.seek(0)
    return _next(log, zone)


def _next(log: BinaryIO, zone: tzinfo | None) -> float | None:
    """The next stamp from here on."""
    began = log.tell()
    while log.tell() - began < SEARCH and (line := log.readline(MAX_LINE)):
        if stamp := _time(line, zone):
            return stamp[0]
    return None


def _first_after(log: BinaryIO, moment: float, zone: tzinfo | None) -> int:
    """The place of a line not much before the first one that was written at a moment or later, by halving."""
    low, high = 0, log.seek(0, 2)
    while high - low > SEARCH:
        middle = (low + high) // 2
        log.seek(middle)
        log.readline(MAX_LINE)
        stamp = _next(log, zone)
        if stamp is None or stamp >= moment:
            high = middle
        else:
            low = middle
    log.seek(low)
    if low:
        log.readline(MAX_LINE)
    return log.tell()
