"""The verdict for a person at a terminal: at most about 25 lines, what matters first."""

import os
import sys
from typing import IO

from rules.explain import SOURCE_NAMES, STATE_WORDS, STATUS_WORDS, where
from rules.verdict import Finding, Verdict, plain_text
from rules.words import Domain, ReportStatus, Role, Source

WIDTH = 100


class Paint:
    """Colour for a terminal, nothing for a file or with NO_COLOR (https://no-color.org)."""

    def __init__(self, out: IO[str]) -> None:
        self.on = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def __call__(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text


def print_verdict(verdict: Verdict, notes: list[str], out: IO[str] | None = None) -> None:
    """Print a verdict."""
    out = out or sys.stdout
    paint = Paint(out)
    for line in render(verdict, notes, paint):
        out.write(line + "\n")


def render(verdict: Verdict, notes: list[str], paint: Paint) -> list[str]:
    """The lines of the print."""
    colour = {Domain.AMBIGUOUS: "33", Domain.UNATTRIBUTED: "33", Domain.NO_FAILURE: "32"}.get(
        verdict.attributed_domain, "31"
    )
    lines = [paint("1", plain_text(verdict.headline))]
    strength = f", {verdict.strength}" if verdict.strength else ""
    job = plain_text(str(verdict.attempt.get("job_id", "unknown")), 80)
    name = "attempt" if job == "unknown" else f"job {job}"
    lines.append(
        f"  The {name} {STATE_WORDS[verdict.terminal_state]}. "
        f"Domain: {paint(colour, verdict.attributed_domain + strength)}"
    )
    for title, found in (("Cause", verdict.causes), ("Could be", verdict.candidates)):
        for finding in found[:3]:
            lines += _finding(title, finding, paint)
        if len(found) > 3:
            lines.append(f"  … and {len(found) - 3} more")
    if verdict.demoted:
        lines.append("  Demoted:")
        for finding in verdict.demoted[:4]:
            by = finding.explained_by
            tail = f" ← {by.finding} ({by.timing})" if by else ""
            lines.append(_cut(f"    {finding.count} × {finding.title}{where(finding)}{tail}"))
        if len(verdict.demoted) > 4:
            lines.append(f"    … and {len(verdict.demoted) - 4} more kinds")
    unexplained = [f for f in verdict.interesting if f.why.startswith("only ever")]
    if unexplained and not verdict.causes:
        lines.append("  Seen, and only ever consequences:")
        lines += [_cut(f"    {f.count} × {f.title}{where(f)}: {_place(f)}") for f in unexplained[:3]]
    for finding in [f for f in verdict.interesting if f.role in (Role.CAUSE, Role.EITHER)][:3]:
        lines.append(_cut(f"  Not blamed: {finding.title}{where(finding)} ({_place(finding)}): {finding.why}", 200))
    if near := [u for u in verdict.unrecognised if u.near_end]:
        lines.append(_cut(f"  Not recognised near the end: {near[0].example.text.strip()} ({near[0].example.ref})"))
    gaps = [r for r in verdict.coverage if r.status is not ReportStatus.OK and r.source in _NAMED]
    if gaps:
        lines.append("  Missing: " + "; ".join(f"{SOURCE_NAMES[r.source]} {STATUS_WORDS[r.status]}" for r in gaps))
    if redacted := sum(report.redacted for report in verdict.coverage):
        lines.append(f"  Taken out of the lines: {redacted} secret{'s' if redacted > 1 else ''}")
    for title, kind in (("Now", "now"), ("Later", "later")):
        lines += [_cut(f"  {title}: {note.text}", 240) for note in verdict.advice[kind][:2]]
    if verdict.attributed_domain is Domain.AMBIGUOUS:
        lines += [_cut(f"  Test: {note.text}", 240) for note in verdict.discriminating_tests[:3]]
    lines += [_cut(f"  Would overturn it: {note.text}", 240) for note in verdict.overturned_by[:2]]
    lines += [paint("2", _cut(f"  Guessed: {note}", 160)) for note in notes[:3]]
    if len(notes) > 3:
        lines.append(paint("2", f"  … and {len(notes) - 3} more guesses (--json has every file's source)"))
    return lines


_NAMED = (Source.APPLOG, Source.SYSLOG, Source.SCHEDULER)


def _finding(title: str, finding: Finding, paint: Paint) -> list[str]:
    strength = f" [{finding.strength}]" if finding.strength else ""
    means = finding.decoded.get("means")
    lines = [_cut(f"  {title} ({finding.id}, {finding.rule}): {finding.title}{where(finding)}{strength}", 200)]
    if means:
        lines.append(_cut(f"    decoded: {means}"))
    if finding.evidence:
        first = finding.evidence[0]
        lines.append(paint("36", _cut(f"    {_place(finding)}")))
        lines.append(_cut(f"    {first.text.strip()}", 180))
        if first.frame:
            lines.append(_cut(f"    at {first.frame}", 160))
    return lines


def _place(finding: Finding) -> str:
    first = finding.evidence[0]
    word = "after " if first.after else ""
    return first.ref + (f"  {word}{first.time}" if first.time else "")


def _cut(text: str, width: int = WIDTH + 40) -> str:
    text = plain_text(text, width + 1)
    return text if len(text) <= width else text[: width - 1] + "…"
