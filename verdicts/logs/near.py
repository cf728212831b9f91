"""What the store knows of a verdict's lines: when each was read, and what stands around the leading ones."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from django.db.models import F, Q, Value
from django.db.models.functions import Left, Length, Replace

from verdicts.models import Attempt
from verdicts.verdict_page.presentation import Body

#: Findings whose first line is shown with others around it.
MOST = 3
#: So many lines before and after, of those that lie no further away in their file; of each so many characters.
LINES, AWAY, CHARACTERS = 2, 10, 300

#: Source, file and line.
_Place = tuple[str, str, int]


@dataclass(frozen=True)
class NearLine:
    """A stored line as far as it is shown; `last` is the number of its last line, where it is a record of several."""

    source: str
    file: str
    line: int
    last: int
    text: str
    count: int


@dataclass(frozen=True)
class Near:
    """The lines around one, in their order."""

    before: list[NearLine] = field(default_factory=list)
    after: list[NearLine] = field(default_factory=list)


@dataclass(frozen=True)
class Beside:
    """By the reference of a line: when it was read, where that is known, and what stands around it."""

    read_at: dict[str, str]
    near: dict[str, Near]


def beside(attempt: Attempt, body: Body, refs: Iterable[str]) -> Beside:
    """What the store knows of some lines, and of those around the first line of each leading cause or candidate.

    Not every line of a log is stored: those that are have their numbers, so that gaps between them show.
    """
    wanted = dict(_leading(body))
    here = Q(ref__in=list(refs), observed_timestamp__isnull=False)
    for source, file, line in wanted.values():
        here |= Q(source=source, file=file, line__range=(max(line - AWAY, 1), line + AWAY))
    ends = Length("body") - Length(Replace("body", Value("\n"), Value("")))
    rows = attempt.observations.filter(here).order_by("line", "id")
    read_at: dict[str, str] = {}
    stored: list[NearLine] = []
    for ref, at, source, file, line, more, text, count in rows.annotate(
        more=ends, text=Left("body", CHARACTERS + 1)
    ).values_list("ref", "observed_timestamp", "source", "file", "line", F("more"), F("text"), "count"):
        if at is not None:
            read_at[ref] = str(at)
        stored.append(NearLine(source, file, line, line + more, text, count))
    found = {ref: _around(stored, place) for ref, place in wanted.items()}
    return Beside(read_at, {ref: near for ref, near in found.items() if near.before or near.after})


def _leading(body: Body) -> Iterator[tuple[str, _Place]]:
    leading = [*(body.get("causes") or ()), *(body.get("candidates") or ())]
    for finding in leading[:MOST]:
        first = next(iter(finding.get("evidence") or ()), None)
        if first and first.get("file") and first.get("line"):
            yield first["ref"], (first["source"], first["file"], first["line"])


def _around(stored: list[NearLine], place: _Place) -> Near:
    source, file, number = place
    same = [one for one in stored if (one.source, one.file) == (source, file) and abs(one.line - number) <= AWAY]
    end = max((one.last for one in same if one.line == number), default=number)
    before = [one for one in same if one.line < number]
    # What lies inside a record of several lines is no neighbour of it.
    after = [one for one in same if one.line > end]
    return Near(before[-LINES:], after[:LINES])
