"""What was not seen and could have overturned a finding: the rules that nothing was there to be read by.

Without the application log, the kernel log or the scheduler's record any cause could be missed (`strength.needed`).
Another source counts where its rules could take the blame from this very finding: explain it, contradict it, say
that it was over, or name a direct cause of another domain beside it. docs/decisions/0007 has what that leaves out.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rules.case import Case
from rules.events import Event
from rules.rule import Explains, Rule, targets
from rules.ruleset import Default
from rules.words import Relation, Role, Source


@dataclass(frozen=True)
class Unseen:
    """Of the rules that could not fire those against each blamed rule, by its id, with where they would have to lie."""

    rules: Mapping[str, tuple[tuple[Source, Rule, frozenset[Relation]], ...]]

    @classmethod
    def of(cls, case: Case, blamed: Mapping[str, Rule], *, but: Collection[Source]) -> "Unseen":
        """What was not seen, of other sources than those of `but`, about some rules."""
        others = frozenset(but)
        blind = [
            (source, rule)
            for rule in (case.ruleset.rules if blamed else ())
            if others.isdisjoint(rule.match.sources)
            and (rule.blamable or rule.refutes or rule.ends)
            and (source := case.missing(rule))
        ]
        return cls(
            {
                name: tuple(
                    (source, rule, where)
                    for source, rule in blind
                    if (where := _where(rule, of, case.ruleset.defaults))
                )
                for name, of in blamed.items()
            }
        )

    def against(self, event: Event) -> dict[Source, list[Rule]]:
        """The missing sources that limit a finding, each with the rules that could have overturned it."""
        found: dict[Source, list[Rule]] = {}
        for source, rule, where in self.rules[event.rule.id]:
            if where - {Relation.PEER} or event.peers:
                found.setdefault(source, []).append(rule)
        return {source: found[source] for source in Source if source in found}


def _where(rule: Rule, of: Rule, defaults: Collection[Default]) -> frozenset[Relation]:
    """Where a finding of a rule would have to lie to overturn another's; nowhere if it could not."""
    against = [*rule.refutes, *rule.ends]
    if rule.blamable and rule.symptom != of.symptom:
        against += _explanations(rule, defaults)
        # A direct cause of another domain that this one does not explain: nobody could choose between them.
        if rule.role is Role.CAUSE and not rule.inferred and rule.domain != of.domain:
            if not _speaking(_explanations(of, defaults), rule):
                return frozenset({Relation.JOB})
    return frozenset(entry.on for entry in _speaking(against, of))


def _explanations(rule: Rule, defaults: Collection[Default]) -> list[Explains]:
    return [*rule.explains, *(entry for entry in defaults if rule.role in entry.roles)]


def _speaking(entries: Collection[Explains], of: Rule) -> list[Explains]:
    return [entry for entry in entries if any(targets(name, of) for name in entry.symptoms)]
