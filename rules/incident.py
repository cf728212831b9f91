"""The incident folder and loose files: what is evidence of what.

An incident folder has `attempt.json` and evidence grouped by source and node (`syslog/<node>.log`).
Loose files are taken as they come: their source is guessed from their content, then their name, and
every guess is said.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rules import looks
from rules.attempt import MAX_NAME, Attempt, InputError, decode_attempt
from rules.redact import PLAIN, Redactor
from rules.verdict import plain_text
from rules.words import Source

ATTEMPT_FILE = "attempt.json"
MAX_FILES = 200_000
#: A large job's ranks and topology are a few mebibytes.
MAX_ATTEMPT = 64 << 20
#: A reference is a name and a line number in 1,024 characters.
MAX_FILE_NAME = 1000
_SUFFIX = re.compile(
    r"(?:\.(?:log|txt|out|err|json|jsonl|ndjson|gz|zst|messages|export|journal|pickle|pkl)|\.\d{1,4}|-\d{8})+$"
)
_RANK_NAME = re.compile(r"(?:^|[._-])rank[._-]?(\d{1,7})(?=$|[._-])", re.IGNORECASE)


@dataclass(frozen=True)
class EvidenceFile:
    """One file of evidence: `name` is how references call it; `why` says how its source was found."""

    path: Path
    name: str
    source: Source
    node: str = ""
    rank: int | None = None
    why: str = ""


@dataclass(frozen=True)
class Incident:
    """An attempt with its evidence files; `notes` are the guesses that were made."""

    attempt: Attempt
    files: list[EvidenceFile]
    notes: list[str] = field(default_factory=list)


def open_incident(
    paths: list[Path],
    *,
    sources: dict[str, Source] | None = None,
    nodes: dict[str, str] | None = None,
    redactor: Redactor = PLAIN,
) -> Incident:
    """Find the evidence under `paths`.

    `sources` and `nodes` map a path, as given, to what the user says it is. Raises InputError naming
    the path when there is nothing to read, or the field when attempt.json is wrong.
    """
    sources, nodes = sources or {}, nodes or {}
    attempt = Attempt(job_id="unknown")
    found: list[EvidenceFile] = []
    notes: list[str] = []
    extra = [Path(p) for p in [*sources, *nodes] if Path(p) not in paths]
    for path in dict.fromkeys([*paths, *extra]):
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder")
        if path.is_dir():
            if (path / ATTEMPT_FILE).is_file():
                attempt = _attempt(path / ATTEMPT_FILE, redactor)
            found += _folder(path, attempt, notes)
        elif path.name == ATTEMPT_FILE:
            attempt = _attempt(path, redactor)
        elif not path.is_file():
            raise InputError(f"{path}: neither a file nor a folder; write what it says into a file first")
        else:
            found.append(_loose(path, shown(path.name), sources.get(str(path)), nodes.get(str(path), ""), notes))
    if not found and attempt.job_id == "unknown":
        where = ", ".join(str(p) for p in paths)
        raise InputError(f"{where}: no evidence: neither {ATTEMPT_FILE} nor a file to read")
    return Incident(attempt, sorted(_distinct(found), key=lambda f: f.name), notes)


def _attempt(path: Path, redactor: Redactor) -> Attempt:
    if path.stat().st_size > MAX_ATTEMPT:
        raise InputError(f"{path}: larger than {MAX_ATTEMPT} bytes")
    return decode_attempt(path.read_bytes(), name=str(path), redactor=redactor)


def shown(name: str) -> str:
    """A file's name as one line of printable text; of a very long one the end.

    A name is any bytes: a newline, an escape sequence or bytes that are no UTF-8 must reach neither a
    terminal nor a reference.
    """
    text = plain_text(os.fsencode(name).decode("utf-8", "backslashreplace"), 8 * MAX_FILE_NAME)
    return text if len(text) <= MAX_FILE_NAME else "…" + text[1 - MAX_FILE_NAME :]


def _distinct(found: list[EvidenceFile]) -> list[EvidenceFile]:
    """The files with the folders before the name where two are called alike: a reference names one of them."""
    times = Counter(file.name for file in found)
    return [replace(file, name=shown(str(file.path))) if times[file.name] > 1 else file for file in found]


def _folder(root: Path, attempt: Attempt, notes: list[str]) -> list[EvidenceFile]:
    out: list[EvidenceFile] = []
    for path in _files(root, notes):
        relative = Path(shown(path.relative_to(root).as_posix()))
        if relative.name == ATTEMPT_FILE:
            continue
        if len(out) >= MAX_FILES:
            raise InputError(f"{root}: more than {MAX_FILES} files")
        top = relative.parts[0]
        if len(relative.parts) > 1 and top in set(Source):
            node, rank = _who(relative, attempt)
            out.append(EvidenceFile(path, relative.as_posix(), Source(top), node, rank, "its folder"))
        else:
            out.append(_loose(path, relative.as_posix(), None, "", notes))
    return out


def _files(root: Path, notes: list[str]) -> Iterator[Path]:
    """The regular files below a folder, in the order of their names; what is passed over is noted."""
    passed: list[str] = []

    def unreadable(error: OSError) -> None:
        passed.append(f"{shown(os.path.relpath(error.filename, root))}: {error.strerror}")

    inside = root.resolve()
    paths = []
    for folder, names, files in os.walk(root, onerror=unreadable):
        names[:] = [name for name in names if not name.startswith(".")]
        paths += [Path(folder, name) for name in files if not name.startswith(".")]
    for path in sorted(paths):
        name = shown(path.relative_to(root).as_posix())
        try:
            if not path.resolve().is_relative_to(inside):
                passed.append(f"{name}: a link that leads out of the folder is not followed")
            elif path.is_file():
                yield path
            else:
                passed.append(f"{name}: not a regular file, or a link that leads nowhere")
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
            passed.append(f"{name}: {getattr(error, 'strerror', '') or error}")
    notes += passed


def _who(relative: Path, attempt: Attempt) -> tuple[str, int | None]:
    """Node and rank of `<source>/<node>.log`, `<source>/<node>/…` or `applog/rank-3.log`."""
    name = relative.parts[1]
    stem = _SUFFIX.sub("", name)
    rank = _RANK_NAME.search(_SUFFIX.sub("", relative.name))
    number = int(rank[1]) if rank else None
    if stem in attempt.nodes:
        return stem, number
    if len(relative.parts) > 2:
        return name[:MAX_NAME], number
    if relative.parts[0] in (Source.SYSLOG, Source.FABRIC_MANAGER, Source.NODE_METRICS, Source.GPU_EVENTS):
        return ("" if stem in _COMMON_NAMES else stem[:MAX_NAME]), number
    return "", number


_COMMON_NAMES = {
    "syslog",
    "messages",
    "dmesg",
    "kern",
    "kernel",
    "fabricmanager",
    "fabric_manager",
    "all",
    "journal",
    "events",
}


def _loose(path: Path, name: str, source: Source | None, node: str, notes: list[str]) -> EvidenceFile:
    own = shown(path.name)
    rank = _RANK_NAME.search(_SUFFIX.sub("", own)) or re.search(r"^dump_(\d{1,7})\.(?:json|pkl|pickle)$", own)
    number = int(rank[1]) if rank else None
    if source is not None:
        return EvidenceFile(path, name, source, node, number, "as given")
    if node:
        return EvidenceFile(path, name, Source.SYSLOG, node, number, "as given")
    source, why = looks.guess(path)
    node = _node_of_name(own)[:MAX_NAME] if source in (Source.SYSLOG, Source.FABRIC_MANAGER) else ""
    notes.append(f"{name}: read as {source}{f' of node {node}' if node else ''} ({why})")
    return EvidenceFile(path, name, source, node, number, why)


def _node_of_name(name: str) -> str:
    """ "dmesg-node7.txt" is node7's; a bare "dmesg.txt" nobody's."""
    match = re.match(r"(?:dmesg|syslog|messages|kern|kernel|journal|fabricmanager)[._-](.+)$", _SUFFIX.sub("", name))
    return match[1] if match and match[1].lower() not in _COMMON_NAMES | {"log", "later", "full", "out"} else ""
