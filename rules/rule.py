"""One rule of the catalogue: its shape, and its reading from a TOML file."""

import re
import tomllib
from fnmatch import fnmatchcase
from typing import Annotated, Any

import msgspec

from rules.stamp import duration
from rules.words import CAUSAL_DOMAINS, Domain, Group, Maturity, Relation, Role, Source, State

Words = Annotated[str, msgspec.Meta(min_length=1)]
Id = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_]+\.[a-z0-9][a-z0-9-]*$")]
Symptom = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*$")]


class RuleError(ValueError):
    """A rule file that cannot be used; the message starts with file and line."""


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When the rule fires: any pattern of `any` on a message, none of `none`, and what its fields say.

    `sources` are the kinds of evidence that normally carry the message. `where` and `unless` hold
    lists of values by group or decoded field; all of `where` must hold, none of `unless`. `generic`
    rules give way to any other rule that fires on the same line.
    """

    sources: Annotated[list[Source], msgspec.Meta(min_length=1)]
    any: Annotated[list[Words], msgspec.Meta(min_length=1)]
    none: list[Words] = []
    decode: str = ""
    where: dict[str, list[str]] = {}
    unless: dict[str, list[str]] = {}
    generic: bool = False


class LocusFrom(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where each part of the locus comes from: a named group, a decoded field, "source.node" or "source.rank".

    "host or source.node" takes the first that is there.
    """

    node: str = "source.node"
    rank: str = "source.rank"
    gpu: str = ""
    link: str = ""
    peer: str = ""
    port: str = ""
    switch: str = ""
    image: str = ""
    device: str = ""
    job: bool = False  # the finding speaks of the whole job: no node is to blame


class Explains(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may follow from a finding: rule ids or symptoms as globs, or "@group"; where; within what time."""

    symptoms: Annotated[list[Words], msgspec.Meta(min_length=1)]
    on: Relation = Relation.JOB
    within: str = "2h"
    only_if_earlier: bool = False  # holds only where the cause is known to have come first


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A test of one rule: the lines, and how often it fires with what locus and fields."""

    name: Words
    lines: Annotated[list[str], msgspec.Meta(min_length=1)]
    expect: dict[str, str | int]
    source: Source | None = None


class IncidentExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A test of the rule in a whole incident: files by "source" or "source/node", and the verdict wanted."""

    name: Words
    files: dict[str, list[str]]
    expect: dict[str, str | list[str]]
    attempt: dict[str, Any] = {}


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule as an operator writes it; docs/rules.md describes every key."""

    id: Id
    title: Words
    symptom: Symptom
    role: Role
    match: Match
    domain: Domain | None = None
    maturity: Maturity = Maturity.TRIAL
    meaning: Words
    impact: str = ""
    check: str = ""  # the cheapest test that tells this cause from another
    now: str = ""  # containment
    later: str = ""  # repair
    apart: list[Words] = []  # what tells it from its look-alikes
    overturn: list[Words] = []  # what would show that it is wrong
    groups: list[Group] = []
    state: State | None = None  # how the attempt ended, when the message says so
    lag: str = ""  # the message may come this long after what it reports
    persistent: bool = False  # a state that stays true: may lie before the attempt
    inferred: bool = False  # read off consequences: never more than weak
    node_fault: bool | None = None  # whether the located node is itself at fault; default: by domain
    healthy_per_node_day: float | None = None  # matches expected on a healthy fleet
    maps: dict[str, str] = {}  # rank, ranks (of the job), node, gpu, address, uuid by group: who is where
    seen: dict[str, str] = {}
    links: list[Words] = []
    note: str = ""
    locus: LocusFrom = LocusFrom()
    explains: list[Explains] = []
    confirms: list[Explains] = []
    ends: list[Explains] = []  # what is over where this was seen: an answer after a silence, a link up after a down
    refutes: list[Explains] = []  # what cannot be true where this was seen
    test: list[Example] = []
    incident: list[IncidentExample] = []

    @property
    def subject(self) -> str:
        """The folder that the rule lives in."""
        return self.id.partition(".")[0]

    @property
    def blamable(self) -> bool:
        """Whether a finding of this rule can be a cause at all."""
        return self.role in (Role.CAUSE, Role.EITHER)


def parse_rule(raw: bytes, *, name: str) -> Rule:
    """Read one rule file. Raises RuleError with file, line where known, and the key."""
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RuleError(f"{name}: not UTF-8: {error}") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise RuleError(f"{name}:{line[1] if line else 1}: {error}") from error
    try:
        rule = msgspec.convert(data, Rule)
    except msgspec.ValidationError as error:
        text = str(error)
        key = re.search(r"`\$\.?([^`]*)`$", text)
        raise RuleError(f"{name}:{line_of(raw, key[1] if key else '', text)}: {text}") from error
    for problem, needle in _problems(rule):
        raise RuleError(f"{name}:{line_of(raw, needle, needle)}: {problem}")
    return rule


def _problems(rule: Rule) -> list[tuple[str, str]]:
    """What the types cannot say: (problem, text to look for in the file)."""
    found = []
    if rule.blamable and rule.domain not in CAUSAL_DOMAINS:
        found.append((f"a rule with role {rule.role} needs a domain that can be blamed, not {rule.domain}", "role"))
    for key, text in [
        ("lag", rule.lag),
        *(("within", entry.within) for entry in [*rule.explains, *rule.confirms, *rule.ends, *rule.refutes]),
    ]:
        try:
            duration(text or "0s")
        except ValueError as error:
            found.append((f"{key}: {error}", text))
    for entry in [*rule.explains, *rule.confirms, *rule.ends, *rule.refutes]:
        for target in entry.symptoms:
            if target.startswith("@") and target[1:] not in {str(group) for group in Group}:
                found.append((f"{target!r} is none of the groups {', '.join('@' + str(g) for g in Group)}", target))
    for pattern in [*rule.match.any, *rule.match.none]:
        if problem := pattern_problem(pattern):
            found.append((f"pattern {pattern!r}: {problem}", pattern))
    groups = {name for pattern in rule.match.any for name in re.compile(pattern).groupindex} if not found else set()
    if not found and not rule.match.decode:
        for field in ("node", "rank", "gpu", "link", "peer", "port", "switch", "image", "device"):
            for value in getattr(rule.locus, field).split(" or "):
                if value and value not in groups and value not in ("source.node", "source.rank"):
                    found.append((f"locus.{field}: no pattern has a group named {value!r}", value))
    return found


_FLAGS = re.compile(r"^\(\?[ims]+\)")
_CLASS = re.compile(r"\[\^((?:\\.|[^\]\\])*)\]")


def pattern_problem(pattern: str) -> str:
    """Why a pattern is not allowed, or "": it must be linear-time and stay inside one line."""
    body = _FLAGS.sub("", pattern)
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        return f"not a regular expression: {error}"
    if compiled.search(""):
        return "matches the empty text, so it matches every line"
    if re.search(r"\(\?(?:[=!]|<[=!])", body):
        return "look-around is not linear-time and not allowed; use `none`"
    if re.search(r"\(\?P=|(?<!\\)(?:\\\\)*\\[1-9]", body):
        return "back-references are not linear-time and not allowed"
    if re.search(r"(?<!\\)(?:\\\\)*\\[sSWD]", _CLASS.sub("", body)):
        return r"\s, \S, \W and \D can cross a line; write [ \t], [^ \t\n], [^\w\n] or [^\d\n]"
    for inside in _CLASS.findall(body):
        if r"\n" not in inside:
            return rf"[^{inside}] can cross a line; add \n to it"
    if "^" in _CLASS.sub("", body).replace(r"\^", "")[1:]:
        return "^ is allowed only at the very start"
    if "$" in _CLASS.sub("", body).replace(r"\$", "")[:-1]:
        return "$ is allowed only at the very end"
    return ""


def targets(pattern: str, rule: Rule) -> bool:
    """Whether a name of an `explains` entry ("@group", or a glob of ids or symptoms) means this rule."""
    if pattern.startswith("@"):
        return pattern[1:] in rule.groups
    return fnmatchcase(rule.id, pattern) or fnmatchcase(rule.symptom, pattern)


def line_of(raw: bytes, key: str, text: str) -> int:
    """The line in which a key (dotted, as msgspec names it) or a text stands; 1 when it cannot be told."""
    lines = raw.decode("utf-8", "replace").splitlines()
    last = re.sub(r"\[\d*\]|\[\.\.\.\]", "", key).split(".")[-1]
    if unknown := re.search(r"unknown field `([^`]+)`", text):
        last = unknown[1]
    for number, line in enumerate(lines, 1):
        if last and re.match(rf"\s*\[*{re.escape(last)}\]*\s*(=|$)", line):
            return number
    return next((number for number, line in enumerate(lines, 1) if text and text in line), 1)
