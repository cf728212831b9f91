"""A rule as an operator reads it."""

import textwrap
from pathlib import Path
from typing import Any

import msgspec

from rules.examples import rule_files
from rules.rule import Explains, Rule, line_of, parse_rule, targets
from rules.ruleset import CATALOGUE, Ruleset


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rule stands: the file of the layer in force, and what it covers."""

    layer: str
    file: str
    line: int
    overrides: str = ""
    tests: int = 0
    incidents: int = 0


def origin(rule_id: str, roots: list[Path]) -> Origin:
    """Where the rule in force comes from; a later layer wins."""
    found: list[tuple[Path, bytes, Path]] = [
        (path, raw, root)
        for root in roots
        for path, raw in rule_files([root])
        if f"{path.parent.name}.{path.stem}" == rule_id
    ]
    if not found:
        return Origin(layer="given", file="", line=0)
    path, raw, root = found[-1]
    rule = parse_rule(raw, name=str(path))
    return Origin(
        layer="shipped" if root == CATALOGUE else "site",
        file=str(path),
        line=line_of(raw, "id", "id"),
        overrides=str(found[-2][0]) if len(found) > 1 else "",
        tests=len(rule.test),
        incidents=len(rule.incident),
    )


def summary(rule: Rule) -> dict[str, Any]:
    """What a list of rules shows of one."""
    return {
        "id": rule.id,
        "title": rule.title,
        "symptom": rule.symptom,
        "role": str(rule.role),
        "domain": str(rule.domain) if rule.domain else None,
        "maturity": str(rule.maturity),
        "sources": [str(source) for source in rule.match.sources],
        "groups": [str(group) for group in rule.groups],
    }


def described(ruleset: Ruleset, rule: Rule, place: Origin) -> dict[str, Any]:
    """Everything about a rule as plain data."""
    plain = msgspec.to_builtins(rule)
    for gone in ("test", "incident"):
        plain.pop(gone, None)
    return {
        **plain,
        "origin": msgspec.to_builtins(place),
        "explains_rules": explained(ruleset, rule),
        "explained_by": explainers(ruleset, rule),
    }


def entries(ruleset: Ruleset, rule: Rule) -> list[Explains]:
    """What a rule says it explains, with what the defaults add for its role."""
    added = [entry for entry in ruleset.defaults if rule.role in entry.roles]
    return [*rule.explains, *added]


def explained(ruleset: Ruleset, rule: Rule) -> list[str]:
    """The rules whose findings this one can explain."""
    wanted = [target for entry in entries(ruleset, rule) for target in entry.symptoms]
    return [other.id for other in ruleset.rules if other.id != rule.id and any(targets(t, other) for t in wanted)]


def explainers(ruleset: Ruleset, rule: Rule) -> list[str]:
    """The rules that name this one, or one of its groups, among what they explain themselves."""
    return [
        other.id
        for other in ruleset.rules
        if other.id != rule.id and any(targets(t, rule) for entry in other.explains for t in entry.symptoms)
    ]


def text(ruleset: Ruleset, rule: Rule, place: Origin) -> str:
    """The rule on a screen of 100 columns."""
    domain = f" in {rule.domain}" if rule.domain else ""
    out = [f"{rule.id}: {rule.title}", f"  {rule.role}{domain}, symptom {rule.symptom}, maturity {rule.maturity}"]
    for label, value in [
        ("meaning", rule.meaning),
        ("impact", rule.impact),
        ("check", rule.check),
        ("now", rule.now),
        ("later", rule.later),
        *(("apart", entry) for entry in rule.apart),
        *(("overturn", entry) for entry in rule.overturn),
        ("note", rule.note),
    ]:
        if value:
            out += _wrapped(label, value)
    out += _wrapped("normally in", ", ".join(rule.match.sources))
    for pattern in rule.match.any:
        out.append(f"  {'matches':12} {pattern}")
    for pattern in rule.match.none:
        out.append(f"  {'unless line':12} {pattern}")
    for key, values in rule.match.where.items():
        out += _wrapped("where", f"{key} is {' or '.join(values)}")
    for key, values in rule.match.unless.items():
        out += _wrapped("unless", f"{key} is {' or '.join(values)}")
    if rule.match.decode:
        out += _wrapped("decoded by", rule.match.decode)
    for entry in entries(ruleset, rule):
        when = ", only if known to come first" if entry.only_if_earlier else ""
        out += _wrapped("explains", f"{', '.join(entry.symptoms)} on the same {entry.on} within {entry.within}{when}")
    for label, group in [("confirms", rule.confirms), ("ends", rule.ends), ("refutes", rule.refutes)]:
        for entry in group:
            out += _wrapped(label, f"{', '.join(entry.symptoms)} on the same {entry.on} within {entry.within}")
    if rule.groups:
        out += _wrapped("in groups", ", ".join(f"@{group}" for group in rule.groups))
    names = explainers(ruleset, rule)
    if names:
        more = f" and {len(names) - 12} more" if len(names) > 12 else ""
        out += _wrapped("explained by", ", ".join(names[:12]) + more)
    if rule.seen:
        out += _wrapped("seen in", ", ".join(f"{what} {versions}" for what, versions in rule.seen.items()))
    out += [f"  {'reference':12} {link}" for link in rule.links]
    covers = f", in place of {place.overrides}" if place.overrides else ""
    out += _wrapped("examples", f"{place.tests} tests, {place.incidents} incidents")
    out.append(f"  {'layer':12} {place.layer}: {place.file}:{place.line}{covers}")
    return "\n".join(out)


def _wrapped(label: str, value: str) -> list[str]:
    return textwrap.wrap(
        value,
        100,
        initial_indent=f"  {label:12} ",
        subsequent_indent=" " * 15,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [f"  {label:12}"]
