"""The incident folder and loose files: what is evidence of what.

An incident folder has `attempt.json` and evidence grouped by source and node (`syslog/<node>.log`).
Loose files are taken as they come: their source is guessed from their content, then their name, and
every guess is said.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from rules import looks
from rules.attempt import Attempt, InputError, decode_attempt
from rules.words import Source

ATTEMPT_FILE = "attempt.json"
MAX_FILES = 200_000
_SUFFIX = re.compile(r"(?:\.(?:log|txt|out|err|json|jsonl|ndjson|gz|zst|messages|pickle|pkl)|\.\d{1,4}|-\d{8})+$")
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
    paths: list[Path], *, sources: dict[str, Source] | None = None, nodes: dict[str, str] | None = None
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
                attempt = decode_attempt((path / ATTEMPT_FILE).read_bytes(), name=str(path / ATTEMPT_FILE))
            found += _folder(path, attempt, notes)
        elif path.name == ATTEMPT_FILE:
            attempt = decode_attempt(path.read_bytes(), name=str(path))
        else:
            name = path.name if len(paths) + len(extra) > 1 or True else str(path)
            found.append(_loose(path, name, sources.get(str(path)), nodes.get(str(path), ""), notes))
    if not found and attempt.job_id == "unknown":
        where = ", ".join(str(p) for p in paths)
        raise InputError(f"{where}: no evidence: neither {ATTEMPT_FILE} nor a file to read")
    return Incident(attempt, sorted(found, key=lambda f: f.name), notes)


def _folder(root: Path, attempt: Attempt, notes: list[str]) -> list[EvidenceFile]:
    out: list[EvidenceFile] = []
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if not path.is_file() or relative.name == ATTEMPT_FILE or any(p.startswith(".") for p in relative.parts):
            continue
        if not path.resolve().is_relative_to(root.resolve()):
            notes.append(f"{relative}: a link that leads out of the folder is not followed")
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


def _who(relative: Path, attempt: Attempt) -> tuple[str, int | None]:
    """Node and rank of `<source>/<node>.log`, `<source>/<node>/…` or `applog/rank-3.log`."""
    name = relative.parts[1]
    stem = _SUFFIX.sub("", name)
    rank = _RANK_NAME.search(_SUFFIX.sub("", relative.name))
    number = int(rank[1]) if rank else None
    if stem in attempt.nodes:
        return stem, number
    if len(relative.parts) > 2:
        return name, number
    if relative.parts[0] in (Source.SYSLOG, Source.FABRIC_MANAGER, Source.NODE_METRICS, Source.GPU_EVENTS):
        return ("" if stem in _COMMON_NAMES else stem), number
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
    rank = _RANK_NAME.search(_SUFFIX.sub("", path.name)) or re.search(
        r"^dump_(\d{1,7})\.(?:json|pkl|pickle)$", path.name
    )
    number = int(rank[1]) if rank else None
    if source is not None:
        return EvidenceFile(path, name, source, node, number, "as given")
    if node:
        return EvidenceFile(path, name, Source.SYSLOG, node, number, "as given")
    source, why = looks.guess(path)
    node = _node_of_name(path.name) if source in (Source.SYSLOG, Source.FABRIC_MANAGER) else ""
    notes.append(f"{name}: read as {source}{f' of node {node}' if node else ''} ({why})")
    return EvidenceFile(path, name, source, node, number, why)


def _node_of_name(name: str) -> str:
    """ "dmesg-node7.txt" is node7's; a bare "dmesg.txt" nobody's."""
    match = re.match(r"(?:dmesg|syslog|messages|kern|kernel|journal|fabricmanager)[._-](.+)$", _SUFFIX.sub("", name))
    return match[1] if match and match[1].lower() not in _COMMON_NAMES | {"log", "later", "full", "out"} else ""
