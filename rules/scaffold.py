"""A first draft of a rule from one line that a machine printed: `inquest rules new`.

What varies in the line (addresses, numbers, names, paths) becomes named groups, the rest stays as fixed
text. The draft has the line as a test that fires and a changed copy of it as one that must not.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rules import literals, read
from rules.attempt import InputError
from rules.rule import pattern_problem
from rules.words import Domain, Role, Source

MAX_LINE = 2_000
NO_PLACES = '# gpu = "group"   # a named group of the pattern; node and rank default to whose log it is'

#: What varies, in the order in which it is looked for: (looks like, group name or "", what it becomes).
_VARIES: list[tuple[str, str, str]] = [
    (r"GPU-[0-9a-fA-F]{8}-[0-9a-fA-F-]{20,}", "uuid", "GPU-[0-9a-fA-F-]+"),
    (
        r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
        "uuid",
        "[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}",
    ),
    (
        r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b|\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\b",
        "gpu",
        r"[0-9a-fA-F:]{5,16}(?:\.[0-7])?",
    ),
    (r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d+)?\b", "peer", r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d+)?"),
    (r"\b0x[0-9a-fA-F]+\b", "", "0x[0-9a-fA-F]+"),
    (r"(?<![\w.])/(?:[\w.@+=-]+/)*[\w.@+=-]+", "path", r"/[^ \t\n:,]+"),
    (r"\b(?:[a-z]+[a-z0-9]*-)+[a-z]*\d+\b|\b(?:gpu|node|host|dgx|hgx|nid|compute)[a-z]*\d+\b", "node", r"[\w.-]+"),
    (r"\d+(?:\.\d+)?", "number", r"\d+(?:\.\d+)?"),
]
_VARYING = re.compile("|".join(f"(?P<v{index}>{look})" for index, (look, _, _) in enumerate(_VARIES)))

#: Which subject and source a line speaks of: the first that fits.
_SUBJECTS: list[tuple[str, str, Source]] = [
    (r"SXid|[Nn]v[Ss]witch|NVLink|nvlink|[Ff]abric ?[Mm]anager", "nvlink", Source.SYSLOG),
    (r"NVRM|Xid|nvidia-smi|DCGM", "gpu", Source.SYSLOG),
    (r"NCCL", "nccl", Source.APPLOG),
    (r"CUDA|cuda|cublas|cudnn", "cuda", Source.APPLOG),
    (r"torch|c10d", "pytorch", Source.APPLOG),
    (r"pyxis|enroot|containerd|docker|singularity|apptainer", "container", Source.APPLOG),
    (r"slurm|srun|sbatch|JobId=", "slurm", Source.SCHEDULER),
    (r"kubelet|\b[Pp]ods?\b|kubernetes", "kubernetes", Source.KUBERNETES),
    (r"[Ll]ustre|\bnfs\b|NFS|nvme|EXT4|XFS|beegfs|gpfs", "storage", Source.SYSLOG),
    (r"mlx5|InfiniBand|infiniband|RoCE|\bib\d|\beth\d|link (?:is )?(?:down|up)", "network", Source.SYSLOG),
    (r"Traceback|\w+Error\b|\w+Exception\b", "application", Source.APPLOG),
]


#: What a draft says where a person has to write; `inquest rules lint` finds what is left of it.
PLACEHOLDERS = {
    "meaning": "Say in plain words what the line means.",
    "impact": "Say what the job notices of it.",
    "check": "The cheapest test that tells this from another cause.",
    "now": "What to do at once.",
    "later": "What to repair.",
    "note": 'Say where the facts come from, or give addresses: links = ["https://…"].',
}
NEAR_MISS_NAME = "a line that looks alike and means something else: put a real one here"


@dataclass(frozen=True)
class Draft:
    """A rule to be edited: where it goes, its text, and what was guessed."""

    rule_id: str
    path: Path
    text: str
    pattern: str
    source: Source
    groups: tuple[str, ...]


def draft(
    line: str,
    directory: Path,
    *,
    rule_id: str = "",
    source: Source | None = None,
    role: Role = Role.SYMPTOM,
    domain: Domain | None = None,
    title: str = "",
) -> Draft:
    """Draft a rule for a line. Raises InputError where the line gives no pattern."""
    line = _one_line(line)
    record = read.parse(line)
    pattern, groups = pattern_for(record.message, record.host)
    subject, guessed = _subject(line, record)
    rule_id = rule_id or f"{subject}.{_slug(record.message)}"
    if not re.fullmatch(r"[a-z0-9_]+\.[a-z0-9][a-z0-9-]*", rule_id):
        raise InputError(f"{rule_id!r} is no rule id: write it as subject.short-name, in lower case")
    if role in (Role.CAUSE, Role.EITHER) and domain is None:
        raise InputError(f"a rule with role {role} needs --domain: {', '.join(d for d in Domain)}")
    folder, _, name = rule_id.partition(".")
    text = _text(
        rule_id,
        title or _title(record.message),
        role,
        domain,
        source or guessed,
        pattern,
        groups,
        line,
        _near_miss(line, pattern),
    )
    return Draft(rule_id, directory / folder / f"{name}.toml", text, pattern, source or guessed, tuple(groups))


def pattern_for(message: str, host: str = "") -> tuple[str, list[str]]:
    """A pattern that finds lines like this one, and the names of its groups. Raises InputError if there is none."""
    parts: list[str] = []
    groups: list[str] = []
    position = 0
    for match in _VARYING.finditer(message):
        index = int((match.lastgroup or "v0")[1:])
        _, name, becomes = _VARIES[index]
        if name == "number" and _in_word(message, match):
            continue
        parts.append(_fixed(message[position : match.start()]))
        parts.append(_group(name, becomes, groups))
        position = match.end()
    parts.append(_fixed(message[position:]))
    pattern = "".join(parts).strip()
    if host and (named := _fixed(host)) in pattern:
        pattern = pattern.replace(named, _group("node", r"[\w.-]+", groups), 1)
    problem = pattern_problem(pattern) if pattern else "there is no text"
    if not problem and not re.search(pattern, message):
        problem = "the pattern made from it does not find it"
    texts, _ = literals.required(pattern) if not problem else (frozenset(), False)
    if not problem and min(map(len, texts), default=0) < 4:
        problem = "it has no fixed text of four characters to look for"
    if problem:
        raise InputError(f"no rule can be made of {message[:120]!r}: {problem}")
    return pattern, groups


def from_reference(text: str) -> str | None:
    """The line that "FILE:LINE" names, or None where it names no file. Raises InputError if the line is not there."""
    name, _, number = text.rpartition(":")
    if not (name and number.isdigit() and Path(name).is_file()):
        return None
    with Path(name).open(encoding="utf-8", errors="replace") as file:
        for index, line in enumerate(file, 1):
            if index == int(number):
                return line
    raise InputError(f"{name} has no line {number}")


def unrecognised(path: Path) -> list[dict[str, Any]]:
    """The unrecognised entries of a verdict's JSON. Raises InputError if it is none."""
    try:
        body = json.loads(path.read_bytes())
        return [entry for entry in body["unrecognised"] if entry["example"]["text"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the JSON of a verdict: {error}") from error


def toml_string(text: str) -> str:
    """The text as a TOML string: without escapes where it can be."""
    if text.isprintable() and "'" not in text:
        return f"'{text}'"
    if text.isprintable() and "'''" not in text and not text.startswith("'") and not text.endswith("'"):
        return f"'''{text}'''"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_line(line: str) -> str:
    line = read.clean(line.strip("\r\n"))[:MAX_LINE]
    if "\n" in line:
        raise InputError("give one line; a rule's pattern stays inside one line")
    if not line.strip():
        raise InputError("the line is empty")
    return line


def _in_word(message: str, match: re.Match[str]) -> bool:
    """Whether a number is part of a word such as mlx5 or cuda12: those stay as they are."""
    before = message[match.start() - 1 : match.start()]
    after = message[match.end() : match.end() + 1]
    return bool(before and (before.isalpha() or before == "_")) or bool(after and after.isalpha() and before.isalpha())


def _fixed(text: str) -> str:
    """Fixed text as a pattern; runs of blanks may differ."""
    words = re.split(r"([ \t]+)", text)
    return "".join(
        (" " if word == " " else r"[ \t]+") if word.strip() == "" and word else re.escape(word) for word in words
    )


def _group(name: str, becomes: str, groups: list[str]) -> str:
    if not name:
        return becomes
    count = sum(1 for known in groups if re.fullmatch(rf"{name}\d*", known))
    groups.append(name if not count else f"{name}{count + 1}")
    return f"(?P<{groups[-1]}>{becomes})"


def _subject(line: str, record: read.Record) -> tuple[str, Source]:
    """Guess the subject, and the source from what wrote the line."""
    for look, subject, source in _SUBJECTS:
        if re.search(look, line):
            return subject, Source.SYSLOG if record.program in ("kernel", "kern") else source
    if record.program in ("kernel", "kern") or record.uptime is not None:
        return "kernel", Source.SYSLOG
    return ("site", Source.SYSLOG) if record.program and record.host else ("site", Source.APPLOG)


def _slug(message: str) -> str:
    words = [w.lower() for w in re.findall(r"[A-Za-z]{2,}", _VARYING.sub(" ", message))]
    return "-".join(words[:5])[:48].strip("-") or "new-rule"


def _title(message: str) -> str:
    words = " ".join(_VARYING.sub("…", message).split())
    return words[:90]


def _near_miss(line: str, pattern: str) -> str:
    """The line with the longest words of its message changed until the pattern does not find it."""
    words = set(re.findall(r"[A-Za-z]{3,}", read.parse(line).message))
    for word in sorted(words, key=lambda w: (-len(w), w)):
        line = line.replace(word, "something" if word != "something" else "else")
        if not re.search(pattern, line):
            return line
    return "something else altogether"


def _text(
    rule_id: str,
    title: str,
    role: Role,
    domain: Domain | None,
    source: Source,
    pattern: str,
    groups: list[str],
    line: str,
    near_miss: str,
) -> str:
    symptom = rule_id.replace(".", "_").replace("-", "_")
    locus = {group.rstrip("0123456789"): group for group in reversed(groups)}
    places = [f'{part} = "{locus[part]}"' for part in ("node", "gpu", "peer") if part in locus]
    if "uuid" in locus and "gpu" not in locus and "GPU-" in pattern:
        places.append(f'gpu = "{locus["uuid"]}"')
    expect = ", ".join(["matches = 1", *_expected(pattern, line, groups)])
    domain_line = (
        f'domain   = "{domain}"'
        if domain
        else '# domain = "host_software"   # needed once the role is "cause" or "either"'
    )
    draft = {key: toml_string(text) for key, text in PLACEHOLDERS.items()}
    return f"""id       = "{rule_id}"
title    = {toml_string(title)}
symptom  = "{symptom}"
# cause: by itself says what failed · either: cause or consequence · symptom: only ever a consequence ·
# state: true for a time, never blamed · noise: harmless · progress: the workload moved
role     = "{role}"
{domain_line}
maturity = "draft"

meaning  = {draft["meaning"]}
impact   = {draft["impact"]}
check    = {draft["check"]}
now      = {draft["now"]}
later    = {draft["later"]}
note     = {draft["note"]}

[match]
sources = ["{source}"]
any     = [{toml_string(pattern)}]

[locus]
{chr(10).join(places) if places else NO_PLACES}

[[test]]
name   = "the line as it was printed"
lines  = [{toml_string(line)}]
expect = {{ {expect} }}

[[test]]
name   = {toml_string(NEAR_MISS_NAME)}
lines  = [{toml_string(near_miss)}]
expect = {{ matches = 0 }}
"""


def _expected(pattern: str, line: str, groups: list[str]) -> list[str]:
    """What the test can ask of the groups that are no place: their text as found."""
    match = re.search(pattern, read.parse(line).message)
    plain = [g for g in groups if re.fullmatch(r"(?:number|path)\d*", g)]
    return [f"{g} = {json.dumps(match[g], ensure_ascii=False)}" for g in plain[:3]] if match else []
