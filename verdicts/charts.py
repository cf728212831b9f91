"""Text for charts: Plotly reads a few HTML tags out of every text it draws, so text out of logs is spelled for it."""

from typing import Any

from verdicts.logs.raw_text import spelled

#: Longer text is cut in a chart; the table beside it has the whole.
LONGEST = 160


def words(text: object, longest: int = LONGEST) -> str:
    """A text as a figure may hold it: tags and entities are shown, not obeyed, and control characters spelled out."""
    whole = spelled(str(text))
    cut = whole if len(whole) <= longest else whole[: longest - 1] + "…"
    return cut.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")


#: Ticks that an axis of counts has at most.
MOST_TICKS = 6


def whole_ticks(most: int) -> dict[str, Any]:
    """The ticks of an axis that counts: whole numbers at a round distance, 0 among them."""
    step = 1
    while most > step * MOST_TICKS:
        lead = int(str(step)[0])
        step = step * 2 if lead in (1, 5) else step // 2 * 5
    return {"tick0": 0, "dtick": step}
