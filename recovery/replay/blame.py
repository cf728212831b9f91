"""Which rule changed a conclusion: tried, not guessed. Pure.

Two rulesets differ in some rules. A rule changed a conclusion where the old rules with that one rule's new form alone
conclude what the new ones do, or at least otherwise than the old ones. Where none does so alone, several of them do it
together.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from recovery.replay.compare import moved, same
from rules import scan
from rules.extract import sightings
from rules.observation import Observation
from rules.rule import Rule
from rules.ruleset import Ruleset

Body = Mapping[str, Any]
#: What a site says of itself, by the name that it has here, and its field.
SITE = {f"site.toml: {field}": field for field in ("topology", "clock_bounds", "absent")}
DEFAULTS = "defaults.toml"
#: So many differing rules are tried one by one for an attempt.
MOST_TRIED = 8


@dataclass(frozen=True)
class Blamed:
    """The rules that changed a conclusion; `tried` where each was seen to do so by itself."""

    rules: tuple[str, ...]
    tried: bool


@lru_cache(maxsize=64)
def differing(own: Ruleset, other: Ruleset) -> dict[str, str]:
    """What differs between two rulesets, by the id of a rule or the name of a site's table: new, gone or changed."""
    found: dict[str, str] = {}
    for name in sorted(own.by_id.keys() | other.by_id.keys()):
        was, now = own.by_id.get(name), other.by_id.get(name)
        if was != now:
            found[name] = "new" if was is None else "gone" if now is None else "changed"
    for name, field in SITE.items():
        if getattr(own.site, field) != getattr(other.site, field):
            found[name] = "changed"
    if own.defaults != other.defaults:
        found[DEFAULTS] = "changed"
    return found


def blamed(
    own: Ruleset,
    other: Ruleset,
    before: Body,
    after: Body,
    observations: Iterable[Observation],
    conclude: Callable[[Ruleset], Body],
) -> Blamed:
    """The rules that made `after` of `before`. `conclude` gives what a ruleset concludes from the same evidence."""
    names = list(differing(own, other))
    if len(names) <= 1:
        return Blamed(tuple(names), tried=True)
    if len(names) > MOST_TRIED:
        names = _at_work(names, own, other, before, after, observations)
    bodies = {name: conclude(hybrid(own, other, name)) for name in names[:MOST_TRIED]}
    if whole := [name for name, body in bodies.items() if same(body, after)]:
        return Blamed(tuple(whole), tried=True)
    touching = [name for name, body in bodies.items() if not same(before, body)]
    if moved(before, after).weighty:
        # A rule that changes words alone did not change the conclusion.
        alone = [name for name in touching if moved(before, bodies[name]).weighty]
    else:
        alone = touching
    return Blamed(tuple(alone or touching or names), tried=bool(alone))


def _at_work(
    names: list[str], own: Ruleset, other: Ruleset, before: Body, after: Body, observations: Iterable[Observation]
) -> list[str]:
    """Those of many differing rules that a conclusion names or that fired; all where none did."""
    named = set(_named(before)) | set(_named(after))
    found = [name for name in names if name in named or name in SITE or name == DEFAULTS]
    if not any(name in named for name in found):
        fired = {one.rule.id for seen in observations for rules in (own, other) for one in sightings(rules, seen)}
        found = [name for name in names if name in fired] + found
    return found or names


def _named(value: Any) -> Iterable[str]:
    """Every rule that a body names, wherever it stands."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "rule" and isinstance(inner, str):
                yield inner
            elif key == "examples" and isinstance(inner, list):
                yield from (str(one) for one in inner)
            elif isinstance(inner, Mapping | list):
                yield from _named(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner)


@lru_cache(maxsize=32)
def hybrid(own: Ruleset, other: Ruleset, name: str) -> Ruleset:
    """The old rules with one thing of the new ones."""
    rules, site, defaults = dict(own.by_id), own.site, own.defaults
    if name == DEFAULTS:
        defaults = other.defaults
    elif name in SITE:
        site = msgspec.structs.replace(site, **{SITE[name]: getattr(other.site, SITE[name])})
    elif name in other.by_id:
        rules[name] = other.by_id[name]
    else:
        rules.pop(name, None)
    ordered = tuple(rules[rule_id] for rule_id in sorted(rules))
    return Ruleset(
        rules=ordered,
        digest=hashlib.sha256(f"{own.digest}\0{other.digest}\0{name}".encode()).hexdigest(),
        layers=own.layers,
        site=site,
        defaults=defaults,
        automaton=_automaton(ordered, own, other),
    )


def _automaton(rules: tuple[Rule, ...], own: Ruleset, other: Ruleset) -> bytes:
    """The automaton of the rules' patterns: one that is there already, where no pattern differs."""
    patterns = tuple(pattern for rule in rules for pattern in rule.match.any)
    for ready in (own, other):
        if ready.patterns == patterns:
            return ready.automaton
    return scan.compile_automaton(patterns)
