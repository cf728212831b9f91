"""How a conclusion moved: two verdict bodies in, what differs and how much it weighs out. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rules.words import STRENGTHS, Strength
from verdicts.verdict_page.compare import differences

Body = Mapping[str, Any]

#: What says which rules were used, not what was concluded.
_IDENTITY = ("ruleset",)
#: Findings in the order in which they weigh, with the move that a difference in one of them is.
_BLAMED = (("causes", "another cause"), ("candidates", "other candidates"))
OTHER_NODES, OTHER_SYMPTOMS, WORDS = "other nodes", "other symptoms", "words alone"


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A change of a conclusion.

    `weighty` where it changes anything that policies or people act on: domain, state, strength, causes, candidates or
    nodes. `move` names the heaviest difference in a few words, so that equal moves can be counted.
    """

    move: str
    weighty: bool
    stronger: bool
    said: list[str]


def same(before: Body, after: Body) -> bool:
    """Whether two bodies conclude the same in every field; which rules were used is not compared."""
    return _concluded(before) == _concluded(after)


def moved(before: Body, after: Body) -> Moved:
    """What differs between two bodies that are not the same."""
    move, weighty = _move(before, after)
    said = differences(before, after)
    was, now = _nodes(before), _nodes(after)
    if was != now:
        said.append(f"Affected nodes: {', '.join(was) or 'none'} before, {', '.join(now) or 'none'} now.")
    if not said or not weighty:
        fields = [name for name, value in _concluded(after).items() if before.get(name) != value]
        gone = [name for name in _concluded(before) if name not in after]
        said.append(f"Differs in: {', '.join(sorted({*fields, *gone}))}.")
    return Moved(move=move, weighty=weighty, stronger=_rank(after) > _rank(before), said=said)


def gist(body: Body) -> dict[str, Any]:
    """What of a conclusion is shown beside another one. It quotes no line: those have a time of their own to live."""
    return {
        "domain": body.get("attributed_domain") or "",
        "state": body.get("terminal_state") or "",
        "strength": body.get("strength") or "",
        "causes": [
            {
                "rule": one.get("rule"),
                "title": one.get("title"),
                "symptom": one.get("symptom"),
                "locus": one.get("locus"),
            }
            for one in (body.get("causes") or [])[:10]
        ],
        "nodes": _nodes(body)[:50],
    }


def _concluded(body: Body) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _IDENTITY}


def _move(before: Body, after: Body) -> tuple[str, bool]:
    for field in ("attributed_domain", "terminal_state", "strength"):
        was, now = before.get(field) or "none", after.get(field) or "none"
        if was != now:
            return f"{was} → {now}", True
    for field, name in _BLAMED:
        if _places(before, field) != _places(after, field):
            return name, True
    if _nodes(before) != _nodes(after):
        return OTHER_NODES, True
    for field in ("demoted", "interesting"):
        if _places(before, field) != _places(after, field):
            return OTHER_SYMPTOMS, False
    return WORDS, False


def _places(body: Body, field: str) -> list[tuple[str, ...]]:
    """The findings of a list by what they are and where: rules may be renamed without another conclusion."""
    return sorted(
        (
            str(one.get("symptom")),
            *(f"{key}={value}" for key, value in sorted((one.get("locus") or {}).items())),
            str((one.get("explained_by") or {}).get("rule") or "") if field == "demoted" else "",
        )
        for one in body.get(field) or []
    )


def _nodes(body: Body) -> list[str]:
    return sorted(str(node.get("name") or "") for node in body.get("affected_nodes") or [])


def _rank(body: Body) -> int:
    strength = body.get("strength")
    return STRENGTHS.index(Strength(strength)) + 1 if strength else 0
