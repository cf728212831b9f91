"""The text of rulesets that are tried: kept by digest, so that a worker on any machine can run them."""

import logging
from functools import lru_cache
from uuid import UUID

import zstandard
from django.db.models import QuerySet

from recovery.models import CandidateRuleset
from rules.attempt import InputError
from rules.rule import RuleError
from rules.ruleset import Ruleset, ruleset_from
from verdicts import conclude
from verdicts.models import RulesetVersion
from verdicts.rulebook import ruleset_text

log = logging.getLogger(__name__)


class NoRuleset(Exception):
    """A ruleset's text that was not kept, or that this version of Inquest cannot use."""


def keep(ruleset: Ruleset) -> CandidateRuleset:
    """Keep the text of a ruleset that was loaded from files. Raises InputError where there is none, or too much."""
    found = CandidateRuleset.objects.filter(pk=ruleset.digest).first()
    if found is not None:
        return found
    if not ruleset.files:
        raise InputError("ruleset: it was not loaded from files, so its text cannot be kept")
    text = ruleset_text.lines(ruleset.files)
    if len(text) > ruleset_text.MOST_BYTES:
        raise InputError(f"ruleset: its text has {len(text):,} bytes; at most {ruleset_text.MOST_BYTES:,} are kept")
    packed = zstandard.ZstdCompressor(level=10).compress(text)
    return _kept(ruleset.digest, len(ruleset.rules), list(ruleset.layers), packed, len(text))


def keep_used(digest: str) -> CandidateRuleset:
    """Keep the text of a ruleset that verdicts used, or that is kept already; by its digest, or how that begins.

    Raises InputError where there is none or several.
    """
    wanted = digest.strip().lower()
    if len(wanted) < 6 or not set(wanted) <= set("0123456789abcdef"):
        raise InputError("ruleset: the first 6 to 64 digits of a digest")
    if found := list(CandidateRuleset.objects.filter(pk__startswith=wanted).defer("packed")[:2]):
        return _only(found)
    versions = list(RulesetVersion.objects.filter(digest__startswith=wanted)[:2])
    if not versions:
        return keep_current(wanted)
    version = versions[0]
    if len(versions) > 1:
        raise InputError(f"ruleset: several begin with {wanted}")
    text = ruleset_text.RulesetText.objects.filter(pk=version.pk).first()
    if text is None:
        raise InputError(f"ruleset: the text of {version} was not kept: it was used before texts were")
    return _kept(version.digest, version.rules, list(version.layers), bytes(text.packed), text.size)


def keep_current(wanted: str = "") -> CandidateRuleset:
    """Keep the rules of this process, where their digest begins so. Raises InputError."""
    current = conclude.current_ruleset()
    if not current.digest.startswith(wanted):
        raise InputError(f"ruleset: none is known that begins with {wanted}")
    return keep(current)


def choices() -> QuerySet[RulesetVersion]:
    """The rulesets that verdicts used and whose text was kept, the newest first."""
    return RulesetVersion.objects.filter(text__isnull=False).order_by("-first_used_at")


def tried() -> QuerySet[CandidateRuleset]:
    """The rulesets that were tried and that no verdict used, the newest first."""
    return CandidateRuleset.objects.exclude(digest__in=RulesetVersion.objects.values("digest")).defer("packed")


def _only(found: list[CandidateRuleset]) -> CandidateRuleset:
    if len(found) > 1:
        raise InputError(f"ruleset: several begin so: {found[0]} and {found[1]}")
    return found[0]


def _kept(digest: str, rules: int, layers: list[str], packed: bytes, size: int) -> CandidateRuleset:
    row = CandidateRuleset(digest=digest, rules=rules, layers=layers, packed=packed, size=size)
    CandidateRuleset.objects.bulk_create([row], ignore_conflicts=True)
    return CandidateRuleset.objects.get(pk=digest)


@lru_cache(maxsize=8)
def candidate(digest: str) -> Ruleset:
    """A ruleset that was kept to be tried. Raises NoRuleset."""
    row = CandidateRuleset.objects.filter(pk=digest).first()
    if row is None:
        raise NoRuleset(f"the text of ruleset {digest[:12]} is not there")
    text = zstandard.ZstdDecompressor().decompress(bytes(row.packed), max_output_size=ruleset_text.MOST_BYTES)
    ruleset = ruleset_from(ruleset_text.files_of(text), row.layers)
    if ruleset.digest != digest:
        raise NoRuleset(f"the text that was kept of ruleset {digest[:12]} is not its own")
    return ruleset


@lru_cache(maxsize=16)
def own(version_id: UUID) -> Ruleset | None:
    """The ruleset that verdicts were made with; None where it cannot be had any more."""
    version = RulesetVersion.objects.get(pk=version_id)
    current = conclude.current_ruleset()
    if current.digest == version.digest:
        return current
    try:
        return ruleset_text.ruleset_of(version)
    except RuleError as error:
        log.warning("ruleset %s cannot be used by this version: %s", version.digest, error)
        return None
