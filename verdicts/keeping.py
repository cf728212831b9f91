"""The classes of what is kept for a time only. What is in none of them is kept for ever: see docs/retention.md."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from rules.words import ReportStatus


class Kept(StrEnum):
    """What expires together."""

    LINES = "lines"  # the lines of evidence themselves
    QUOTES = "quotes"  # what verdicts and proposals quote of them, and what collectors said in words
    PROGRESS = "progress"  # signs of progress, rank by rank and minute by minute
    WORDS = "words"  # what people wrote


#: Each as a heading, and what is in it.
TITLES: Mapping[str, str] = {
    Kept.LINES: "Evidence lines",
    Kept.QUOTES: "Quotations",
    Kept.PROGRESS: "Progress",
    Kept.WORDS: "People's own words",
}
HOLDS: Mapping[str, str] = {
    Kept.LINES: "The lines that collectors and tools stored of an attempt.",
    Kept.QUOTES: "What verdicts and proposals quote of lines, error lines that no rule knew, collectors' words.",
    Kept.PROGRESS: "Signs of progress: of each rank the last, of each attempt one a minute or an hour.",
    Kept.WORDS: "Reasons, notes and comments, here and beside the ledger's chain.",
}
#: The classes whose time runs from an attempt's end. A word's own runs from when it was written.
OF_ATTEMPTS = (Kept.LINES, Kept.QUOTES, Kept.PROGRESS)
#: Stands where a text was that had to be something.
EXPIRED = "(expired)"

Body = Mapping[str, Any]
_LISTS = ("causes", "candidates", "demoted", "interesting")
#: A text shorter than this may stand somewhere by chance.
_TELLING = 8
_NUMBER = re.compile(r"(0x)?[0-9a-fA-F]{1,16}|[0-9]+(\.[0-9]+)?")


def without_quotes(body: Body) -> dict[str, Any]:
    """A verdict's body without what it quotes: the texts of lines, and collectors' reasons.

    What was concluded stays: findings, places, times, counts, references, rules. What a rule took out of a line stays
    where it is a number or names a place; other words of the line go with it.
    """
    left: dict[str, Any] = dict(body)
    quoted: set[str] = set()
    for name in _LISTS:
        left[name] = [_finding(finding, quoted) for finding in body.get(name, [])]
    for item in body.get("unrecognised", []):
        quoted |= {item.get("template", ""), (item.get("example") or {}).get("text", "")}
    left["unrecognised"] = []
    left["coverage"] = [_report(report, quoted) for report in body.get("coverage", [])]
    telling = sorted((text for text in quoted if len(text) >= _TELLING), key=len, reverse=True)
    return {name: _without(value, telling) for name, value in left.items()}


def without_reasons(reports: Iterable[Body]) -> list[dict[str, Any]]:
    """Collectors' reports without their words: status and counts stay."""
    return [_report(report, set()) for report in reports]


def plan_without_quotes(plan: Body) -> dict[str, Any]:
    """A proposal's plan without the lines that it quotes; of each gap the source and its status stay."""
    gaps = [": ".join(gap.split(": ", 2)[:2]) for gap in plan.get("gaps", [])]
    return {**plan, "evidence": [], "gaps": gaps}


def _finding(finding: Body, quoted: set[str]) -> dict[str, Any]:
    lines = finding.get("evidence", [])
    texts = [text for line in lines for text in (line.get("text", ""), line.get("frame", "")) if text]
    quoted.update(texts)
    decoded = {
        name: said
        for name, said in finding.get("decoded", {}).items()
        # What a decoder has for a number are the rules' words, not the line's.
        if _NUMBER.fullmatch(said) or not any(said in text for text in texts)
    }
    quiet = [{**line, "text": "", "frame": ""} for line in lines]
    return {**finding, "evidence": quiet, "decoded": decoded}


def _report(report: Body, quoted: set[str]) -> dict[str, Any]:
    if report.get("status") == ReportStatus.NOT_CONFIGURED:
        return dict(report)  # nobody was asked: the reason is ours
    quoted.add(report.get("reason", ""))
    return {**report, "reason": ""} if report.get("reason") else dict(report)


def _without(value: Any, texts: list[str]) -> Any:
    """The same with every text that was taken out also taken out of sentences that repeat it."""
    if isinstance(value, str):
        for text in texts:
            if text in value:
                value = value.replace(text, EXPIRED)
        return value
    if isinstance(value, Mapping):
        return {name: _without(one, texts) for name, one in value.items()}
    return [_without(one, texts) for one in value] if isinstance(value, list) else value
