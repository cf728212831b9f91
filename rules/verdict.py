"""The verdict: its parts, and the canonical JSON that is stored, hashed and compared.

No part holds a float or anything read from a clock, so equal evidence gives equal bytes.
"""

import hashlib
from typing import Any

import msgspec

from rules.attempt import CollectorReport
from rules.words import Domain, Maturity, Relation, Role, Source, State, Strength

SCHEMA = "inquest.verdict/1"
ENGINE = "1"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One line that was read, with where to find it again.

    `after` says that the line printed no time of its own: `time` is that of the last dated line before it.
    """

    source: Source
    node: str
    rank: int | None
    ref: str
    file: str
    line: int | None
    time: str | None
    text: str
    count: int = 1
    frame: str = ""
    after: bool = False


class ExplainedBy(msgspec.Struct, frozen=True, kw_only=True):
    """Why a symptom is demoted: by which finding and rule, in which relation, with what timing."""

    finding: str
    rule: str
    title: str
    relation: Relation
    timing: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A symptom at a place: what one or several rules found there, folded over every line that said so."""

    id: str
    rule: str
    title: str
    meaning: str
    symptom: str
    domain: Domain | None
    role: Role
    maturity: Maturity
    strength: Strength | None
    locus: dict[str, str]
    nodes: list[str]
    ranks: list[int]
    peers: list[str]
    places: int
    decoded: dict[str, str]
    count: int
    sources: list[Source]
    first: str | None
    last: str | None
    evidence: list[Evidence]
    explained_by: ExplainedBy | None = None
    why: str = ""


class AffectedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that the verdict holds at fault, with the parts of it that were named."""

    name: str
    gpus: list[str]
    ranks: list[int]
    links: list[str]


class SharedElement(msgspec.Struct, frozen=True, kw_only=True):
    """What the affected nodes share and the others do not."""

    kind: str
    name: str
    nodes: list[str]


class Unrecognised(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that look like errors and that no rule knows, folded into a template."""

    template: str
    count: int
    source: Source
    near_end: bool
    example: Evidence


class BlindSpot(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that could not fire because their source was missing."""

    source: Source
    status: str
    rules: int
    could_explain: list[str]
    examples: list[str]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence with the rule and findings that it comes from."""

    text: str
    rule: str | None = None
    findings: list[str] = []


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """One step: which evidence made which finding through which rule, and what became of it."""

    finding: str
    status: str
    because: str
    rule: str
    evidence: list[str]


class RulesetUsed(msgspec.Struct, frozen=True, kw_only=True):
    """Which rules were in force."""

    digest: str
    rules: int
    layers: list[str]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one attempt; docs/engine.md describes every field."""

    attempt: dict[str, Any]
    terminal_state: State
    attributed_domain: Domain
    strength: Strength | None
    headline: str
    affected_nodes: list[AffectedNode]
    shared_element: SharedElement | None
    causes: list[Finding]
    candidates: list[Finding]
    demoted: list[Finding]
    interesting: list[Finding]
    unrecognised: list[Unrecognised]
    coverage: list[CollectorReport]
    blind_spots: list[BlindSpot]
    discriminating_tests: list[Note]
    overturned_by: list[Note]
    advice: dict[str, list[Note]]
    missing: list[str]
    proof: list[Proof]
    ruleset: RulesetUsed
    mode: str = "slow"
    schema: str = SCHEMA
    engine: str = ENGINE


def canonical_json(verdict: Verdict) -> bytes:
    """The verdict as JSON with sorted keys: the same bytes for the same verdict."""
    return msgspec.json.encode(verdict, order="sorted")


def verdict_digest(body: bytes) -> str:
    """Identity of a verdict: SHA-256 of its canonical JSON."""
    return hashlib.sha256(body).hexdigest()


def plain_text(text: str, limit: int = 2000) -> str:
    """One line of printable text: control characters shown as escapes, bounded."""
    shown = text[: limit + 1]
    if not shown.isprintable():
        shown = "".join(ch if ch.isprintable() else _escape(ch) for ch in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _escape(ch: str) -> str:
    if ch == "\t":
        return "    "
    if ch == "\n":
        return "⏎"
    return f"\\u{ord(ch):04x}" if ord(ch) > 0xFF else f"\\x{ord(ch):02x}"
