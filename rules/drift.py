"""Parser drift: what the rules saw in one window of attempts against an earlier one.

The comparison is pure: it takes two windows of counts, from folders of incidents here or from stored verdicts.
A message that changed its wording shows in three ways: its rule goes silent while its family goes on, its fixed
text still comes and its pattern does not match, and a template appears that no rule knows.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from rules import extract, fingerprint, literals, read
from rules.attempt import InputError
from rules.collect import collect
from rules.files import Unreadable, blocks
from rules.incident import Incident, open_incident
from rules.redact import redact
from rules.rule import Rule
from rules.ruleset import Ruleset
from rules.stamp import parse_stamp
from rules.words import Role

#: A rule counts as one that used to match from this many matches in the window before.
MIN_BEFORE = 3
#: A rate over this multiple of the healthy one is too much, once there are MIN_BEFORE matches.
TOO_OFTEN = 5.0
#: Fixed texts shorter than this are in too many lines to say anything.
MIN_TEXT = 10
#: Near-misses and templates that are kept of a window.
MAX_KEPT = 2_000


@dataclass
class Window:
    """What was seen in some attempts. `near` is by rule and template of the line, `unknown` by template."""

    attempts: int = 0
    node_days: float = 0.0
    matches: Counter[str] = field(default_factory=Counter)
    near: Counter[tuple[str, str]] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)


class Drifted(msgspec.Struct, frozen=True, kw_only=True):
    """One sign of drift. `kind` is silent, near_miss, unknown, too_often or healthy_missing."""

    kind: str
    rule: str
    before: int
    after: int
    text: str
    example: str = ""
    template: str = ""  # of the lines meant, where it is about lines


def compare(ruleset: Ruleset, before: Window, after: Window) -> list[Drifted]:
    """What changed from one window to the next, the surest signs first."""
    found = [*_silent(ruleset, before, after), *_near(before, after), *_unknown(before, after)]
    for rule in ruleset.rules:
        if rule.healthy_per_node_day is not None:
            found += _rate(rule, after)
    order = {"silent": 0, "near_miss": 1, "healthy_missing": 2, "unknown": 3, "too_often": 4}
    return sorted(found, key=lambda d: (order[d.kind], -d.after, -d.before, d.rule, d.text))


def _silent(ruleset: Ruleset, before: Window, after: Window) -> list[Drifted]:
    """Rules that used to match and do not any more, while others of their family still do."""
    found = []
    for rule in ruleset.rules:
        was = before.matches[rule.id]
        if was < MIN_BEFORE or after.matches[rule.id]:
            continue
        family = [
            other.id
            for other in ruleset.rules
            if other.id != rule.id and _kin(rule, other) and before.matches[other.id]
        ]
        going_on = [name for name in family if after.matches[name]]
        if going_on:
            text = f"matched {was} times before and not once since, while {', '.join(going_on[:3])} went on"
            found.append(Drifted(kind="silent", rule=rule.id, before=was, after=0, text=text))
    return found


def _kin(rule: Rule, other: Rule) -> bool:
    """Whether two rules are of one family: the same subject, or the same symptom or group."""
    return rule.subject == other.subject or rule.symptom == other.symptom or bool(set(rule.groups) & set(other.groups))


def _near(before: Window, after: Window) -> list[Drifted]:
    """Lines that have a rule's fixed text and do not match it, more of them for their attempts than before."""
    found = []
    for (rule_id, template), count in after.near.items():
        was = before.near[(rule_id, template)]
        if count >= MIN_BEFORE and _per(count, after) > 2 * _per(was, before):
            found.append(
                Drifted(
                    kind="near_miss",
                    rule=rule_id,
                    before=was,
                    after=count,
                    text=f"its fixed text comes in lines that it does not match: {template}",
                    example=after.examples.get(template, ""),
                    template=template,
                )
            )
    return found


def _unknown(before: Window, after: Window) -> list[Drifted]:
    """Templates of lines that look like errors, that no rule knows, and that were not there before."""
    return [
        Drifted(
            kind="unknown",
            rule="",
            before=0,
            after=count,
            text=template,
            example=after.examples.get(template, ""),
            template=template,
        )
        for template, count in after.unknown.items()
        if not before.unknown[template]
    ]


def _rate(rule: Rule, after: Window) -> list[Drifted]:
    """A rule whose matches are far from what it says of a healthy fleet."""
    if not after.node_days or rule.healthy_per_node_day is None:
        return []
    expected, got = rule.healthy_per_node_day * after.node_days, after.matches[rule.id]
    said = f"expected about {expected:.1f} in {after.node_days:.1f} node days, seen {got}"
    if not got and expected >= MIN_BEFORE:
        return [Drifted(kind="healthy_missing", rule=rule.id, before=0, after=0, text=said)]
    if got >= MIN_BEFORE and got > TOO_OFTEN * max(expected, 0.2):
        return [Drifted(kind="too_often", rule=rule.id, before=0, after=got, text=said)]
    return []


def _per(count: int, window: Window) -> float:
    return count / max(window.attempts, 1)


def read_window(folder: Path, ruleset: Ruleset) -> Window:
    """The window of a folder of incident folders, or of one incident folder."""
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    incidents = [folder] if (folder / "attempt.json").exists() or not inside else inside
    window = Window()
    texts = fixed_texts(ruleset)
    for path in incidents:
        try:
            incident = open_incident([path])
        except InputError:
            continue  # an empty folder, or one that is no incident: there is nothing to count
        add(window, incident, ruleset, texts)
    return window


@dataclass(frozen=True)
class Texts:
    """The fixed texts of rules, in one expression, and whose they are."""

    looks: re.Pattern[bytes] | None
    owners: dict[bytes, tuple[str, ...]]


@lru_cache(maxsize=4)
def fixed_texts(ruleset: Ruleset) -> Texts:
    """The longest fixed text of every pattern that has one long and rare enough."""
    owners: dict[bytes, list[str]] = {}
    for pattern, index in zip(ruleset.patterns, ruleset.owners, strict=True):
        rule = ruleset.rules[index]
        text = literals.longest(pattern)
        if len(text) >= MIN_TEXT and literals.is_rare(text) and rule.role not in (Role.NOISE, Role.PROGRESS):
            owners.setdefault(text.encode(), []).append(rule.id)
    if not owners:
        return Texts(None, {})
    looks = re.compile(b"|".join(re.escape(text) for text in sorted(owners, key=len, reverse=True)))
    return Texts(looks, {text: tuple(sorted(set(ids))) for text, ids in owners.items()})


def nearly(texts: Texts, line: str) -> list[str]:
    """The rules whose fixed text is in a line; near-misses where the line is one that no rule knows."""
    raw = line.encode("utf-8", "backslashreplace")
    return sorted({rule_id for text, ids in texts.owners.items() if text in raw for rule_id in ids})


def add(window: Window, incident: Incident, ruleset: Ruleset, texts: Texts) -> None:
    """Add one incident to a window."""
    window.attempts += 1
    window.node_days += max(1, len(incident.attempt.nodes)) * _days(incident)
    for observation in collect(incident, ruleset).observations:
        sightings = extract.sightings(ruleset, observation)
        for rule_id in {s.rule.id for s in sightings}:
            window.matches[rule_id] += observation.count
        if not sightings:
            template = fingerprint.template(read.parse(observation.body).message)
            _keep(window, window.unknown, template, template, observation.body, observation.count)
    if texts.looks is None:
        return
    for file in incident.files:
        try:
            for block in blocks(file.path):
                _near_misses(window, block.data, ruleset, texts, texts.looks)
        except (OSError, Unreadable):
            continue  # collect has said so in its report


def _near_misses(window: Window, data: bytes, ruleset: Ruleset, texts: Texts, looks: re.Pattern[bytes]) -> None:
    """Count the lines of a block that have a rule's fixed text, and on which neither it nor another rule fires."""
    known = {start for start, _, ids in ruleset.scanner.hits(data) if any(i < len(ruleset.owners) for i in ids)}
    for match in looks.finditer(data):
        start = data.rfind(b"\n", 0, match.start()) + 1
        if start in known:
            continue
        end = data.find(b"\n", start)
        line = data[start : end if end >= 0 else len(data)][:2000].decode("utf-8", "backslashreplace")
        line = redact(line)
        template = fingerprint.template(read.parse(line).message)
        for rule_id in texts.owners[match[0]]:
            _keep(window, window.near, (rule_id, template), template, line, 1)


def _keep(window: Window, counts: Counter[Any], key: object, template: str, line: str, count: int) -> None:
    if key in counts or len(counts) < MAX_KEPT:
        counts[key] += count
        window.examples.setdefault(template, line[:500])


def _days(incident: Incident) -> float:
    start, end = (parse_stamp(t) if t else None for t in (incident.attempt.start, incident.attempt.end))
    return max(0.0, (end.micros - start.micros) / 86_400e6) if start and end else 0.0


def as_json(found: list[Drifted]) -> list[dict[str, Any]]:
    """The signs as plain data."""
    return [msgspec.to_builtins(one) for one in found]


def as_text(found: list[Drifted]) -> str:
    """The signs for a terminal."""
    if not found:
        return "No drift: every rule that matched before still does, and no new unknown lines appeared."
    names = {
        "silent": "gone silent",
        "near_miss": "near-miss",
        "unknown": "new unknown line",
        "too_often": "too often",
        "healthy_missing": "missing on a healthy fleet",
    }
    out = []
    for one in found:
        out.append(f"{names[one.kind]:26}  {one.rule or '-'}  ({one.before} before, {one.after} after)  {one.text}")
        if one.example:
            out.append(f"{'':28}e.g. {one.example}")
    return "\n".join(out)
