"""What changed from one verdict of an attempt to the next, and why: out of the two stored bodies, no database."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verdicts import wording
from verdicts.choices import FindingStatus, Mode
from verdicts.verdict_page.presentation import Body, findings

_MADE_OF = {
    FindingStatus.CAUSE: "the cause",
    FindingStatus.CANDIDATE: "a candidate",
    FindingStatus.DEMOTED: "demoted",
    FindingStatus.INTERESTING: "kept without blame",
}
#: Fields of the attempt that may come late and bear on a verdict.
_SAID = (
    ("state", "the scheduler's word"),
    ("exit_code", "exit code"),
    ("signal", "signal"),
    ("reason", "reason"),
    ("start", "start"),
    ("end", "end"),
    ("nodes", "nodes"),
    ("ranks", "map of ranks"),
    ("topology", "topology"),
    ("image", "image"),
    ("clock_bounds", "clock bounds"),
    ("utc_offset", "zone"),
)


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is otherwise than before, and what came between the two that can have done it."""

    what: list[str]
    why: list[str]


@dataclass(frozen=True, kw_only=True)
class Version:
    """A verdict of an attempt, and what it changed; `change` is None for the first."""

    verdict: Any
    change: Change | None


def versions(newest_first: list[Any]) -> list[Version]:
    """Each verdict with what changed since the one before it."""
    earlier = [*newest_first[1:], None]
    return [
        Version(verdict=verdict, change=None if before is None else compare(before.body, verdict.body))
        for verdict, before in zip(newest_first, earlier, strict=True)
    ]


def compare(before: Body, after: Body) -> Change:
    """The change from one body to the next."""
    return Change(what=differences(before, after), why=reasons(before, after))


def differences(before: Body, after: Body) -> list[str]:
    """What a verdict says otherwise than the one before, in sentences; empty when nothing of weight changed."""
    said: list[str] = []
    for field_name, name, looks in (
        ("attributed_domain", "Domain", wording.DOMAINS),
        ("terminal_state", "State", wording.STATES),
        ("strength", "Strength", wording.STRENGTHS),
    ):
        old, new = before.get(field_name) or "", after.get(field_name) or ""
        if old != new:
            said.append(f"{name}: {_text(looks, old) or 'none'} before, {_text(looks, new) or 'none'} now.")
    was = {_key(finding): (finding, status) for finding, status in reversed(findings(before))}
    now = {_key(finding): (finding, status) for finding, status in reversed(findings(after))}
    weighty = (FindingStatus.CAUSE, FindingStatus.CANDIDATE)
    for key, (finding, status) in now.items():
        old_status = was[key][1] if key in was else None
        if old_status == status:
            continue
        if old_status is None:
            if status in weighty:
                said.append(f"New: {_named(finding)} is {_MADE_OF[status]}.")
        elif status in weighty or old_status in weighty:
            said.append(f"{_named(finding)} was {_MADE_OF[old_status]} and is now {_MADE_OF[status]}.")
    for key, (finding, status) in was.items():
        if key not in now and status in weighty:
            said.append(f"{_named(finding)} was {_MADE_OF[status]} and is no longer found.")
    return said


def reasons(before: Body, after: Body) -> list[str]:
    """What came between two verdicts: evidence, the attempt's own record, other rules or engine, a longer look."""
    said = _source_changes(before, after)
    was, now = before.get("attempt") or {}, after.get("attempt") or {}
    changed = [name for field, name in _SAID if was.get(field) != now.get(field)]
    if changed:
        said.append(f"The attempt's own record changed: {', '.join(changed)}.")
    old_rules, new_rules = before.get("ruleset") or {}, after.get("ruleset") or {}
    if old_rules.get("digest") != new_rules.get("digest"):
        said.append(
            f"Rules changed: {str(old_rules.get('digest', ''))[:12]} before, "
            f"{str(new_rules.get('digest', ''))[:12]} now."
        )
    if before.get("engine") != after.get("engine"):
        said.append(f"Engine changed: {before.get('engine')} before, {after.get('engine')} now.")
    if before.get("mode") == Mode.FAST and after.get("mode") == Mode.SLOW:
        said.append("A quick look was followed by the full one.")
    return said


def _source_changes(before: Body, after: Body) -> list[str]:
    """Which sources came, went or grew between two verdicts."""
    was = {cell["source"]: cell for cell in before.get("coverage") or ()}
    said = []
    for cell in after.get("coverage") or ():
        old = was.get(cell["source"])
        if old is None:
            continue
        name = wording.SOURCES.get(cell["source"], cell["source"])
        if old.get("status") != cell.get("status"):
            said.append(
                f"Coverage changed: {name}: {_text(wording.REPORT_STATUSES, old.get('status', ''))} before, "
                f"{_text(wording.REPORT_STATUSES, cell.get('status', ''))} now."
            )
        for field in ("delivered", "kept"):
            had, has = old.get(field) or 0, cell.get(field) or 0
            if had != has:
                verb = "arrived" if has > had else "went"
                said.append(f"Evidence {verb}: {name}: {had:,} lines {field} before, {has:,} now.")
                break
    return said


def _where(finding: Body) -> str:
    """The place of a finding in a few words, for a sentence."""
    locus = finding.get("locus") or {}
    words = [str(locus[key]) for key in ("node", "gpu") if locus.get(key)]
    if locus.get("rank") is not None:
        words.append(f"rank {locus['rank']}")
    return ", ".join(words)


def _named(finding: Body) -> str:
    where = _where(finding)
    return f"“{finding.get('title') or finding.get('rule')}”" + (f" ({where})" if where else "")


def _key(finding: Body) -> tuple[Any, ...]:
    """What makes two findings of two verdicts the same: the rule and the place; ids are numbered anew."""
    locus = finding.get("locus") or {}
    return (
        finding.get("rule"),
        *sorted((key, str(value)) for key, value in locus.items()),
    )


def _text(looks: Mapping[str, Any], word: str) -> str:
    look = looks.get(word)
    if look is None:
        return wording.plain(word)
    return look if isinstance(look, str) else look.text
