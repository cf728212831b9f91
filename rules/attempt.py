"""The attempt: what `attempt.json` says about one execution of a workload."""

import codecs
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from rules.redact import PLAIN, Redactor
from rules.stamp import Stamp, parse_stamp
from rules.words import ReportStatus, Source

#: No file has more lines or bytes, and the sum over many still fits into 64 bits.
MAX_COUNT = 10**15
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
MAX_TEXT = 4096
Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]

#: As large as a rank, in a file's name, a record or the attempt, can be.
MAX_RANK = 10_000_000
#: As long as a node's name can be; the store's columns hold no more.
MAX_NAME = 255

TOPOLOGY_KINDS = ("switch", "rail", "rack", "power", "image", "maintenance", "driver")
MAX_NODES = 100_000


class InputError(ValueError):
    """Input that cannot be used; the message names the file and the field."""


class CollectorReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one collector asked for, got and delivered. `seconds` is the time taken, `bytes` what was read,
    `redacted` how many secrets were taken out of what was kept.
    """

    source: Source
    status: ReportStatus
    reason: Text = ""
    collector: Text = ""
    read: Count = 0
    kept: Count = 0
    delivered: Count = 0
    bytes: Count = 0
    redacted: Count = 0
    first: Text | None = None
    last: Text | None = None
    seconds: float | None = None
    files: list[str] = []


class RankPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a rank ran; `gpu` is an index, a PCI address or a UUID."""

    node: Text = ""
    gpu: Text = ""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One execution of a workload on one allocation.

    Times are RFC 3339. `clock_bounds` are seconds by source; `utc_offset` ("+01:00") is the zone of
    stamps that carry none. `topology` maps kind → element → nodes.
    """

    job_id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    cluster: Text = ""
    scheduler: Annotated[str, msgspec.Meta(pattern="^(slurm|kubernetes|static)?$")] = ""
    workload: Text = ""
    restart_count: Count = 0
    submit_time: str | None = None
    start: str | None = None
    end: str | None = None
    state: Text = ""
    exit_code: Text | Whole | None = None
    signal: Whole | None = None
    reason: Text = ""
    user: Text = ""
    account: Text = ""
    partition: Text = ""
    nodes: list[str] = []
    ranks: dict[str, RankPlace] = {}
    image: Text = ""
    topology: dict[str, dict[str, list[str]]] = {}
    clock_bounds: dict[Source, Annotated[float, msgspec.Meta(ge=0, le=86400)]] = {}
    utc_offset: Annotated[str, msgspec.Meta(pattern="^([+-](0[0-9]|1[0-4]):[0-5][0-9]|Z)?$")] = ""
    collectors: list[CollectorReport] = []

    def described(self) -> dict[str, Any]:
        """The set fields as plain data, for the verdict; collector reports stand elsewhere in it."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        plain.pop("collectors", None)
        return plain


def decode_attempt(raw: bytes, *, name: str = "attempt.json", redactor: Redactor = PLAIN) -> Attempt:
    """Decode and check an attempt. Raises InputError naming the file and the field."""
    try:
        attempt = msgspec.json.decode(_as_utf8(raw), type=Attempt)
    except msgspec.ValidationError as error:
        raise InputError(f"{name}: {_field(error)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: not valid JSON: {error}") from error
    return checked(attempt, name=name, redactor=redactor)


def checked(attempt: Attempt, *, name: str = "attempt", redactor: Redactor = PLAIN) -> Attempt:
    """Check what the types cannot and expand host lists. Raises InputError naming the field."""
    _check_times(attempt, name)
    for kind in attempt.topology:
        if kind not in TOPOLOGY_KINDS:
            raise InputError(f"{name}: topology.{kind}: is none of {', '.join(TOPOLOGY_KINDS)}")
    ranks = {_rank(text, name): spot for text, spot in attempt.ranks.items()}
    if len(ranks) < len(attempt.ranks):
        raise InputError(f"{name}: ranks: one rank is there twice, with leading zeros and without")
    try:
        nodes = expand_hostlist(",".join(attempt.nodes))
    except ValueError as error:
        raise InputError(f"{name}: nodes: {error}") from error
    return msgspec.structs.replace(
        attempt, nodes=sorted(set(nodes), key=natural), ranks=ranks, **_without_secrets(attempt, redactor)
    )


def _without_secrets(attempt: Attempt, redactor: Redactor) -> dict[str, Any]:
    """The fields that are prose or addresses, with what has the shape of a secret taken out.

    Job ids, clusters, nodes and ranks are names that other records are joined by: they stay as they are.
    """
    said: dict[str, Any] = {field: redactor.redact(getattr(attempt, field))[:MAX_TEXT] for field in _PROSE}
    if isinstance(attempt.exit_code, str):
        said["exit_code"] = redactor.redact(attempt.exit_code)[:MAX_TEXT]
    said["topology"] = {kind: _elements(elements, redactor) for kind, elements in attempt.topology.items()}
    said["collectors"] = [
        msgspec.structs.replace(
            report,
            reason=redactor.redact(report.reason)[:MAX_TEXT],
            files=[redactor.redact(name) for name in report.files],
        )
        for report in attempt.collectors
    ]
    return said


def _elements(elements: dict[str, list[str]], redactor: Redactor) -> dict[str, list[str]]:
    """Elements by name; an image's address can have a password in it, and two that differ in it alone are one."""
    named: dict[str, list[str]] = {}
    for name, nodes in elements.items():
        named.setdefault(redactor.redact(name), []).extend(nodes)
    return named


_PROSE = ("workload", "state", "reason", "user", "account", "partition", "image")


def _as_utf8(raw: bytes) -> bytes:
    """The bytes as editors and shells on other systems write them: without a byte order mark, UTF-16 as UTF-8."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16").encode()
    return raw.removeprefix(codecs.BOM_UTF8)


def _rank(text: str, name: str) -> str:
    """A rank as it is written everywhere else. Raises InputError."""
    if not re.fullmatch("[0-9]{1,8}", text) or int(text) > MAX_RANK:
        raise InputError(f"{name}: ranks.{text[:40]}: a rank is a whole number from 0 to {MAX_RANK}")
    return str(int(text))


def _check_times(attempt: Attempt, name: str) -> None:
    """Check the attempt's own times. Raises InputError naming the field."""
    for field in ("submit_time", "start", "end"):
        value = getattr(attempt, field)
        stamp = parse_stamp(value) if value is not None else None
        if value is not None and (stamp is None or stamp.clock not in ("utc", "local") or not _in_calendar(stamp)):
            raise InputError(
                f"{name}: {field}: {value[:80]!r} is not an RFC 3339 time such as 2026-11-03T02:11:04+01:00"
            )


def _in_calendar(stamp: Stamp) -> bool:
    """Whether the moment is within the years 1 to 9999 in UTC too: "0001-01-01T00:00:00+14:00" is not."""
    try:
        return bool(str(stamp))
    except OverflowError:
        return False


def _field(error: msgspec.ValidationError) -> str:
    """msgspec's message with its path as a dotted field: "nodes[2]: Expected `str`, got `int`"."""
    text = str(error)
    match = re.fullmatch(r"(.*) - at `\$\.?(.*)`", text, re.DOTALL)
    return f"{match[2]}: {match[1]}" if match else text


@lru_cache(maxsize=65_536)
def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which gpu-2 comes before gpu-10, and no two texts are equal, so that n1 and n01 keep one order."""
    key = []
    for part in re.split("([0-9]+)", text):
        digits = part.lstrip("0") if part[:1] in _DIGITS else ""
        if part:
            key.append((0, len(digits), digits) if part[0] in _DIGITS else (1, 0, part))
    return (*key, (-1, 0, text))


_DIGITS = frozenset("0123456789")
_BRACKET = re.compile(r"^([^\[\]]*)\[([0-9,-]+)\](.*)$")
#: Ranges in one name ("rack[1-4]-node[01-16]") and digits in one number.
MAX_RANGES, MAX_DIGITS = 16, 18


def expand_hostlist(text: str) -> list[str]:
    """Expand a Slurm host list ("gpu-[01-03,7],login1") into names. Raises ValueError when it is malformed."""
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        if part.count("[") > MAX_RANGES:
            raise ValueError(f"{part[:80]!r} has more than {MAX_RANGES} ranges")
        for name in _expand(part.strip()):
            if len(name) > MAX_NAME:
                raise ValueError(f"{name[:80]!r} is longer than {MAX_NAME} characters")
            names.append(name)
            if len(names) > MAX_NODES:
                raise ValueError(f"{text[:80]!r} stands for more than {MAX_NODES} nodes")
    return names


def _expand(part: str) -> Iterator[str]:
    if "[" not in part and "]" not in part:
        yield part
        return
    match = _BRACKET.match(part)
    if match is None:
        raise ValueError(f"{part[:80]!r} is not a host list")
    head, ranges, tail = match.groups()
    for piece in ranges.split(","):
        low, _, high = piece.partition("-")
        high = high or low
        digits = low.isdigit() and high.isdigit() and max(len(low), len(high)) <= MAX_DIGITS
        if not digits or int(high) < int(low):
            raise ValueError(f"{piece[:80]!r} in {part[:80]!r} is not a range")
        for number in range(int(low), int(high) + 1):
            yield from _expand(f"{head}{number:0{len(low)}d}{tail}")
