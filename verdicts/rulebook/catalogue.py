"""The rules in force arranged for reading: plain data in, plain data out, no database."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from django.http import QueryDict

from rules import coverage, show
from rules.rule import Example, Explains, IncidentExample, Rule, parse_rule, targets
from rules.ruleset import CATALOGUE, Ruleset
from rules.words import CAUSAL_DOMAINS, Domain, Maturity, Role, Source
from verdicts import wording
from verdicts.listing.form import ListForm

_NEVER = datetime.min.replace(tzinfo=UTC)
#: Roles whose matches leave no finding in a verdict: of those the store knows no counts.
LEAVE_NOTHING = frozenset({Role.NOISE, Role.PROGRESS})


@dataclass(frozen=True, kw_only=True)
class Use:
    """How often a rule was found in what is stored. `last` may lie before the time that was counted."""

    findings: int = 0
    attempts: int = 0
    last: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    """A rule in the list."""

    rule: Rule
    use: Use

    @property
    def uncounted(self) -> bool:
        """Whether its matches leave no finding, so that none being stored says nothing."""
        return self.rule.role in LEAVE_NOTHING


class RuleForm(ListForm):
    """What the catalogue can be looked through by."""

    labels = {
        "text": "Text",
        "subject": "Subject",
        "domain": "Domain",
        "role": "Role",
        "maturity": "Maturity",
        "source": "Source",
        "symptom": "Symptom",
    }
    texts = ("text", "symptom")
    orders = {"rule": "", "domain": "", "maturity": "-", "findings": "-", "last": "-"}
    usual = "rule"

    def __init__(self, query: QueryDict, ruleset: Ruleset) -> None:
        super().__init__(query)
        self.ruleset = ruleset
        self.sets = {
            "subject": [(name, name) for name in sorted({rule.subject for rule in ruleset.rules})],
            "domain": [(word.value, wording.DOMAINS[word].text) for word in Domain if word in CAUSAL_DOMAINS],
            "role": [(word.value, wording.ROLES[word]) for word in Role],
            "maturity": [(word.value, word.value) for word in Maturity],
            "source": [(word.value, wording.SOURCES[word]) for word in Source],
        }

    def rows(self, uses: Mapping[str, Use]) -> list[RuleRow]:
        """The rules that match, in the order asked for; ties by id."""
        if self.errors:
            return []
        found = [RuleRow(rule=rule, use=uses.get(rule.id, Use())) for rule in self.ruleset.rules if self._wanted(rule)]
        name = self.order.removeprefix("-")
        found.sort(key=lambda row: _sort_key(name, row), reverse=self.order.startswith("-"))
        # What never happened comes last whichever way the times run.
        return sorted(found, key=lambda row: row.use.last is None) if name == "last" else found

    def _wanted(self, rule: Rule) -> bool:
        for name in ("subject", "domain", "role", "maturity"):
            if (words := self.values(name)) and str(getattr(rule, name)) not in words:
                return False
        if (sources := self.values("source")) and not set(sources) & {str(source) for source in rule.match.sources}:
            return False
        if (symptom := self.value("symptom")) and rule.symptom != symptom:
            return False
        words = [rule.id, rule.title, rule.symptom, rule.meaning, *rule.match.any]
        text = "\n".join(words).casefold()
        return all(word in text for word in self.value("text").casefold().split()[:8])


def _sort_key(name: str, row: RuleRow) -> Any:
    keys = {
        "rule": row.rule.id,
        "domain": str(row.rule.domain or ""),
        "maturity": list(Maturity).index(row.rule.maturity),
        "findings": row.use.findings,
        "last": row.use.last or _NEVER,
    }
    return keys[name]


@dataclass(frozen=True, kw_only=True)
class Link:
    """What a rule says of others: the entry as written, and the rules that it means now."""

    entry: Explains
    rules: list[str]
    default: bool = False  # from defaults.toml, not from the rule's own file


@dataclass(frozen=True, kw_only=True)
class RuleView:
    """Everything that a rule's page shows."""

    rule: Rule
    layer: str
    file: str
    overrides: bool
    explains: list[Link]
    confirms: list[Link]
    refutes: list[Link]
    explained_by: list[str]
    examples: list[Example]
    incidents: list[IncidentExample]

    @property
    def addresses(self) -> list[str]:
        """References that can be followed."""
        return [link for link in self.rule.links if link.startswith(("https://", "http://"))]

    @property
    def references(self) -> list[str]:
        """References that are not addresses of the web."""
        return [link for link in self.rule.links if link not in self.addresses]


def layers() -> list[Path]:
    """The directories of the layers in force, as `load_ruleset` finds them."""
    site = os.environ.get("INQUEST_RULES_DIR")
    return [CATALOGUE, *([Path(site)] if site else [])]


@lru_cache(maxsize=256)
def view(ruleset: Ruleset, rule_id: str) -> RuleView | None:
    """One rule with its links and its examples; None where there is none of that name."""
    rule = ruleset.by_id.get(rule_id)
    if rule is None:
        return None
    place = show.origin(rule_id, layers())
    path = Path(place.file)
    # The ruleset in memory is without its examples: they are read from the file that it came from.
    written = parse_rule(path.read_bytes(), name=path.name) if place.file else None
    added = [entry for entry in ruleset.defaults if rule.role in entry.roles]
    return RuleView(
        rule=rule,
        layer=place.layer,
        file=f"{path.parent.name}/{path.name}" if place.file else "",
        overrides=bool(place.overrides),
        explains=[
            *(_link(ruleset, rule, entry) for entry in rule.explains),
            *(_link(ruleset, rule, entry, default=True) for entry in added),
        ],
        confirms=[_link(ruleset, rule, entry) for entry in rule.confirms],
        refutes=[_link(ruleset, rule, entry) for entry in rule.refutes],
        explained_by=show.explainers(ruleset, rule),
        examples=list(written.test) if written else [],
        incidents=list(written.incident) if written else [],
    )


def _link(ruleset: Ruleset, rule: Rule, entry: Explains, *, default: bool = False) -> Link:
    meant = [
        other.id
        for other in ruleset.rules
        if other.id != rule.id and any(targets(symptom, other) for symptom in entry.symptoms)
    ]
    return Link(entry=entry, rules=meant, default=default)


def as_json(ruleset: Ruleset, rule_id: str) -> dict[str, Any] | None:
    """A rule as `inquest rules show --json` prints it; its place is told without the server's directories."""
    shown = view(ruleset, rule_id)
    if shown is None:
        return None
    place = show.Origin(
        layer=shown.layer, file=shown.file, line=0, tests=len(shown.examples), incidents=len(shown.incidents)
    )
    plain = show.described(ruleset, shown.rule, place)
    plain["origin"] = {"layer": shown.layer, "file": shown.file, "overrides": shown.overrides}
    plain["examples"] = [
        {"name": one.name, "lines": one.lines, "expect": one.expect, "source": str(one.source) if one.source else None}
        for one in shown.examples
    ]
    plain["incidents"] = [{"name": one.name, "expect": one.expect} for one in shown.incidents]
    return plain


@lru_cache(maxsize=4)
def coverage_map(ruleset: Ruleset) -> coverage.Coverage:
    """Published failure classes and Xid numbers × rules; it takes most of a second, once for each ruleset."""
    return coverage.coverage(ruleset)


class CoverageForm(ListForm):
    """What of the coverage map is shown."""

    labels = {"show": "Show"}
    choices = {"show": [("all", "everything"), ("gaps", "only what has no rule")]}


def taxonomies(table: coverage.Coverage, *, gaps: bool = False) -> list[coverage.CoveredTaxonomy]:
    """The published counts; with `gaps` only their classes without a rule."""
    if not gaps:
        return table.taxonomies
    cut = [
        msgspec.structs.replace(one, classes=[entry for entry in one.classes if not entry.rules])
        for one in table.taxonomies
    ]
    return [one for one in cut if one.classes]


def without_rule(table: coverage.Coverage) -> int:
    """How many published classes no rule knows."""
    return sum(1 for one in table.taxonomies for entry in one.classes if not entry.rules)
