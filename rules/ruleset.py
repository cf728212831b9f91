"""The rules that are in force: the shipped catalogue, a site's layer over it, and their digest.

Reading three hundred TOML files and compiling their automaton takes about a second, so both are kept
under the user's cache folder by digest; a cache that cannot be read or written is only slower.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from rules import scan
from rules.attempt import TOPOLOGY_KINDS
from rules.rule import Explains, Rule, RuleError, line_of, parse_rule, targets
from rules.stamp import MICRO
from rules.words import ALWAYS, Domain, Maturity, Role, Source

CATALOGUE = Path(__file__).parent / "catalogue"
SITE_FILE = "site.toml"
DEFAULTS_FILE = "defaults.toml"
#: A rule has a few kB; a longer file is something else.
MOST_FILE_BYTES = 1 << 20
#: Part of the cache key: raised when the shape of what is cached changes.
CACHE_VERSION = "3"


class Override(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a site changes of a shipped rule without copying it."""

    maturity: Maturity | None = None
    role: Role | None = None
    domain: Domain | None = None


class Site(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`site.toml`: rules switched off, changed words, and what the site knows of its cluster."""

    disable: list[str] = []
    overrides: dict[str, Override] = {}
    topology: dict[str, dict[str, list[str]]] = {}
    clock_bounds: dict[Source, float] = {}
    absent: list[Source] = []  # kinds of evidence that the site does not have, such as GPU events without GPUs


class Default(Explains, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An explanation that every rule of some roles gives without saying so (`defaults.toml`)."""

    roles: list[Role]


class _Cached(msgspec.Struct, frozen=True):
    """What one cache file holds."""

    rules: list[Rule]
    defaults: list[Default]
    site: Site
    automaton: bytes
    layers: list[str]


class RulesetFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The text of one file of a ruleset: its layer ("shipped", "site") and its name within that."""

    layer: str
    name: str
    text: str


@dataclass(frozen=True, eq=False)
class Ruleset:
    """Rules ordered by id, with the digest of every file that they came from, and those files where it was loaded."""

    rules: tuple[Rule, ...]
    digest: str
    layers: tuple[str, ...] = ("shipped",)
    site: Site = field(default_factory=Site)
    defaults: tuple[Default, ...] = ()
    automaton: bytes = b""
    files: tuple[RulesetFile, ...] = ()

    @cached_property
    def scanner(self) -> scan.Scanner:
        """The multi-pattern scanner over all rules."""
        return scan.Scanner(self.patterns, automaton=self.automaton)

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """Every pattern that can make a rule fire, in the order of `owners`."""
        return tuple(pattern for rule in self.rules for pattern in rule.match.any)

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """For each pattern the index of its rule."""
        return tuple(index for index, rule in enumerate(self.rules) for _ in rule.match.any)

    @cached_property
    def blamable(self) -> dict[Source, tuple[Rule, ...]]:
        """Rules whose findings can be a cause, by the source that they are first looked for in; for each source."""
        found = [rule for rule in self.rules if rule.blamable]
        return {source: tuple(rule for rule in found if rule.match.sources[0] == source) for source in Source}

    def speaking(self, source: Source, of: Rule) -> tuple[Rule, ...]:
        """The blamable rules of a source that say that they can explain a rule's findings, wherever and whenever.

        Asked once for each finding of an attempt, and some have thousands of one rule.
        """
        known = self._speaking.get((source, of.id))
        if known is None:
            found = (rule for rule in self.blamable[source] if speaks_of(rule, of))
            known = self._speaking[source, of.id] = tuple(found)
        return known

    @cached_property
    def _speaking(self) -> dict[tuple[Source, str], tuple[Rule, ...]]:
        return {}

    @cached_property
    def by_id(self) -> dict[str, Rule]:
        """Rules by id."""
        return {rule.id: rule for rule in self.rules}


def speaks_of(rule: Rule, of: Rule) -> bool:
    """Whether a rule says that it can explain another's findings."""
    return any(targets(name, of) for entry in rule.explains for name in entry.symptoms)


def load_ruleset(site_dir: str | Path | None = None, *, cache: bool = True) -> Ruleset:
    """Load the shipped catalogue with a site's layer over it.

    Without `site_dir` the environment's INQUEST_RULES_DIR is used, if set. Raises RuleError.
    """
    site_dir = site_dir or os.environ.get("INQUEST_RULES_DIR") or None
    layers = [("shipped", CATALOGUE)]
    if site_dir is not None:
        if not Path(site_dir).is_dir():
            raise RuleError(f"{site_dir}: the directory of site rules does not exist")
        layers.append(("site", Path(site_dir)))
    files = [(label, path.relative_to(root).as_posix(), path) for label, root in layers for path in _files(root)]
    raws = [_read(path) for _, _, path in files]
    digest = _digest(files, raws)
    built = _read_cache(digest) if cache else None
    if built is None:
        built = _build(files, raws, [label for label, _ in layers])
        if cache:
            _write_cache(digest, built)
    return _from_cached(built, digest, _texts(files, raws))


def packed(ruleset: Ruleset) -> bytes:
    """A ruleset for another process: everything that it was built from, compiled automaton included."""
    built = _Cached(list(ruleset.rules), list(ruleset.defaults), ruleset.site, ruleset.automaton, list(ruleset.layers))
    return msgspec.msgpack.encode((ruleset.digest, built))


def unpacked(data: bytes) -> Ruleset:
    """The ruleset that was packed."""
    digest, built = msgspec.msgpack.decode(data, type=tuple[str, _Cached])
    return _from_cached(built, digest)


def load_files(files: dict[str, bytes]) -> Ruleset:
    """A ruleset from texts by relative name: what tests make up. Raises RuleError."""
    entries = [("given", name, Path(name)) for name in sorted(files)]
    raws = [files[name] for _, name, _ in entries]
    return _from_cached(_build(entries, raws, ["given"]), _digest(entries, raws), _texts(entries, raws))


def ruleset_from(files: Sequence[RulesetFile], layers: Sequence[str]) -> Ruleset:
    """A ruleset from the texts that were kept of it, in their order: it has the same digest. Raises RuleError."""
    entries = [(file.layer, file.name, Path(file.name)) for file in files]
    raws = [file.text.encode() for file in files]
    digest = _digest(entries, raws)
    built = _read_cache(digest)
    if built is None or built.layers != list(layers):
        # A file at the top of a site's directory has an id by that directory's name, which is not part of the text.
        built = _build(entries, raws, list(layers), placed=False)
    return _from_cached(built, digest, tuple(files))


def _files(root: Path) -> list[Path]:
    files = sorted(path for path in root.rglob("*.toml") if not path.name.startswith("."))
    for path in files:
        # A digest is over names, too: one that has no bytes in UTF-8 has none.
        if not str(path).isprintable():
            raise RuleError(f"{str(path)!a}: a name of printable characters, in UTF-8")
    return files


def _read(path: Path) -> bytes:
    """The file's bytes. A pipe would be waited for without end, and a device has no end: only files are read."""
    try:
        if not path.is_file():
            raise RuleError(f"{path}: not a file")
        with path.open("rb") as file:
            raw = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise RuleError(f"{path}: {error.strerror}") from error
    if len(raw) > MOST_FILE_BYTES:
        raise RuleError(f"{path}: longer than {MOST_FILE_BYTES:,} bytes")
    return raw


def _texts(files: list[tuple[str, str, Path]], raws: list[bytes]) -> tuple[RulesetFile, ...]:
    """The files' texts; they are UTF-8, or they would not have been read as rules."""
    return tuple(RulesetFile(label, name, raw.decode()) for (label, name, _), raw in zip(files, raws, strict=True))


def _digest(files: list[tuple[str, str, Path]], raws: list[bytes]) -> str:
    total = hashlib.sha256()
    for (label, name, _), raw in zip(files, raws, strict=True):
        total.update(f"{label}\0{name}\0{len(raw)}\0".encode())
        total.update(raw)
    return total.hexdigest()


def _build(files: list[tuple[str, str, Path]], raws: list[bytes], layers: list[str], *, placed: bool = True) -> _Cached:
    rules: dict[str, Rule] = {}
    origin: dict[str, tuple[str, Path]] = {}
    defaults: list[Default] = []
    site = Site()
    for (label, name, path), raw in zip(files, raws, strict=True):
        if name == SITE_FILE:
            site = _read_site(raw, path)
            continue
        if name == DEFAULTS_FILE:
            defaults = _read_defaults(raw, path)
            continue
        rule = parse_rule(raw, name=str(path))
        if placed and rule.id != f"{path.parent.name}.{path.stem}":
            line = line_of(raw, "id", "id")
            raise RuleError(f"{path}:{line}: id {rule.id!r} does not agree with {path.parent.name}/{path.name}")
        if rule.id in rules and origin[rule.id][0] == label:
            raise RuleError(f"{path}:{line_of(raw, 'id', 'id')}: id {rule.id!r} is also in {origin[rule.id][1]}")
        rules[rule.id], origin[rule.id] = rule, (label, path)
    rules = _apply(site, rules)
    ordered = [_slim(rules[rule_id]) for rule_id in sorted(rules)]
    patterns = [pattern for rule in ordered for pattern in rule.match.any]
    return _Cached(ordered, defaults, site, scan.compile_automaton(patterns), layers)


def _toml(raw: bytes, path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RuleError(f"{path}:1: {error}") from error


def _read_defaults(raw: bytes, path: Path) -> list[Default]:
    try:
        return msgspec.convert(_toml(raw, path).get("explains", []), list[Default])
    except msgspec.ValidationError as error:
        raise RuleError(f"{path}:1: {error}") from error


def _read_site(raw: bytes, path: Path) -> Site:
    try:
        site = msgspec.convert(_toml(raw, path), Site)
    except msgspec.ValidationError as error:
        raise RuleError(f"{path}:1: {error}") from error
    for source in site.absent:
        if source in ALWAYS:
            line = line_of(raw, "absent", source)
            raise RuleError(f"{path}:{line}: absent: {source}: every attempt leaves something there")
    for kind in site.topology:
        if kind not in TOPOLOGY_KINDS:
            raise RuleError(
                f"{path}:{line_of(raw, kind, kind)}: topology.{kind} is none of {', '.join(TOPOLOGY_KINDS)}"
            )
    return site


def _apply(site: Site, rules: dict[str, Rule]) -> dict[str, Rule]:
    for rule_id in [*site.disable, *site.overrides]:
        if rule_id not in rules:
            raise RuleError(f"{SITE_FILE}: there is no rule {rule_id!r}")
    kept = {rule_id: rule for rule_id, rule in rules.items() if rule_id not in site.disable}
    for rule_id, override in site.overrides.items():
        if rule_id in kept:
            changes = {key: value for key, value in msgspec.structs.asdict(override).items() if value is not None}
            kept[rule_id] = msgspec.structs.replace(kept[rule_id], **changes)
    return kept


def _slim(rule: Rule) -> Rule:
    """The rule without its tests, which only `inquest rules` reads and reads for itself."""
    return msgspec.structs.replace(rule, test=[], incident=[])


def _from_cached(cached: _Cached, digest: str, files: tuple[RulesetFile, ...] = ()) -> Ruleset:
    return Ruleset(
        rules=tuple(cached.rules),
        digest=digest,
        layers=tuple(cached.layers),
        site=cached.site,
        defaults=tuple(cached.defaults),
        automaton=cached.automaton,
        files=files,
    )


def _cache_file(digest: str) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return base / "inquest" / f"rules-{CACHE_VERSION}-{scan.BACKEND}-{digest[:32]}.bin"


def _read_cache(digest: str) -> _Cached | None:
    """The cached build, or None when there is none or it is damaged (the first 32 bytes are its sha256)."""
    try:
        data = _cache_file(digest).read_bytes()
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            return None
        return msgspec.msgpack.decode(data[32:], type=_Cached)
    except (OSError, msgspec.MsgspecError):
        return None


def _write_cache(digest: str, built: _Cached) -> None:
    """Keep the build for the next start; a read-only or full home only costs the time again."""
    path = _cache_file(digest)
    data = msgspec.msgpack.encode(built)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(data).digest() + data)
        Path(file.name).replace(path)
    except (OSError, RuntimeError):
        return


#: Default clock bounds in microseconds: how far a stamp of this source may be from true time.
CLOCK_BOUNDS = {
    Source.APPLOG: 1 * MICRO,
    Source.SYSLOG: 1 * MICRO,
    Source.FABRIC_MANAGER: 1 * MICRO,
    Source.SCHEDULER: 5 * MICRO,
    Source.KUBERNETES: 2 * MICRO,
    Source.NODE_METRICS: 30 * MICRO,
    Source.NETWORK_METRICS: 30 * MICRO,
    Source.GPU_EVENTS: 5 * MICRO,
    Source.PROGRESS: 5 * MICRO,
}
