"""Reading one record: what its prefixes say (time, host, rank, program) and the message behind them.

Only lines that matched a pattern come here. Prefixes are taken off one after another in any order,
because collectors stack them: a CRI stamp before a rank tag before an application's own date.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from rules.stamp import MICRO, Stamp, boot, civil, epoch

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_MONTHS = {m: i for i, m in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_HOST = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_MAX_PREFIXES = 8


@dataclass(slots=True)
class Record:
    """What the prefixes of a record said. `message` is what is left; `pid` and `device` come from NCCL's prefix."""

    message: str
    stamp: Stamp | None = None
    uptime: Stamp | None = None
    host: str = ""
    rank: int | None = None
    local_rank: int | None = None
    program: str = ""


Taker = Callable[[Record, re.Match[str]], bool | None]


def _iso(record: Record, m: re.Match[str]) -> bool | None:
    """2026-11-03T02:11:04.123+01:00, with a space or comma where others put T or a point."""
    stamp = civil(int(m[1]), int(m[2]), int(m[3]), int(m[4]), int(m[5]), int(m[6]), m[7], m[8])
    return _dated(record, stamp)


def _dated(record: Record, stamp: Stamp | None) -> bool | None:
    """Keep the first stamp, which the outermost collector wrote, unless a later one knows its zone."""
    if stamp is None:
        return False
    if record.stamp is None or (record.stamp.clock != "utc" and stamp.clock == "utc"):
        record.stamp = stamp
    return None


def _bsd(record: Record, m: re.Match[str]) -> bool | None:
    """RFC 3164: "Jun 17 20:18:08 node-211 kernel:"; the host only with a program behind it."""
    stamp = civil(None, _MONTHS[m[1]], int(m[2]), int(m[3]), int(m[4]), int(m[5]), m[6], None)
    if stamp is None:
        return False
    _dated(record, stamp)
    record.host = record.host or (m[7] if m[7] != "-" else "")
    return None


def _rfc5424(record: Record, m: re.Match[str]) -> bool | None:
    if _iso(record, m) is False:
        return False
    record.host = record.host or (m[9] if m[9] != "-" else "")
    record.program = record.program or m[10]
    return None


def _iso_host(record: Record, m: re.Match[str]) -> bool | None:
    """rsyslog's ISO form: "2026-11-03T02:11:04.123+01:00 node kernel:"."""
    if _iso(record, m) is False:
        return False
    record.host = record.host or m[9]
    return None


def _ctime(record: Record, m: re.Match[str]) -> bool | None:
    """dmesg -T: "[Mon Oct  3 13:52:42 2022]"."""
    return _dated(record, civil(int(m[6]), _MONTHS[m[1]], int(m[2]), int(m[3]), int(m[4]), int(m[5])))


def _fabric(record: Record, m: re.Match[str]) -> bool | None:
    """Fabric Manager: "[Feb 27 2025 15:10:02] [ERROR] [tid 12727]"."""
    return _dated(record, civil(int(m[3]), _MONTHS[m[1]], int(m[2]), int(m[4]), int(m[5]), int(m[6])))


def _uptime(record: Record, m: re.Match[str]) -> bool | None:
    record.uptime = record.uptime or boot(m[1], m[2])
    return None


def _kmsg(record: Record, m: re.Match[str]) -> bool | None:
    """/dev/kmsg: "6,3973,227996636,-;text", microseconds since boot."""
    record.uptime = record.uptime or Stamp("boot", int(m[1]), 1)
    return None


def _klog(record: Record, m: re.Match[str]) -> bool | None:
    """glog and klog: "E0513 06:11:28.805952 1 file.go:885]", "[E321 02:07:08.408271257 ...cpp:607]"."""
    digits = m[1]
    month, day = int(digits[:-2]), int(digits[-2:])
    return _dated(record, civil(None, month, day, int(m[2]), int(m[3]), int(m[4]), m[5], None))


def _clf(record: Record, m: re.Match[str]) -> bool | None:
    """ "03/Nov/2026:02:11:04 +0000"."""
    return _dated(record, civil(int(m[3]), _MONTHS[m[2]], int(m[1]), int(m[4]), int(m[5]), int(m[6]), None, m[7]))


def _slashes(record: Record, m: re.Match[str]) -> bool | None:
    """TensorFlow, Ray, Spark and Java style: "2026/11/03 02:11:04"."""
    return _dated(record, civil(int(m[1]), int(m[2]), int(m[3]), int(m[4]), int(m[5]), int(m[6]), m[7]))


def _epoch(record: Record, m: re.Match[str]) -> bool | None:
    """auditd's and others' "1653015421.123:"; only a plausible second of 2001 to 2286."""
    whole, fraction = int(m[1]), (m[2] or "")[:6]
    return _dated(record, epoch(whole * MICRO + int(fraction.ljust(6, "0") or 0), 10 ** (6 - len(fraction))))


def _rank(record: Record, m: re.Match[str]) -> bool | None:
    if record.rank is None:
        record.rank = int(m[1])
    return None


def _local_rank(record: Record, m: re.Match[str]) -> bool | None:
    """torchrun's "[default3]:" and "[trainer3]:": the rank on its node, not in the job."""
    record.local_rank = int(m[1])
    return None


def _host_rank(record: Record, m: re.Match[str]) -> bool | None:
    record.host = record.host or m[1]
    record.local_rank = int(m[2])
    return None


def _program(record: Record, m: re.Match[str]) -> bool | None:
    record.program = record.program or m[1]
    return None


def _slurm_host(record: Record, m: re.Match[str]) -> bool | None:
    """ "slurmstepd-gpu20-15: error:" says which node's stepd speaks."""
    record.host = record.host or m[1]
    record.program = record.program or "slurmstepd"
    return None


def _nccl(record: Record, m: re.Match[str]) -> bool | None:
    """NCCL: "host:pid:tid [cudaDev]"; the CUDA ordinal is the process's own, so it is no local rank."""
    record.host = record.host or m[1]
    return None


def _drop(_record: Record, _match: re.Match[str]) -> bool | None:
    return None


_T = r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?[ ]?(Z(?![A-Za-z])|[+-]\d\d:?\d\d)?"
#: Tried in this order, again and again until none fits.
_PREFIXES: list[tuple[re.Pattern[str], Taker]] = [
    (re.compile(rf"<\d{{1,3}}>1 {_T} ({_HOST}|-) (\S+) \S+ \S+ (?:-|\[[^\]]*\])[ ]?"), _rfc5424),
    (re.compile(r"<\d{1,3}>"), _drop),
    (re.compile(rf"{_T}[ \t]({_HOST})[ \t](?=[\w./()-]+(?:\[\d+\])?:[ \t])"), _iso_host),
    (re.compile(rf"[\[(]?{_T}[\])]?[:,]?(?:[ \t]*\|)?[ \t]*"), _iso),
    (re.compile(r"(?:stdout|stderr) [FP] "), _drop),
    (re.compile(rf"({_MONTH}) +(\d{{1,2}}) (\d\d):(\d\d):(\d\d)(?:\.(\d{{1,9}}))? ({_HOST}|-) "), _bsd),
    (
        re.compile(rf"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ({_MONTH}) +(\d{{1,2}}) (\d\d):(\d\d):(\d\d) (\d{{4}})\][ ]?"),
        _ctime,
    ),
    (re.compile(rf"\[({_MONTH}) +(\d{{1,2}}) (\d{{4}}) (\d\d):(\d\d):(\d\d)\][ ]?"), _fabric),
    (re.compile(r"\[ *(\d{1,9})\.(\d{6})\](?:\[[ TC]*\d+\])?[ ]?"), _uptime),
    (re.compile(r"\d{1,2},\d+,(\d+),[^;\n]*;"), _kmsg),
    (
        re.compile(
            r"\[?[IWEFCV](\d{3,4}) (\d\d):(\d\d):(\d\d)\.(\d{6,9})[ ]+(?:\d+[ ]+)?"
            r"(?=[\w./-]+\.(?:cpp|cc|go|py|cu|h|hpp|c):\d+\])"
        ),
        _klog,
    ),
    (re.compile(rf"\[?(\d\d)/({_MONTH})/(\d{{4}}):(\d\d):(\d\d):(\d\d) ([+-]\d{{4}})\]?[ ]?"), _clf),
    (re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?[ ]?"), _slashes),
    (re.compile(r"(1\d{9})(?:\.(\d{1,9}))?:? "), _epoch),
    (re.compile(r"\[(?:rank|Rank)[ ]?(\d{1,7})\][ ]?:?[ ]?"), _rank),
    (re.compile(r"(?:rank|Rank)[ :]?(\d{1,7})[:|][ ]"), _rank),
    (re.compile(r"\[1,(\d{1,7})\]<std(?:out|err)>:[ ]?"), _rank),
    (re.compile(r"\[(?:default|trainer|worker)(\d{1,5})(?:\|\d+)?\]:[ ]?"), _local_rank),
    (re.compile(rf"\[({_HOST}):(\d{{1,5}})\][ ]?:?[ ]?"), _host_rank),
    (re.compile(r"(\d{1,6}): +(?=\S)"), _rank),
    (re.compile(rf"slurmstepd-({_HOST}?): (?=error|fatal|info|debug|\*\*\*)"), _slurm_host),
    (re.compile(rf"({_HOST}):\d+:\d+ \[(?:\d+|-\d)\][ ]"), _nccl),
    (re.compile(r"(kernel|kern)[ ]*:[ ]*(?:(?:emerg|alert|crit|err|warn|notice|info|debug)[ ]*:[ ]*)?"), _program),
    (re.compile(r"([a-zA-Z_][\w./()-]{0,60})\[\d+\]: "), _program),
    (re.compile(r"\((?:[\w.]+ )?(?:pid=\d+)?(?:, )?(?:ip=[0-9.]+)?\)[ ]"), _drop),
    (re.compile(r"\([\w.]+\[rank=(\d{1,7})\] pid=\d+(?:, ip=[0-9.]+)?\)[ ]"), _rank),
    (re.compile(r"\([\w.]+, ip=[0-9.]+\)[ ]"), _drop),
    (re.compile(r"\[[EWIF] [\w./-]+\.(?:cpp|cc|cu|h):\d+\][ ]?"), _drop),
    (re.compile(r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|NOTICE)[ ]?[:|][ ]?"), _drop),
    (re.compile(r"\[(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|E|W|I|F)\][ ]?"), _drop),
    (re.compile(r"\[tid \d+\][ ]"), _drop),
    (re.compile(r"\[\d+/[^\]\n]{1,80}\(pid \d+\)\][ ]"), _drop),
    (re.compile(r"\[[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\][ ]"), _drop),
    (re.compile(r"[ \t]+\|[ \t]+"), _drop),
    (re.compile(r"`(?=[\w\[(])"), _drop),  # a line that was quoted by itself in a ticket
]


#: All of them in one, so that text without a prefix costs one look; the outer group says which one fits first.
_ANY_PREFIX = re.compile("|".join(f"({pattern.pattern})" for pattern, _ in _PREFIXES))
_BRANCH = dict(
    zip(
        accumulate((1 + pattern.groups for pattern, _ in _PREFIXES[:-1]), initial=1), range(len(_PREFIXES)), strict=True
    )
)


#: A time that the message itself states: "*** STEP 1.0 ON n1 CANCELLED AT 2024-04-20T09:09:37 DUE TO …".
_INSIDE = re.compile(rf" AT {_T}(?= |$)")


#: An exposition-format sample, `NAME{label="value",…} value`, or what a collector says of one: `increase(NAME{…}) 3`.
#: Its labels say which node it speaks of.
_METRIC = re.compile(r"(?:[a-z]{1,20}\()?[A-Za-z_:][\w:]*\{([^}\n]*)\}")
_HOST_LABEL = re.compile(r'(?:^|,)[ ]*(?:Hostname|hostname|node|nodename|instance)="([^":]+)')


#: The last line of a traceback. A traceback that was printed as a block, or pasted, is indented as a whole.
_RAISED = re.compile(r"(?:\w+\.){0,6}[A-Z]\w*(?:Error|Exception): ")


def _label_host(labels: str) -> str:
    match = _HOST_LABEL.search(labels)
    return match[1] if match else ""


def clean(line: str) -> str:
    """The line without colour codes, and of a redrawn progress bar only what was drawn last."""
    if "\x1b" in line:
        line = ANSI.sub("", line)
    return line.rstrip("\r\n")


def parse(line: str) -> Record:
    """Take the prefixes off one line. Never raises; a line without prefixes is all message."""
    record = Record(clean(line))
    text = record.message
    # srun --label pads the rank with blanks; blanks alone are part of the message (a traceback's frame).
    blanks = len(text) - len(text.lstrip(" "))
    position = blanks
    for _ in range(_MAX_PREFIXES):
        first = _ANY_PREFIX.match(text, position)
        if first is None:
            break
        for pattern, take in _PREFIXES[_BRANCH[first.lastindex or 0] :]:
            match = pattern.match(text, position)
            if match is not None and match.end() > position and take(record, match) is not False:
                position = match.end()
                break
        else:
            break
    apart = position > blanks or (blanks and _RAISED.match(text, blanks))
    record.message = text[position:].lstrip(" \t") if apart else text
    if metric := _METRIC.match(record.message):
        record.host = record.host or _label_host(metric[1])
    if record.stamp is None and (inside := _INSIDE.search(record.message)):
        _iso(record, inside)
    return record
