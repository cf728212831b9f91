"""Text for charts: Plotly reads a few HTML tags out of every text it draws, so text out of logs is spelled for it."""

from verdicts.raw_text import spelled

#: Longer text is cut in a chart; the table beside it has the whole.
LONGEST = 160


def words(text: object, longest: int = LONGEST) -> str:
    """A text as a figure may hold it: tags and entities are shown, not obeyed, and control characters spelled out."""
    whole = spelled(str(text))
    cut = whole if len(whole) <= longest else whole[: longest - 1] + "…"
    return cut.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
