"""One measured run in a process of its own, so that its peak memory is its own: prints JSON.

python -m rules.bench.worker collect FOLDER
python -m rules.bench.worker doubled FOLDER     with a made-up second pattern for every pattern
python -m rules.bench.worker plain FILE         every pattern on every line with `re`, nothing else
"""

import codecs
import json
import re
import resource
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from rules import scan
from rules.collect import collect
from rules.incident import open_incident
from rules.rule import Rule
from rules.ruleset import Ruleset, load_ruleset

_TOKEN = re.compile(
    r"\\x[0-9a-f]{2}|\\.|\(\?P<\w+>|\(\?[a-z]+[:)]|\(\?:|\[(?:\\.|[^\\\]])+\]|\{[\d,]+\}|[A-Za-z]+|.", re.DOTALL
)


def variant(pattern: str) -> str:
    """The same pattern over other words: as much work to look for, and found nowhere."""
    return "".join(codecs.encode(t, "rot13") if t[0].isalpha() else t for t in _TOKEN.findall(pattern))


def doubled(ruleset: Ruleset) -> Ruleset:
    """The ruleset with a variant beside every rule."""
    extra = [_variant_of(rule) for rule in ruleset.rules]
    rules = tuple(sorted([*ruleset.rules, *extra], key=lambda rule: rule.id))
    patterns = [pattern for rule in rules for pattern in rule.match.any]
    return Ruleset(
        rules=rules,
        digest=ruleset.digest,
        layers=ruleset.layers,
        site=ruleset.site,
        defaults=ruleset.defaults,
        automaton=scan.compile_automaton(patterns),
    )


def _variant_of(rule: Rule) -> Rule:
    match = msgspec.structs.replace(rule.match, any=[variant(p) for p in rule.match.any])
    return msgspec.structs.replace(rule, id=f"{rule.id}-variant", match=match)


def run(mode: str, path: Path) -> dict[str, Any]:
    """One run: seconds without start-up, peak memory in MB, and what was found."""
    began = time.perf_counter()
    ruleset = load_ruleset()
    if mode == "doubled":
        ruleset = doubled(ruleset)
    out: dict[str, Any] = {"patterns": len(ruleset.patterns), "load_seconds": time.perf_counter() - began}
    if mode == "plain":
        return out | _plain(ruleset, path)
    assert ruleset.scanner
    began = time.perf_counter()
    collected = collect(open_incident([path]), ruleset)
    out["seconds"] = time.perf_counter() - began
    out["cpu_seconds"] = time.process_time()
    out["found"] = sum(observation.count for observation in collected.observations)
    out["lines"] = sum(report.read for report in collected.reports)
    out["kept"] = len(collected.observations)
    out["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return out


def _plain(ruleset: Ruleset, path: Path) -> dict[str, Any]:
    """What a script would do: every pattern on every line."""
    patterns = [re.compile(pattern) for pattern in ruleset.patterns]
    found = 0
    began = time.perf_counter()
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            found += sum(1 for pattern in patterns if pattern.search(line))
    return {"seconds": time.perf_counter() - began, "found": found}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(sys.argv[1], Path(sys.argv[2]))) + "\n")
