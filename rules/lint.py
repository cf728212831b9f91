"""What `inquest rules lint` asks of a catalogue beyond that its files can be read."""

import re
from pathlib import Path

from rules import decode, extract, literals, read, scan
from rules.examples import Failure, rule_files
from rules.observation import Observation
from rules.rule import Rule, RuleError, line_of, parse_rule, targets
from rules.ruleset import Ruleset
from rules.scaffold import NEAR_MISS_NAME, PLACEHOLDERS
from rules.words import Maturity, Role


def lint(ruleset: Ruleset, roots: list[Path]) -> list[Failure]:
    """Every problem of the rule files under `roots`, in the order of the files."""
    problems: list[Failure] = []
    sources: dict[str, tuple[Path, bytes, Rule]] = {}
    known = frozenset(ruleset.patterns)  # the automaton was made of these, so it refuses none of them
    for path, raw in rule_files(roots):
        try:
            rule = parse_rule(raw, name=str(path))
        except RuleError as error:
            name, _, rest = str(error).partition(":")
            line, _, text = rest.partition(":")
            problems.append(Failure(name, int(line) if line.isdigit() else 1, text.strip()))
            continue
        sources[rule.id] = (path, raw, rule)
        problems += [Failure(str(path), line_of(raw, "", near), text) for text, near in _one(ruleset, rule, known)]
    for text, rule_id in [*_targets(ruleset), *_doubles(ruleset)]:
        if rule_id in sources:
            path, raw, _ = sources[rule_id]
            near = "any" if text.startswith("pattern") else "explains"
            problems.append(Failure(str(path), line_of(raw, near, f"[[{near}]]"), text))
    for cycle in _cycles(ruleset):
        path, raw, _ = sources.get(cycle[0]) or (Path("?"), b"", None)
        text = "explains in a circle without an order in time: " + " → ".join([*cycle, cycle[0]])
        problems.append(Failure(str(path), line_of(raw, "explains", "[[explains]]"), text))
    return problems


def _one(ruleset: Ruleset, rule: Rule, known: frozenset[str]) -> list[tuple[str, str]]:
    """(problem, text near which it stands) of one rule."""
    found = []
    for text, near in _placeholders(rule):
        found.append((f"still says {text!r} as drafted: a person has to write it", near))
    if not rule.links and not rule.note:
        found.append(("has neither links to where its facts come from nor a note", "links"))
    if rule.match.decode and rule.match.decode not in decode.DECODERS:
        found.append((f"decoder {rule.match.decode!r} is none of {', '.join(sorted(decode.DECODERS))}", "decode"))
    for pattern in rule.match.any:
        if pattern not in known and (reason := scan.refusal(pattern)):
            found.append((f"pattern {pattern!r}: the automaton refuses it: {reason}", pattern))
        if len(_fixed(pattern)) < 4:
            found.append(
                (f"pattern {pattern!r} has no fixed text of four characters: it would touch every line", pattern)
            )
    if not any(example.expect.get("matches", 0) for example in rule.test):
        found.append(("no test that fires", "[[test]]"))
    if not any(example.expect.get("matches") == 0 for example in rule.test):
        found.append(("no test that does not fire", "[[test]]"))
    for pattern in _unproved(rule):
        found.append((f"pattern {pattern!r} is matched by no test", pattern))
    if rule.maturity is Maturity.STABLE and rule.blamable and not rule.incident:
        found.append(("a stable rule that can be blamed needs an [[incident]]", "maturity"))
    if rule.blamable and not (rule.now and rule.later):
        found.append(("a rule that can be blamed says what to do: `now` and `later`", "impact"))
    if rule.blamable and not rule.check:
        found.append(("a rule that can be blamed says how to tell it from another cause: `check`", "impact"))
    found += [(text, "where") for text in _impossible(rule)]
    if rule.id in ruleset.by_id:
        found += [(text, "[[test]]") for text in [*_others(ruleset, rule), *_unreachable(ruleset, rule)]]
    return found


def _impossible(rule: Rule) -> list[str]:
    """Conditions that can never hold: a field that nothing yields, a value that its group cannot have."""
    found = []
    names = {name for pattern in rule.match.any for name in re.compile(pattern).groupindex}
    for key, values in [*rule.match.where.items(), *rule.match.unless.items()]:
        if key not in names:
            if not rule.match.decode:
                found.append(f"condition on {key!r}, which no pattern has as a group and no decoder yields")
            continue
        possible = [literals.group_texts(pattern, key) for pattern in rule.match.any]
        if rule.match.decode or any(texts is None for texts in possible):
            continue
        texts = {text.strip() for part in possible for text in part or ()} | {""}
        if lost := sorted(set(values) - texts):
            found.append(f"condition on {key!r}: no pattern can yield {', '.join(map(repr, lost))}")
    return found


def _unreachable(ruleset: Ruleset, rule: Rule) -> list[str]:
    """A rule whose own firing lines never make it fire, with what fires in its place."""
    taken: set[str] = set()
    lines = [line for example in rule.test if example.expect.get("matches", 0) for line in example.lines]
    for line in lines:
        ids = {s.rule.id for s in extract.sightings(ruleset, Observation(source=rule.match.sources[0], body=line))}
        if rule.id in ids:
            return []
        taken |= ids
    if not lines:
        return []
    instead = f"; {', '.join(sorted(taken)[:3])} fires instead" if taken else ""
    return [f"unreachable: none of its own firing lines makes it fire{instead}"]


def _doubles(ruleset: Ruleset) -> list[tuple[str, str]]:
    """Rules that hold another's pattern, where nothing tells the two apart."""
    found = []
    first: dict[str, Rule] = {}
    for rule in ruleset.rules:
        match = rule.match
        if match.where or match.unless or match.none or match.decode or match.generic:
            continue
        for pattern in match.any:
            other = first.setdefault(pattern, rule)
            if other.id != rule.id and other.role is rule.role and not _related(other, rule):
                found.append((f"pattern {pattern!r} is also in {other.id}, and no condition tells them apart", rule.id))
    return found


def _placeholders(rule: Rule) -> list[tuple[str, str]]:
    """What `inquest rules new` wrote and nobody has replaced: (the text, near which it stands)."""
    left = [(text, key) for key, text in PLACEHOLDERS.items() if getattr(rule, key) == text]
    return left + [(example.name, example.name) for example in rule.test if example.name == NEAR_MISS_NAME]


def _fixed(pattern: str) -> str:
    """The longest run of fixed text in a pattern."""
    plain = re.sub(r"\\[.()\[\]|*+?{}^$/: -]", lambda m: m[0][1], re.sub(r"\(\?P<\w+>|\(\?[a-z:]+\)?", "(", pattern))
    return max(re.split(r"\[[^\]]*\]|\\[a-zA-Z]|[()|*+?.^$]|\{[\d,]*\}", plain), key=len, default="")


def _unproved(rule: Rule) -> list[str]:
    lines = [line for example in rule.test if example.expect.get("matches", 0) for line in example.lines]
    messages = [read.parse(line).message for line in lines]
    return [p for p in rule.match.any if not any(re.search(p, text) for text in [*messages, *lines])]


def _others(ruleset: Ruleset, rule: Rule) -> list[str]:
    """Other blamable rules that fire on this rule's firing lines without either saying that it explains the other."""
    found = set()
    for example in rule.test:
        if not example.expect.get("matches", 0):
            continue
        for line in example.lines:
            seen = extract.sightings(ruleset, Observation(source=rule.match.sources[0], body=line))
            ids = {s.rule.id for s in seen}
            if rule.id not in ids:
                continue
            for other in (s.rule for s in seen if s.rule.id != rule.id):
                if rule.blamable and other.blamable and not _related(rule, other):
                    found.add(
                        f"{other.id} fires on the line of test {example.name!r} too, and neither explains the other"
                    )
    return sorted(found)


def _related(a: Rule, b: Rule) -> bool:
    return explains(a, b) or explains(b, a) or a.symptom == b.symptom


def explains(a: Rule, b: Rule) -> bool:
    """Whether `a` says that it can explain `b`, wherever and whenever."""
    return any(targets(pattern, b) for entry in a.explains if not entry.only_if_earlier for pattern in entry.symptoms)


def _targets(ruleset: Ruleset) -> list[tuple[str, str]]:
    found = []
    for rule in ruleset.rules:
        for entry in [*rule.explains, *rule.confirms, *rule.ends, *rule.refutes]:
            for pattern in entry.symptoms:
                if not any(targets(pattern, other) for other in ruleset.rules):
                    found.append((f"explains {pattern!r}, which no rule is", rule.id))
    return found


def _cycles(ruleset: Ruleset) -> list[list[str]]:
    """Pairs of rules that explain each other: only a strict order in time could tell them apart."""
    causes = [rule for rule in ruleset.rules if rule.role is Role.CAUSE]
    return [[a.id, b.id] for i, a in enumerate(causes) for b in causes[i + 1 :] if explains(a, b) and explains(b, a)]
