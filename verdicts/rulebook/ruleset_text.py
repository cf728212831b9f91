"""The text of each ruleset that a verdict was made with: kept when it is first used, so that it can be used again.

A ruleset of an earlier release cannot be had from the disk any more, and a site changes its rules in place.
"""

import logging
from collections.abc import Iterable

import msgspec
import zstandard

from rules.ruleset import Ruleset, RulesetFile, ruleset_from
from verdicts.models import RulesetText, RulesetVersion

log = logging.getLogger(__name__)

#: Bytes of a ruleset's text that are kept at most; the shipped one has two million.
MOST_BYTES = 32 * 1024 * 1024

_line = msgspec.json.Decoder(RulesetFile)


def lines(files: Iterable[RulesetFile]) -> bytes:
    """The text of a ruleset: a line of JSON for each file, in the order in which its digest was taken."""
    return b"".join(msgspec.json.encode(file) + b"\n" for file in files)


def keep(version: RulesetVersion, ruleset: Ruleset) -> None:
    """Keep the text of a ruleset that has none yet; one that was not loaded from files has none to keep."""
    if not ruleset.files:
        return
    text = lines(ruleset.files)
    if len(text) > MOST_BYTES:
        log.error("ruleset.too_large digest=%s bytes=%d: its text is not kept", ruleset.digest, len(text))
        return
    row = RulesetText(version=version, packed=zstandard.ZstdCompressor(level=10).compress(text), size=len(text))
    RulesetText.objects.bulk_create([row], ignore_conflicts=True)


def kept(version: RulesetVersion) -> bytes | None:
    """The text that was kept of a ruleset; None where it was used before texts were kept."""
    row = RulesetText.objects.filter(pk=version.pk).first()
    if row is None:
        return None
    return zstandard.ZstdDecompressor().decompress(bytes(row.packed), max_output_size=MOST_BYTES)


def files_of(text: bytes) -> tuple[RulesetFile, ...]:
    """The files of a ruleset's text. Raises msgspec.DecodeError."""
    return tuple(_line.decode_lines(text))


def ruleset_of(version: RulesetVersion) -> Ruleset | None:
    """The ruleset as it was used, from its text; None where that was not kept or is not what was used."""
    text = kept(version)
    if text is None:
        return None
    ruleset = ruleset_from(files_of(text), version.layers)
    return ruleset if ruleset.digest == version.digest else None
