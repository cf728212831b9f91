"""Measuring: ours, ripgrep and a plain `re` loop on the same files with the same patterns, in turns."""

import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rules import literals, scan
from rules.bench.generate import LogSet
from rules.ruleset import Ruleset

#: Punctuation that Python lets one escape and ripgrep does not.
_NEEDLESS = set("\"'/ <>:,=!@%;`")
#: ripgrep's own limit on the compiled patterns is too low for a catalogue of thousands.
REGEX_LIMIT = "--regex-size-limit=4G"
_EXPLAIN = "from rules.cli import explain; explain()"


@dataclass
class Runs:
    """Wall times of one contestant."""

    name: str
    seconds: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def median(self) -> float:
        """The middle time; infinite without a run."""
        return statistics.median(self.seconds) if self.seconds else float("inf")


def rust_pattern(pattern: str) -> str:
    """A pattern as ripgrep reads it, matching the same lines: the form that our automaton is given."""
    plain = re.sub(r"\(\?P<\w+>", "(?:", scan.prefilter(pattern))
    return re.sub(r"\\(.)", lambda m: m[1] if m[1] in _NEEDLESS else m[0], plain)


def write_patterns(ruleset: Ruleset, path: Path) -> tuple[int, int]:
    """Write the patterns that ripgrep takes; (written, refused by it)."""
    patterns = [rust_pattern(pattern) for pattern in ruleset.patterns]
    refused = 0
    if not _accepted(patterns):
        kept = [pattern for pattern in patterns if _accepted([pattern])]
        refused = len(patterns) - len(kept)
        patterns = kept
    path.write_text("\n".join(patterns) + "\n", encoding="utf-8")
    return len(patterns), refused


def _accepted(patterns: list[str]) -> bool:
    if ripgrep() is None:
        return True
    run = subprocess.run(
        [ripgrep() or "rg", "--no-config", "-q", REGEX_LIMIT, "-f", "-", "/dev/null"],
        input="\n".join(patterns) + "\n",
        text=True,
        capture_output=True,
        check=False,
    )
    return run.returncode != 2


def ripgrep() -> str | None:
    """Where ripgrep is, or None."""
    return shutil.which("rg")


def time_ripgrep(folder: Path, patterns: Path, *options: str, limit: float) -> tuple[float, int | None]:
    """One run of `rg -j1 -c -f` over the folder: (seconds, lines found, or None when it was stopped at the limit).

    Raises RuntimeError when it fails.
    """
    command = [ripgrep() or "rg", "-j1", "-c", "--no-config", "--no-ignore", "-a", REGEX_LIMIT, *options]
    began = time.perf_counter()
    try:
        run = subprocess.run(
            [*command, "-f", str(patterns), str(folder)], text=True, capture_output=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return limit, None
    seconds = time.perf_counter() - began
    if run.returncode == 2:
        raise RuntimeError(f"rg failed: {run.stderr[:200]}")
    return seconds, sum(int(line.rpartition(":")[2]) for line in run.stdout.splitlines())


def time_worker(mode: str, path: Path) -> dict[str, Any]:
    """One run of the worker, with the whole process's wall time. Raises RuntimeError when it fails."""
    began = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-m", "rules.bench.worker", mode, str(path)], text=True, capture_output=True, check=False
    )
    if run.returncode:
        raise RuntimeError(f"the {mode} run failed: {run.stderr[-400:]}")
    result: dict[str, Any] = json.loads(run.stdout)
    return result | {"wall_seconds": time.perf_counter() - began}


def time_explain(path: Path) -> float:
    """One `inquest explain` of a file, start-up included. Raises RuntimeError when it fails."""
    script = Path(sys.executable).with_name("inquest")
    command = [str(script), "explain"] if script.exists() else [sys.executable, "-c", _EXPLAIN]
    began = time.perf_counter()
    run = subprocess.run([*command, "--json", str(path)], capture_output=True, check=False)
    if run.returncode:
        raise RuntimeError(f"inquest explain failed: {run.stderr[-400:].decode('utf-8', 'replace')}")
    return time.perf_counter() - began


def sample(logs: LogSet, path: Path, size: int) -> int:
    """Whole lines from the beginning of every file, in proportion to the files; the bytes written."""
    written = 0
    with path.open("wb") as out:
        for file in sorted(logs.folder.rglob("*.log")):
            share = max(1, size * file.stat().st_size // max(logs.bytes, 1))
            with file.open("rb") as source:
                for line in source:
                    if share <= 0:
                        break
                    out.write(line)
                    share -= len(line)
                    written += len(line)
    return written


def compare(
    logs: LogSet, ruleset: Ruleset, work: Path, *, runs: int, re_sample: int, rg_limit: float
) -> dict[str, Any]:
    """Ours against ripgrep and `re` on one set, in turns. A contestant that hits the limit is not run again."""
    patterns_file, texts_file = work / "patterns.txt", work / "texts.txt"
    written, refused = write_patterns(ruleset, patterns_file)
    texts_file.write_text("\n".join(fixed_texts(ruleset)) + "\n", encoding="utf-8")
    ours = Runs("inquest")
    grep = {
        "rg": (Runs("rg -j1 -c -f"), patterns_file, ()),
        "rg_ascii": (Runs("rg -j1 -c -f --no-unicode"), patterns_file, ("--no-unicode", "--dfa-size-limit=1G")),
        "rg_texts": (Runs("rg -j1 -c -F -f, fixed texts only"), texts_file, ("-F",)),
    }
    worker: dict[str, Any] = {}
    for _ in range(runs):
        worker = time_worker("collect", logs.folder)
        ours.seconds.append(worker["wall_seconds"])
        for contestant, patterns, options in grep.values():
            if ripgrep() is None or contestant.note:
                continue
            try:
                seconds, lines = time_ripgrep(
                    logs.folder, patterns, *options, limit=max(rg_limit, 2 * ours.seconds[-1])
                )
            except RuntimeError:
                contestant.note = "refused"  # such as a letter outside ASCII with --no-unicode
                continue
            contestant.seconds.append(seconds)
            contestant.note = "" if lines is not None else "stopped"
    out: dict[str, Any] = {
        "bytes": logs.bytes,
        "lines": logs.lines,
        "files": logs.files,
        "planted_lines": logs.planted,
        "patterns": written,
        "patterns_rg_refuses": refused,
        "runs": runs,
        "ours_seconds": ours.median,
        "ours_mb_per_second": logs.bytes / 1e6 / ours.median,
        "peak_mb": worker["peak_mb"],
        "found": worker["found"],
    }
    for key, (contestant, _, _) in grep.items():
        if contestant.seconds:
            stopped = bool(contestant.note)
            seconds = max(contestant.seconds) if stopped else contestant.median
            out[key] = {"name": contestant.name, "seconds": seconds, "stopped": stopped}
        elif contestant.note:
            out[f"{key}_refused"] = contestant.name
    whole = [out[key] for key in ("rg", "rg_ascii") if key in out]
    if whole:
        out["rg_over_ours"] = min(run["seconds"] for run in whole) / ours.median
        out["rg_stopped"] = all(run["stopped"] for run in whole)
    if re_sample:
        part = work / "sample.log"
        size = sample(logs, part, re_sample)
        plain = time_worker("plain", part)
        scaled = plain["seconds"] * logs.bytes / size
        out |= {"re_sample_bytes": size, "re_sample_seconds": plain["seconds"], "re_scaled_seconds": scaled}
        out["re_over_ours"] = scaled / ours.median
    return out


def fixed_texts(ruleset: Ruleset) -> list[str]:
    """A fixed text of every pattern that has one: much less than the patterns say, and ripgrep's best case."""
    texts = {text for pattern in ruleset.patterns for text in literals.required(pattern)[0] if literals.is_rare(text)}
    return sorted(text for text in texts if "\n" not in text)


def flatness(logs: LogSet, *, runs: int) -> dict[str, Any]:
    """What doubling the patterns costs: scan and collection without start-up, in turns."""
    once, twice = Runs("patterns"), Runs("patterns doubled")
    counts = {}
    for _ in range(runs):
        for contestant, mode in ((once, "collect"), (twice, "doubled")):
            result = time_worker(mode, logs.folder)
            contestant.seconds.append(result["seconds"])
            counts[mode] = result["patterns"]
    return {
        "patterns": counts["collect"],
        "doubled": counts["doubled"],
        "seconds": once.median,
        "doubled_seconds": twice.median,
        "cost": twice.median / once.median - 1,
    }
