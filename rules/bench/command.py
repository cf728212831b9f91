"""The commands of `inquest bench`."""

import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from rules.bench import attribution, measure
from rules.bench.generate import generate
from rules.examples import rule_files
from rules.rule import Rule, parse_rule
from rules.ruleset import CATALOGUE, load_ruleset

#: What is asked of the engine.
GOALS = {"rg_over_ours": 1.0, "re_over_ours": 50.0, "linearity": 11.0, "flatness": 0.25, "peak_mb": 400, "explain": 0.5}
UNITS = {"k": 10**3, "m": 10**6, "g": 10**9}


class Size(click.ParamType):  # type: ignore[type-arg]
    """A size in bytes: 200M, 2G."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip().lower().removesuffix("b")
        factor = UNITS.get(text[-1:], 1)
        try:
            return int(float(text.rstrip("kmg")) * factor)
        except ValueError:
            self.fail(f"{value!r} is no size: write 200M or 2G", param, ctx)


@click.group()
def bench() -> None:
    """Measure the engine: its speed on made logs, its verdicts on labelled incidents."""


@bench.command("generate")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--size", type=Size(), default="200M", show_default=True)
@click.option("--nodes", type=click.IntRange(1, 10_000), default=8, show_default=True)
def generate_command(folder: Path, size: int, nodes: int) -> None:
    """Write a made set of logs as an incident folder: the same bytes every time."""
    logs = generate(folder, size, shipped_rules(), nodes=nodes)
    click.echo(f"{logs.bytes} bytes, {logs.lines} lines ({logs.planted} planted), {logs.files} files in {folder}")


@bench.command("speed")
@click.option("--size", type=Size(), default="200M", show_default=True, help="The set that is measured against others.")
@click.option("--large", type=Size(), default="0", help="A larger set, for linearity and memory: 2G.")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=8, show_default=True)
@click.option("--runs", type=click.IntRange(1, 99), default=3, show_default=True, help="Runs of each, in turns.")
@click.option("--re-sample", type=Size(), default="400k", show_default=True, help="Bytes for the `re` loop; 0: none.")
@click.option("--rg-limit", type=float, default=60, show_default=True, help="Seconds after which ripgrep is stopped.")
@click.option(
    "--dir", "work", type=click.Path(path_type=Path), help="Where to write the logs (kept; default: temporary)."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the figures here; - for stdout.")
def speed_command(
    size: int,
    large: int,
    nodes: int,
    runs: int,
    re_sample: int,
    rg_limit: float,
    work: Path | None,
    json_file: Path | None,
) -> None:
    """Measure speed against ripgrep and `re`, linearity, flatness in rules, memory and start-up.

    Exit status 1 when a goal is missed.
    """
    folder = Path(work or tempfile.mkdtemp(prefix="inquest-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        figures = speed(folder, size, large, nodes=nodes, runs=runs, re_sample=re_sample, rg_limit=rg_limit)
    except (OSError, RuntimeError) as error:
        click.echo(f"inquest: {error}", err=True)
        sys.exit(2)
    finally:
        if work is None:
            shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(figures, indent=2)
    if json_file is not None and str(json_file) != "-":
        json_file.write_text(text + "\n", encoding="utf-8")
    click.echo(text if str(json_file) == "-" else speed_table(figures))
    sys.exit(1 if any(not ok for _, _, _, ok in verdicts(figures)) else 0)


def speed(
    work: Path, size: int, large: int, *, nodes: int, runs: int, re_sample: int, rg_limit: float
) -> dict[str, Any]:
    """All figures. Raises RuntimeError when a run fails, OSError when the logs cannot be written."""
    rules = shipped_rules()
    ruleset = load_ruleset()
    logs = generate(work / f"set-{size}", size, rules, nodes=nodes)
    measure.time_worker("collect", logs.folder)  # the first run compiles the automaton and fills the file cache
    figures: dict[str, Any] = {
        "rules": len(ruleset.rules),
        "ruleset": ruleset.digest,
        "nodes": nodes,
        "ripgrep": measure.ripgrep() is not None,
        "small": measure.compare(logs, ruleset, work, runs=runs, re_sample=re_sample, rg_limit=rg_limit),
        "flatness": measure.flatness(logs, runs=runs),
    }
    one = generate(work / "set-1m", 1_000_000, rules, nodes=1)
    file = work / "one-megabyte.log"
    file.write_bytes(b"".join(path.read_bytes() for path in sorted(one.folder.rglob("*.log")))[:1_000_000])
    measure.time_explain(file)
    figures["explain_seconds"] = statistics.median(measure.time_explain(file) for _ in range(max(runs, 3)))
    if large:
        logs = generate(work / f"set-{large}", large, rules, nodes=nodes)
        result = measure.time_worker("collect", logs.folder)
        figures["large"] = {
            "bytes": logs.bytes,
            "lines": logs.lines,
            "ours_seconds": result["wall_seconds"],
            "ours_mb_per_second": logs.bytes / 1e6 / result["wall_seconds"],
            "peak_mb": result["peak_mb"],
            "ratio": result["wall_seconds"] / figures["small"]["ours_seconds"],
            "size_ratio": logs.bytes / figures["small"]["bytes"],
        }
    return figures


def shipped_rules() -> list[Rule]:
    """The shipped rules with their tests."""
    return [parse_rule(raw, name=str(path)) for path, raw in rule_files([CATALOGUE])]


def verdicts(figures: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    """Each goal: (what, asked, got, whether it is met); what could not be measured is not listed."""
    small, large = figures["small"], figures.get("large")
    rows = []
    if "rg_over_ours" in small:
        got = small["rg_over_ours"]
        more = "at least " if small["rg_stopped"] else ""
        rows.append(("times as fast as rg (its faster form)", "≥ 1", f"{more}{got:.1f}", got >= GOALS["rg_over_ours"]))
    if "re_over_ours" in small:
        got = small["re_over_ours"]
        rows.append(("times as fast as a loop over `re`", "≥ 50", f"{got:.0f}", got >= GOALS["re_over_ours"]))
    cost = figures["flatness"]["cost"]
    rows.append(("cost of doubling the patterns", "< 25%", f"{100 * cost:.0f}%", cost < GOALS["flatness"]))
    peak = max(small["peak_mb"], large["peak_mb"] if large else 0)
    rows.append(("peak memory", "< 400 MB", f"{peak} MB", peak < GOALS["peak_mb"]))
    took = figures["explain_seconds"]
    rows.append(("inquest explain on 1 MB", "< 0.5 s", f"{took:.2f} s", took < GOALS["explain"]))
    if large:
        rows.append(
            (
                f"time ratio for {large['size_ratio']:.1f} times the bytes",
                "≤ 11",
                f"{large['ratio']:.1f}",
                large["ratio"] <= GOALS["linearity"],
            )
        )
    return rows


def speed_table(figures: dict[str, Any]) -> str:
    """The figures for a terminal."""
    small = figures["small"]
    size = f"{small['bytes'] / 1e6:.0f} MB, {small['lines']} lines, {small['files']} files"
    rules = f"{figures['rules']} rules, {small['patterns']} patterns"
    out = [f"{size}; {rules}; medians of {small['runs']} runs in turns"]
    rate = f"{small['ours_mb_per_second']:6.0f} MB/s"
    out.append(f"  {'inquest, whole process':36} {small['ours_seconds']:9.2f} s  {rate}")
    for key in ("rg", "rg_ascii", "rg_texts"):
        if key in small:
            got = small[key]
            stopped = "  stopped there" if got["stopped"] else ""
            out.append(f"  {got['name']:36} {got['seconds']:9.2f} s{stopped}")
        elif name := small.get(f"{key}_refused"):
            out.append(f"  {name:36}   refuses the patterns")
    if not figures["ripgrep"]:
        out.append("  rg is not installed")
    if small["patterns_rg_refuses"]:
        out.append(f"  rg refuses {small['patterns_rg_refuses']} of the patterns")
    if "re_scaled_seconds" in small:
        sampled = f"{small['re_sample_seconds']:.1f} s for the first {small['re_sample_bytes'] / 1e3:.0f} kB"
        out.append(
            f"  {'loop over `re`, scaled up':36} {small['re_scaled_seconds']:9.0f} s  from {sampled} of the files"
        )
    flat = figures["flatness"]
    label = f"{flat['patterns']}, then {flat['doubled']} patterns"
    out.append(f"  {label:36} {flat['seconds']:9.2f} s, {flat['doubled_seconds']:.2f} s (without start-up)")
    if large := figures.get("large"):
        speed_text = f"{large['ours_seconds']:.2f} s, {large['ours_mb_per_second']:.0f} MB/s"
        out.append(f"{large['bytes'] / 1e6:.0f} MB: {speed_text}, peak {large['peak_mb']} MB")
    out.append("")
    for what, asked, got, met in verdicts(figures):
        out.append(f"  {'met   ' if met else 'MISSED'}  {what:42} asked {asked:9} got {got}")
    return "\n".join(out)


@bench.command("attribution")
@click.argument("cases", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--list", "listed", is_flag=True, help="Name the cases that are not right.")
@click.option("--site", type=click.Path(), help="A directory of site rules over the shipped ones.")
def attribution_command(cases: Path, as_json: bool, listed: bool, site: str | None) -> None:
    """Score verdicts on labelled incidents (CASES/*/label.json) beside three baselines.

    The baselines blame one line: the earliest error by its time, the last exception, the most frequent error; the
    line's domain is what the same rules say of it. Labels are read here and nowhere else.
    """
    scores = attribution.score(cases, load_ruleset(site))
    if not scores.cases:
        click.echo(f"inquest: {cases}: no folder with a label.json", err=True)
        sys.exit(2)
    click.echo(json.dumps(attribution.as_json(scores), indent=2) if as_json else attribution.as_text(scores, listed))


if __name__ == "__main__":
    bench()
