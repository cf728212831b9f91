"""What a site says about redaction is checked when it starts, with the key named."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from rules.redaction_file import RedactionError, read_redaction_file
from tests.site.evaluated import evaluated


def redacted(tmp_path: Path, **more: str) -> str:
    """What a site with these settings makes of a line."""
    found = evaluated(**{"INQUEST_DATA_DIR": str(tmp_path), "SECRET_KEY": "a key of this test", **more})
    line: str = found["INQUEST_REDACTOR"].redact("PASSWORD=hunter2 ada@example.org BADGE-123456")
    return line


def test_tags_come_from_the_sites_key_and_can_have_one_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("k" * 32 + "\n")
    first = redacted(tmp_path)
    assert "hunter2" not in first and "PASSWORD=[redacted: secret " in first
    assert redacted(tmp_path, SECRET_KEY="another") != first
    own = [redacted(tmp_path, SECRET_KEY=key, INQUEST_REDACTION_KEY="k" * 32) for key in ("one", "two")]
    assert own[0] == own[1] == redacted(tmp_path, INQUEST_REDACTION_KEY_FILE=str(file)) != first


def test_a_site_may_keep_addresses_and_add_patterns(tmp_path: Path) -> None:
    file = tmp_path / "redaction.toml"
    file.write_text("[[pattern]]\nkind = 'badge'\nmatch = 'BADGE-[0-9]{6}'\n")
    said = redacted(tmp_path, INQUEST_REDACT_EMAILS="false", INQUEST_REDACTION_FILE=str(file))
    assert " ada@example.org [redacted: badge " in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"INQUEST_REDACTION_KEY": "short"}, "INQUEST_REDACTION_KEY has fewer than 16 characters"),
        ({"INQUEST_REDACTION_KEY_FILE": "nowhere"}, "INQUEST_REDACTION_KEY_FILE: "),
        ({"INQUEST_REDACTION_FILE": "nowhere"}, "INQUEST_REDACTION_FILE: "),
    ],
)
def test_what_cannot_be_used_is_named(more: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match=said):
        redacted(tmp_path, **more)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[pattern]]\nkind = 'badge'\n", ":1: pattern[0]: Object missing required field `match`"),
        (
            "[[pattern]]\nkind = 'badge'\nmatch = 'x'\nextra = 1\n",
            ":4: pattern[0]: Object contains unknown field `extra`",
        ),
        ("[[pattern]]\nkind = '[badge]'\nmatch = 'xy'\n", ":2: pattern[0].kind: "),
        ("[[pattern]]\nkind = 'my abcdef'\nmatch = 'xy'\n", ":2: pattern[0].kind: 'my abcdef' ends like the tag"),
        ("[[pattern]]\nkind = 'badge'\nmatch = '(a'\n", ":3: pattern[0].match: not a regular expression"),
        ("[[pattern]]\nkind = 'badge'\nmatch = 'a*'\n", ":3: pattern[0].match: matches the empty text"),
        ("[[pattern]]\nkind = 'badge'\nmatch = 'a(?=b)'\n", ":3: pattern[0].match: look-around is not linear-time"),
        ("[[pattern]]\nkind = 'badge'\nmatch = 'a{1,99999}'\n", ":3: pattern[0].match: "),
        ("[[pattern]]\nkind = \n", ":2: "),
        ("colour = 'red'\n", ":1: Object contains unknown field `colour`"),
    ],
)
def test_a_wrong_file_says_line_and_key(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "redaction.toml"
    file.write_text(text)
    with pytest.raises(RedactionError) as error:
        read_redaction_file(file)
    assert str(error.value).startswith(f"{file}{said}")
