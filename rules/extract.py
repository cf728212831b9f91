"""From a record to sightings: which rules fire on it, where, when, and with what fields."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from rules import decode, read
from rules.observation import Observation
from rules.rule import Rule
from rules.ruleset import Ruleset
from rules.stamp import Stamp, parse_stamp

LOCUS_FIELDS = ("node", "gpu", "rank", "link", "peer", "port", "switch", "image", "device")


@dataclass(frozen=True, slots=True)
class Sighting:
    """One rule on one record. `locus` and `fields` hold text only; absent parts are not in them."""

    rule: Rule
    locus: dict[str, str]
    fields: dict[str, str]
    stamp: Stamp | None
    uptime: Stamp | None
    program: str = ""
    maps: dict[str, str] = field(default_factory=dict)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def sightings(ruleset: Ruleset, observation: Observation) -> list[Sighting]:
    """Every rule that fires on an observation, in the order of rule ids. Generic rules give way."""
    body = observation.body
    hits = ruleset.scanner.hits(body.encode("utf-8", "surrogatepass"))
    patterns: dict[str, list[int]] = {}
    raw = body.encode("utf-8", "surrogatepass")
    for start, end, ids in hits:
        patterns.setdefault(raw[start:end].decode("utf-8", "surrogatepass"), []).extend(ids)
    found: list[Sighting] = []
    for line, ids in patterns.items():
        found += on_line(ruleset, line, ids, observation)
    return _give_way(found)


def on_line(
    ruleset: Ruleset, line: str, ids: Iterable[int], observation: Observation, record: read.Record | None = None
) -> list[Sighting]:
    """The rules that fire on one line, given the patterns that the automaton saw in it."""
    indexes = sorted({ruleset.owners[i] for i in ids if i < len(ruleset.owners)})
    if not indexes:
        return []
    record = record or read.parse(line)
    whole = read.clean(line)
    found = []
    for index in indexes:
        rule = ruleset.rules[index]
        if (sighting := fire(rule, record, whole, observation)) is not None:
            found.append(sighting)
    return found


def _give_way(found: list[Sighting]) -> list[Sighting]:
    """Drop generic sightings where a particular one stands beside them; one sighting per rule and locus."""
    if any(not s.rule.match.generic for s in found):
        found = [s for s in found if not s.rule.match.generic]
    unique: dict[tuple[str, tuple[tuple[str, str], ...]], Sighting] = {}
    for sighting in found:
        unique.setdefault((sighting.rule.id, tuple(sorted(sighting.locus.items()))), sighting)
    return [unique[key] for key in sorted(unique)]


def fire(rule: Rule, record: read.Record, whole: str, observation: Observation) -> Sighting | None:
    """The rule's sighting on one line, or None. Patterns see the message first, then the whole line."""
    match = None
    for pattern in rule.match.any:
        compiled = _compiled(pattern)
        match = compiled.search(record.message)
        if match is None and not pattern.lstrip("(?ims)").startswith("^"):
            match = compiled.search(whole)
        if match is not None:
            break
    if match is None or any(_compiled(p).search(whole) for p in rule.match.none):
        return None
    fields = {key: value.strip() for key, value in match.groupdict().items() if value}
    if rule.match.decode:
        decoded = decode.DECODERS[rule.match.decode](fields, record.message)
        if decoded is None:
            return None
        fields |= decoded
    if any(fields.get(key, "") not in allowed for key, allowed in rule.match.where.items()):
        return None
    if any(fields.get(key, "") in refused for key, refused in rule.match.unless.items()):
        return None
    return Sighting(
        rule=rule,
        locus=_locus(rule, fields, record, observation),
        fields=fields,
        stamp=parse_stamp(observation.timestamp) if observation.timestamp else record.stamp,
        uptime=record.uptime,
        program=record.program,
        maps={role: fields[group] for role, group in rule.maps.items() if group in fields},
    )


def _locus(rule: Rule, fields: dict[str, str], record: read.Record, observation: Observation) -> dict[str, str]:
    rank = observation.rank if observation.rank is not None else record.rank
    given = {
        "source.node": observation.node or record.host,
        "source.rank": "" if rank is None else str(rank),
    }
    locus = {}
    for part in LOCUS_FIELDS:
        origin = getattr(rule.locus, part)
        names = origin.split(" or ") if origin else []
        value = next((v for name in names if (v := given.get(name, fields.get(name, "")))), "")
        if value:
            locus[part] = normal(part, value)
    if rule.locus.job:
        locus = {key: value for key, value in locus.items() if key in ("image", "switch", "port")} | {"job": "yes"}
    return locus


_PCI = re.compile(r"^(?:PCI:)?(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?$")


def normal(part: str, value: str) -> str:
    """One spelling for one thing: PCI addresses lose their function and get four domain digits."""
    if part in ("gpu", "device") and (match := _PCI.match(value)):
        domain = int(match[1] or "0", 16)
        return f"{domain:04x}:{match[2].lower()}:{match[3].lower()}"
    return value
