"""Secrets in evidence: what has the shape of a key, a token or a password is not kept.

Logs carry them: a command line, a URL with a password, a dumped environment. Shapes are few and particular, so
that prose about passwords stays as it is and no rule reads another line than before. What was there stands
in its place: "[redacted: AWS key]".
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of secret. `hints` are texts, in lower case, of which one must be there before the pattern is tried;
    what the pattern has in its group `keep` stays."""

    kind: str
    hints: tuple[str, ...]
    pattern: str


def _shape(kind: str, hints: str, pattern: str) -> Shape:
    return Shape(kind, tuple(hints.split()), pattern)


#: A name that says its value is secret, in an assignment ("PGPASSWORD=…", "--api-key …") or between quotes as in JSON.
#: "password: refused" is prose.
_NAMES = (
    r"(?:pass(?:word|wd|phrase)|secret(?:[_-]?(?:access)?[_-]?key)?|api[_-]?key|private[_-]?key"
    r"|(?:access|auth|refresh|bearer|session)[_-]?token)"
)
#: What stands where a secret would and is none: what was taken out before, a variable, a placeholder.
_MASKED = r"(?!\[redacted: |\*{3}|\$[{(]|\$[A-Z_]+\b|<\w)"
_QUOTE = r"\\?[\"']"

#: No run of a pattern can begin inside another of its own: the time is linear in the text, whatever the text is.
SHAPES = (
    _shape(
        "private key", "key-----", r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)"
    ),
    _shape("AWS key", "akia asia", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    _shape("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{30,255}"),
    _shape("GitHub token", "github_pat_", r"\bgithub_pat_\w{22,255}"),
    _shape("GitLab token", "glpat-", r"(?<![\w-])glpat-[\w-]{20,255}"),
    _shape("Hugging Face token", "hf_", r"\bhf_[A-Za-z0-9]{30,255}"),
    _shape("Slack token", "xox", r"(?<![\w-])xox[abeoprs]-[A-Za-z0-9-]{10,255}"),
    _shape("Google key", "aiza", r"(?<![\w-])AIza[\w-]{35}"),
    _shape("NVIDIA key", "nvapi-", r"(?<![\w-])nvapi-[\w-]{20,255}"),
    _shape("API key", "sk-", r"(?<![\w-])sk-(?=[\w-]{0,255}\d)[\w-]{20,255}"),
    _shape("Inquest token", "inq_", r"\binq_[0-9a-f]{40,255}"),
    _shape("JSON web token", "eyj", r"(?<![\w.-])eyJ[\w-]{8,4096}\.eyJ[\w-]{8,8192}(?:\.[\w-]{0,1024})?"),
    _shape(
        "token", "bearer", rf"(?i)(?P<keep>\bbearer[ :]{{1,3}}){_MASKED}(?=[\w.~+/-]{{0,4096}}\d)[\w.~+/-]{{16,4096}}=*"
    ),
    _shape("token", "_token=", r"(?P<keep>\b[A-Z0-9_]{1,64}_TOKEN=)(?=[\w.-]{0,255}\d)[\w.-]{16,255}"),
    _shape(
        "credentials",
        "authorization",
        rf"(?i)(?P<keep>\bauthorization{_QUOTE}?[ ]?[:=][ ]?(?:{_QUOTE})?(?:basic|token)[ ]){_MASKED}"
        r"[\w.~+/=-]{8,4096}",
    ),
    _shape("password", "://", rf"(?P<keep>://[^\s/:@\"'<>]{{0,256}}:){_MASKED}[^\s/@\"'<>]{{1,512}}(?=@)"),
    _shape(
        "secret",
        "pass secret key token",
        rf"(?i)(?P<keep>{_NAMES}(?:=(?:{_QUOTE})?|{_QUOTE}[ ]?[:=][ ]?{_QUOTE})){_MASKED}[^\s\"'\\&,;]{{1,4096}}",
    ),
    _shape(
        "secret",
        "--",
        rf"(?i)(?P<keep>--(?:\w{{1,32}}-){{0,2}}(?:{_NAMES}|token)[= ](?:{_QUOTE})?){_MASKED}(?!-)[^\s\"'\\]{{6,4096}}",
    ),
)


@dataclass(frozen=True, slots=True)
class Redactor:
    """What takes secrets out of texts."""

    def redact(self, text: str) -> str:
        """The text with every secret of a known shape replaced. Done twice it changes nothing more."""
        low = text.lower()
        for shape in SHAPES:
            if any(hint in low for hint in shape.hints):
                text = _compiled(shape.pattern).sub(_replacement(shape), text)
        return text


#: Without a site's key: what `inquest explain` uses, the same everywhere.
PLAIN = Redactor()


def redact(text: str) -> str:
    """The text as `PLAIN` leaves it."""
    return PLAIN.redact(text)


_MARK = re.compile(r"\[redacted: [^\[\]\n]{1,80}\]")


def marks(text: str) -> int:
    """How many secrets were taken out of a text."""
    return len(_MARK.findall(text)) if "[redacted: " in text else 0


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _replacement(shape: Shape) -> Callable[[re.Match[str]], str]:
    kept = "(?P<keep>" in shape.pattern
    return lambda match: (match["keep"] if kept else "") + f"[redacted: {shape.kind}]"
