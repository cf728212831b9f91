"""Secrets in evidence: what has the shape of a key, a token or a password is not kept.

Logs carry them: a command line, a URL with a password, a dumped environment. What was there stands in its place:
"[redacted: AWS key]", and with a site's key "[redacted: AWS key 3f9a1c]", where equal secrets have equal tags that say
nothing to whoever has not the key. docs/redaction.md says what is taken out and what cannot be known.
"""

import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from rules import scan
from rules.shapes import EMAIL, TOKENS, VALUES, Shape, key_lines

#: What a replaced secret looks like, with the tag or without. It is never looked into again.
MARK = re.compile(r"\[redacted: (?P<kind>[\w&+-][\w&+ -]{0,59}?)(?: [0-9a-f]{6})?\]")
MARK_BEGINS = "[redacted: "
#: Kinds that a name before the text says; the text's own form says more.
_GENERAL = ("secret", "token", "password", "credentials", "key line")
#: Taking one secret out can lay another bare, once or twice; more rounds are an input made for it.
_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Extra:
    """A site's own pattern. All that it matches is replaced."""

    kind: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Redactor:
    """What takes secrets out of texts. `emails`: e-mail addresses too. `key`: for the tags, none without it."""

    emails: bool = True
    extra: tuple[Extra, ...] = ()
    key: bytes = field(default=b"", repr=False)

    def redact(self, text: str) -> str:
        """The text with every secret of a known shape replaced. Done twice it changes nothing more."""
        for _ in range(_ROUNDS):
            clean = self._once(text)
            if clean is text:
                break
            text = clean
        return text

    def redact_field(self, name: str, text: str) -> str:
        """The value of a field with its secrets replaced; its name can say that it is one."""
        before = f"{name}="
        clean = self.redact(before + text)
        return clean.removeprefix(before) if clean.startswith(before) else self.redact(text)

    def _once(self, text: str) -> str:
        if MARK_BEGINS not in text:
            return self._piece(text)
        out, last, changed = [], 0, False
        for mark in MARK.finditer(text):
            piece = text[last : mark.start()]
            clean = self._piece(piece)
            changed = changed or clean is not piece
            out += [clean, mark[0]]
            last = mark.end()
        rest = text[last:]
        clean = self._piece(rest)
        return "".join([*out, clean]) if changed or clean is not rest else text

    def _piece(self, text: str) -> str:
        """A text without marks with its secrets replaced; the text itself where there are none."""
        found = self._found(text)
        if not found:
            return text
        out, last = [], 0
        for start in sorted(found):
            end, kind = found[start]
            out += [text[last:start], self._mark(kind, text[start:end])]
            last = end
        return "".join([*out, text[last:]])

    def _found(self, text: str) -> dict[int, tuple[int, str]]:
        """Start → (end, kind) of the secrets, none over another: what comes first in the order of shapes stays.

        Where the form of a text says more than the name before it ("HF_TOKEN=hf_…"), the form names the kind.
        """
        found: dict[int, tuple[int, str]] = {}
        covered = bytearray()
        for start, end, kind in self._candidates(text):
            covered = covered or bytearray(len(text))
            known, name = found.get(start, (-1, ""))
            if covered.find(1, start, end) < 0 or (known == end and name in _GENERAL and kind not in _GENERAL):
                found[start] = end, kind
                covered[start:end] = b"\1" * (end - start)
        return found

    def _candidates(self, text: str) -> Iterator[tuple[int, int, str]]:
        for extra in self.extra:
            for start, end in _extra_spans(extra.pattern, text):
                yield start, end, extra.kind
        # One letter becomes two in lower case.
        low = text.replace("İ", "i").lower() if "İ" in text else text.lower()
        for shape in _wanted(low):
            yield from _spans(shape, low if shape.caseless else text)
        if len(text) >= 64:
            for start, end in key_lines(text):
                yield start, end, "key line"
        if self.emails and "@" in text:
            yield from _spans(EMAIL, low)

    def _mark(self, kind: str, secret: str) -> str:
        if not self.key:
            return f"{MARK_BEGINS}{kind}]"
        tag = hmac.new(self.key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:6]
        return f"{MARK_BEGINS}{kind} {tag}]"


#: Without a site's key: what `inquest explain` uses, the same everywhere.
PLAIN = Redactor()


def redact(text: str) -> str:
    """The text as `PLAIN` leaves it."""
    return PLAIN.redact(text)


def marks(text: str) -> int:
    """How many secrets were taken out of a text."""
    return sum(1 for _ in MARK.finditer(text)) if MARK_BEGINS in text else 0


def untagged(text: str) -> str:
    """The text with its marks as they are without a site's key: lines that differ in a secret alone are alike."""
    return MARK.sub(lambda mark: f"{MARK_BEGINS}{mark['kind']}]", text) if MARK_BEGINS in text else text


_SHAPES = (*VALUES, *TOKENS)
_HINTS = tuple(sorted({hint for shape in _SHAPES for hint in shape.hints}))
#: Which shapes each hint stands for.
_HINTED = tuple(tuple(index for index, shape in enumerate(_SHAPES) if hint in shape.hints) for hint in _HINTS)


@cache
def _hint_automaton() -> scan.Automaton | None:
    """All hints in one pass; None on a platform without Hyperscan, where they are looked for one by one."""
    return scan.literals(_HINTS)


def _wanted(low: str) -> list[Shape]:
    """The shapes of which a hint is in the text, in their order: most lines have none."""
    automaton = _hint_automaton()
    if automaton is None:
        hints = [number for number, hint in enumerate(_HINTS) if hint in low]
    else:
        hints = [number for _, number, _ in automaton.matches(low.encode("utf-8", "surrogatepass"))]
    if not hints:
        return []
    return [_SHAPES[index] for index in sorted({index for hint in hints for index in _HINTED[hint]})]


@cache
def _compiled(shape: Shape) -> tuple[re.Pattern[str], bool]:
    """The shape's pattern, and whether a part of what it matches stays."""
    pattern = re.compile(shape.pattern)
    return pattern, "keep" in pattern.groupindex


def _spans(shape: Shape, text: str) -> Iterator[tuple[int, int, str]]:
    pattern, kept = _compiled(shape)
    for match in pattern.finditer(text):
        yield match.end("keep") if kept else match.start(), match.end(), shape.kind


@cache
def _automaton(pattern: str) -> scan.Automaton:
    return scan.spanning(pattern)


def _extra_spans(pattern: str, text: str) -> list[tuple[int, int]]:
    """Where a site's pattern matches, the longest from each start, in characters."""
    raw = text.encode("utf-8", "surrogatepass")
    longest: dict[int, int] = {}
    for end, _, start in _automaton(pattern).matches(raw):
        longest[start] = max(end, longest.get(start, 0))
    spans = sorted(longest.items())
    if len(raw) == len(text):
        return spans
    return [
        (len(raw[:start].decode("utf-8", "ignore")), len(raw[:end].decode("utf-8", "ignore"))) for start, end in spans
    ]
