"""Published failure classes and Xid numbers × rules: what the catalogue knows, and what it does not and why.

The classes and their counts stand in `rules/published/*.toml`, each file with the address it was taken from.
"""

import textwrap
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rules import extract
from rules.observation import Observation
from rules.rule import RuleError
from rules.ruleset import Ruleset
from rules.words import Role, Source

PUBLISHED = Path(__file__).parent / "published"
SETS_FILE, XID_FILE = "sets.toml", "xids.toml"


class PublishedClass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A class of failures as a paper counts it, and the globs of rules that know it.

    `none` says why no rule can blame it, wholly or in part; `suggestive` are rules that hint at it.
    """

    name: str
    count: int | None = None
    share: str = ""
    rules: list[str] = []
    none: str = ""
    suggestive: list[str] = []


class Taxonomy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"classes": "class"}):
    """One published count of failures. `second_hand` ones were read in another's summary, not in the paper."""

    title: str
    source: str
    classes: list[PublishedClass]
    unit: str = ""
    note: str = ""
    second_hand: bool = False


class Xid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number of the Xid catalogue; `line` where the usual form of line does not show it."""

    number: int
    symbol: str
    line: str = ""
    none: str = ""


class XidRange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers without a rule for one reason."""

    numbers: list[int]
    none: str


class XidCatalogue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"ranges": "range"}):
    """Every published Xid."""

    title: str
    source: str
    line: str
    general: list[str]
    xid: list[Xid]
    ranges: list[XidRange]


class CoveredClass(msgspec.Struct, frozen=True, kw_only=True):
    """A class with the rules found for it. `dead` are globs that no rule matches any more."""

    name: str
    count: int | None
    share: str
    rules: list[str]
    suggestive: list[str]
    none: str
    dead: list[str]


class CoveredTaxonomy(msgspec.Struct, frozen=True, kw_only=True):
    """A taxonomy with its classes covered. `counted` is the sum of the counts, `known` of those with a rule."""

    id: str
    title: str
    source: str
    second_hand: bool
    unit: str
    note: str
    classes: list[CoveredClass]
    counted: int
    known: int


class CoveredXid(msgspec.Struct, frozen=True, kw_only=True):
    """An Xid with the rules that know it, or why there is none."""

    number: int
    symbol: str
    rules: list[str]
    none: str


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The whole table."""

    taxonomies: list[CoveredTaxonomy]
    xids: list[CoveredXid]
    xid_source: str


@cache
def taxonomies() -> dict[str, Taxonomy]:
    """The published taxonomies by id. Raises RuleError where a file is wrong."""
    return {
        path.stem: _read(path, Taxonomy)
        for path in sorted(PUBLISHED.glob("*.toml"))
        if path.name not in (SETS_FILE, XID_FILE)
    }


@cache
def sets() -> dict[str, list[str]]:
    """Named sets of globs that classes share."""
    found: dict[str, list[str]] = _read(PUBLISHED / SETS_FILE, dict[str, list[str]])
    return found


@cache
def xid_catalogue() -> XidCatalogue:
    """The published Xid numbers."""
    found: XidCatalogue = _read(PUBLISHED / XID_FILE, XidCatalogue)
    return found


def _read(path: Path, kind: Any) -> Any:
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), kind)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise RuleError(f"{path}:1: {error}") from error


def globs(entries: list[str]) -> list[str]:
    """The globs that entries stand for: a "$name" is a set. Raises RuleError for a set that is not there."""
    out: list[str] = []
    for entry in entries:
        if entry.startswith("$") and entry[1:] not in sets():
            raise RuleError(f"{PUBLISHED / SETS_FILE}:1: there is no set {entry[1:]!r}")
        out += sets()[entry[1:]] if entry.startswith("$") else [entry]
    return list(dict.fromkeys(out))


def coverage(ruleset: Ruleset) -> Coverage:
    """The table for the rules in force. Rules that say "harmless" or "it moves" cover nothing."""
    ids = [rule.id for rule in ruleset.rules if rule.role not in (Role.NOISE, Role.PROGRESS)]
    covered = []
    for name, taxonomy in taxonomies().items():
        classes = [_class(entry, ids) for entry in taxonomy.classes]
        covered.append(
            CoveredTaxonomy(
                id=name,
                title=taxonomy.title,
                source=taxonomy.source,
                second_hand=taxonomy.second_hand,
                unit=taxonomy.unit,
                note=taxonomy.note,
                classes=classes,
                counted=sum(entry.count or 0 for entry in classes),
                known=sum(entry.count or 0 for entry in classes if entry.rules),
            )
        )
    return Coverage(taxonomies=covered, xids=xids(ruleset), xid_source=xid_catalogue().source)


def _class(entry: PublishedClass, ids: list[str]) -> CoveredClass:
    wanted = globs(entry.rules)
    suggestive = globs(entry.suggestive)
    return CoveredClass(
        name=entry.name,
        count=entry.count,
        share=entry.share,
        rules=[i for i in ids if any(fnmatchcase(i, g) for g in wanted)],
        suggestive=[i for i in ids if any(fnmatchcase(i, g) for g in suggestive)],
        none=entry.none,
        dead=[g for g in [*wanted, *suggestive] if not any(fnmatchcase(i, g) for i in ids)],
    )


def xids(ruleset: Ruleset) -> list[CoveredXid]:
    """Every published Xid with the rules that fire on its line."""
    catalogue = xid_catalogue()
    out = []
    for entry in catalogue.xid:
        line = entry.line or catalogue.line.replace("{n}", str(entry.number))
        fired = extract.sightings(ruleset, Observation(source=Source.SYSLOG, body=line, ref="xids.toml:1"))
        rules = [s.rule.id for s in fired if s.rule.id not in catalogue.general]
        out.append(
            CoveredXid(number=entry.number, symbol=entry.symbol, rules=list(dict.fromkeys(rules)), none=entry.none)
        )
    for group in catalogue.ranges:
        out += [CoveredXid(number=number, symbol="", rules=[], none=group.none) for number in group.numbers]
    return sorted(out, key=lambda xid: xid.number)


def as_json(table: Coverage) -> dict[str, Any]:
    """The table as plain data."""
    plain: dict[str, Any] = msgspec.to_builtins(table)
    return plain


def as_text(table: Coverage) -> str:
    """The table for a terminal of 100 columns."""
    out: list[str] = []
    for taxonomy in table.taxonomies:
        hand = " (second-hand)" if taxonomy.second_hand else ""
        out += [f"{taxonomy.title}{hand}", f"  {taxonomy.source}"]
        for entry in taxonomy.classes:
            amount = str(entry.count) if entry.count is not None else f"{entry.share}%" if entry.share else ""
            known = (
                _few(entry.rules)
                if entry.rules
                else "no rule" + (f"; hints: {_few(entry.suggestive)}" if entry.suggestive else "")
            )
            out += _row(amount, entry.name, known)
            if entry.none:
                out += textwrap.wrap(entry.none, 92, initial_indent=" " * 8, subsequent_indent=" " * 8)
            out += [f"        no rule is called {glob}" for glob in entry.dead]
        if taxonomy.counted:
            share = 100 * taxonomy.known / taxonomy.counted
            out.append(
                f"  {taxonomy.known} of {taxonomy.counted} {taxonomy.unit} ({share:.1f}%) are in a class with a rule"
            )
        out.append("")
    without = [xid for xid in table.xids if not xid.rules]
    out += [f"Xid numbers: {len(table.xids) - len(without)} of {len(table.xids)} have a rule", f"  {table.xid_source}"]
    for xid in table.xids:
        if xid.rules:
            out += _row(str(xid.number), xid.symbol, _few(xid.rules))
    reasons: dict[str, list[str]] = {}
    for xid in without:
        reasons.setdefault(xid.none or "no reason is stated", []).append(str(xid.number))
    for reason, numbers in reasons.items():
        out += textwrap.wrap(f"{', '.join(numbers)}: {reason}", 96, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(out)


def _few(rules: list[str], limit: int = 3) -> str:
    more = f" and {len(rules) - limit} more" if len(rules) > limit else ""
    return ", ".join(rules[:limit]) + more


def _row(amount: str, name: str, known: str) -> list[str]:
    return textwrap.wrap(
        f"{name}: {known}",
        96,
        initial_indent=f"  {amount:>6}  ",
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )
