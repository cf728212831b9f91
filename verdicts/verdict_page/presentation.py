"""A verdict's body arranged for reading: plain data in, plain data out, no database.

The body is what the engine said and is never changed here; this only orders, joins and counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rules.words import ALWAYS, ReportStatus
from verdicts import wording
from verdicts.choices import FindingStatus

Body = Mapping[str, Any]

#: The parts of a body that hold findings, and what the verdict made of those in each.
PARTS = (
    ("causes", FindingStatus.CAUSE),
    ("candidates", FindingStatus.CANDIDATE),
    ("demoted", FindingStatus.DEMOTED),
    ("interesting", FindingStatus.INTERESTING),
)

#: More lines than this are not put on one page; the filters lead to the rest.
MOST_LINES = 400


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of evidence with the findings that rest on it."""

    number: int
    evidence: Body
    findings: list[tuple[str, str, str]]  # id, status, title
    kind: str  # what its stamp can be compared with: see `stamp_kind`
    divider: str = ""  # said before the line where lines stop being comparable with those above


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The lines that are shown, how many there are, and what they may be filtered by."""

    shown: list[Line]
    matching: int
    total: int
    nodes: list[str]
    ranks: list[int]


@dataclass(frozen=True, kw_only=True)
class BlindSpot:
    """A source whose rules could not fire, and what they could have explained."""

    source: str
    status: str
    rules: int
    could_explain: list[tuple[str, str]]  # finding id, title
    examples: list[str]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The collector reports of a verdict and their count."""

    cells: list[Body]
    collected: int
    total: int
    missing: list[str] = field(default_factory=list)
    shared_reason: str = ""  # why sources were not collected, where it is one reason for all: said once


def stamp_kind(stamp: str | None) -> str:
    """With what a stamp can be compared: absolute, local (no offset), yearless, boot, or none."""
    if not stamp:
        return "none"
    if stamp.startswith("boot:"):
        return "boot"
    if stamp.startswith("--"):
        return "yearless"
    try:
        return "local" if datetime.fromisoformat(stamp).tzinfo is None else "absolute"
    except ValueError:
        return "none"


_KINDS = ("absolute", "local", "yearless", "boot", "none")

DIVIDERS = {
    "local": "The clocks of the following lines printed no offset; their order against the lines above is not known.",
    "yearless": "The following lines print no year; their order against the lines above is not known.",
    "boot": "The following lines count seconds since their node started; their order against the lines above "
    "and against other nodes is not known.",
    "none": "The following lines print no time.",
}


def _place(evidence: Body) -> tuple[str, int, str]:
    """File and line before the node: lines of many nodes in one log keep its order where their times are equal."""
    return (
        evidence.get("file") or evidence.get("ref") or "",
        evidence.get("line") or 0,
        evidence.get("node") or "",
    )


def _order(evidence: Body) -> tuple[Any, ...]:
    """A total order: by time among comparable stamps, then by file and line."""
    stamp = str(evidence.get("time") or "")
    kind = stamp_kind(stamp)
    rank = _KINDS.index(kind)
    place = _place(evidence)
    if kind == "absolute":
        return (rank, datetime.fromisoformat(stamp).astimezone(UTC).isoformat(), place)
    if kind == "boot":
        try:
            seconds = float(stamp.removeprefix("boot:"))
        except ValueError:
            seconds = 0.0
        return (rank, f"{evidence.get('node') or ''}\0{seconds:020.6f}", place)
    return (rank, stamp, place)


def findings(body: Body) -> list[tuple[Body, FindingStatus]]:
    """Every finding of a verdict with what the verdict made of it."""
    return [(finding, status) for part, status in PARTS for finding in body.get(part) or ()]


def titles(body: Body) -> dict[str, str]:
    """The title of each finding by its id."""
    return {finding["id"]: finding.get("title") or finding.get("rule", "") for finding, _ in findings(body)}


def evidence_lines(body: Body, *, node: str = "", rank: int | None = None) -> Lines:
    """All findings' evidence as one list in order, each line once, with what may be filtered by.

    `node` and `rank` keep only the lines that name them.
    """
    names = titles(body)
    merged: dict[tuple[Any, ...], tuple[Body, list[tuple[str, str, str]]]] = {}
    for finding, status in findings(body):
        for evidence in finding.get("evidence") or ():
            key = (
                evidence.get("source"),
                evidence.get("ref"),
                evidence.get("text"),
                evidence.get("time"),
            )
            _, resting = merged.setdefault(key, (evidence, []))
            if all(identity != finding["id"] for identity, _, _ in resting):
                resting.append((finding["id"], status.value, names[finding["id"]]))
    every = sorted(merged.values(), key=lambda pair: _order(pair[0]))
    nodes = sorted({evidence["node"] for evidence, _ in every if evidence.get("node")})
    ranks = sorted({evidence["rank"] for evidence, _ in every if evidence.get("rank") is not None})
    shown: list[Line] = []
    matching = 0
    kind = ""
    for number, (evidence, resting) in enumerate(every, start=1):
        if node and evidence.get("node") != node:
            continue
        if rank is not None and evidence.get("rank") != rank:
            continue
        matching += 1
        if matching > MOST_LINES:
            continue
        now = stamp_kind(evidence.get("time"))
        divider = DIVIDERS.get(now, "") if kind and now != kind else ""
        kind = now
        shown.append(
            Line(
                number=number,
                evidence=evidence,
                findings=resting,
                kind=now,
                divider=divider,
            )
        )
    return Lines(shown=shown, matching=matching, total=len(every), nodes=nodes, ranks=ranks)


def seen_whole(report: Body) -> bool:
    """Whether a report says that its source was seen whole, as the engine takes it (`Case.seen`)."""
    status = report.get("status")
    return bool(status == ReportStatus.OK or (status == ReportStatus.EMPTY and report.get("source") not in ALWAYS))


def coverage(reports: Iterable[Body] | None) -> Coverage:
    """The collector reports counted: how many sources were seen, and which were not."""
    cells = list(reports or ())
    unseen = [str(cell["source"]) for cell in cells if not seen_whole(cell)]
    missing = [wording.SOURCES_IN_TEXT.get(source, source) for source in unseen]
    absent = {str(cell.get("reason") or "") for cell in cells if cell.get("status") == ReportStatus.NOT_CONFIGURED}
    return Coverage(
        cells=cells,
        collected=len(cells) - len(missing),
        total=len(cells),
        missing=missing,
        shared_reason=absent.pop() if len(absent) == 1 else "",
    )


def blind_spots(body: Body) -> list[BlindSpot]:
    """Which rules could not fire, for which missing source, and what they could have explained."""
    names = titles(body)
    return [
        BlindSpot(
            source=spot["source"],
            status=spot["status"],
            rules=spot.get("rules") or 0,
            could_explain=[(identity, names.get(identity, "")) for identity in spot.get("could_explain") or ()],
            examples=list(spot.get("examples") or ()),
        )
        for spot in body.get("blind_spots") or ()
    ]


def jumps(body: Body) -> list[tuple[str, str]]:
    """The sections that a verdict's page has, as anchor and name."""
    advice = body.get("advice") or {}
    sections = (
        ("timeline", "Timeline", True),
        ("causes", "Why this", body.get("causes")),
        ("candidates", "Candidates", body.get("candidates")),
        ("tests", "Tests", body.get("discriminating_tests")),
        ("demoted", "Why not the rest", body.get("demoted")),
        ("interesting", "Kept", body.get("interesting")),
        ("missing", "Not there", body.get("missing")),
        ("overturn", "Overturned by", body.get("overturned_by")),
        ("advice", "What to do", advice.get("now") or advice.get("later")),
        ("proposals", "Proposals", True),
        ("unrecognised", "Unknown errors", body.get("unrecognised")),
        ("lines-title", "Evidence", True),
        ("reviews", "Reviews", True),
        ("talk", "Comments", True),
        ("versions", "Earlier verdicts", True),
        ("attempts", "Related", True),
    )
    return [(anchor, name) for anchor, name, there in sections if there]


def findings_by_ref(body: Body) -> dict[str, list[tuple[str, str, str]]]:
    """The findings that rest on each line, by its reference: id, what the verdict made of it, title."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for finding, status in findings(body):
        told = (finding["id"], status.value, finding.get("title") or finding.get("rule", ""))
        for evidence in finding.get("evidence") or ():
            resting = found.setdefault(evidence.get("ref") or "", [])
            if told not in resting:
                resting.append(told)
    found.pop("", None)
    return found
