"""Reads of the ledger for pages, API and metrics."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.urls import NoReverseMatch, reverse

from recovery.ledger import chain, keys
from recovery.ledger.export import statement_of
from recovery.models import LedgerCheckpoint, LedgerContent, LedgerEntry, LedgerLink
from recovery.words import EntryKind
from verdicts.listing.keyset import MOST_COUNTED, CursorError

#: Links between an entry and the checkpoint that covers it, walked while a page waits.
MOST_WALKED = 10_000
_CURSOR = re.compile(r"([ab])([0-9]{1,18})")
_NAMELESS = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: A moment as entries have it: to the microsecond, in UTC.
_MOMENT = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)T(?P<time>\d\d:\d\d)(?::\d\d(?:\.\d{1,6})?)?Z")


@dataclass(frozen=True)
class Page:
    """Some entries with their places. `next` and `previous` are cursors; `count` is of all that match, up to a cap."""

    rows: list[LedgerEntry]
    count: int
    more: bool
    next: str
    previous: str


def page(rows: QuerySet[LedgerEntry], *, size: int, cursor: str = "", descending: bool = True) -> Page:
    """A page of entries by number. Raises CursorError for a cursor that is none."""
    backwards, bound = False, 0
    if cursor:
        told = _CURSOR.fullmatch(cursor)
        if told is None:
            raise CursorError("a cursor is taken from an answer, not made")
        backwards, bound = told[1] == "b", int(told[2])
    down = descending != backwards
    # An entry that can be seen has its place; said, so that the database may begin with the places.
    found = rows.filter(link__isnull=False).select_related("link").defer("body_json")
    if cursor:
        found = found.filter(**{f"link__number__{'lt' if down else 'gt'}": bound})
    some = list(found.order_by("-link__number" if down else "link__number")[: size + 1])
    beyond, some = len(some) > size, some[:size]
    if backwards:
        some.reverse()
    after, before = (True, beyond) if backwards else (beyond, bool(cursor))
    seen = rows.order_by().values("pk")[: MOST_COUNTED + 1].count()
    return Page(
        rows=some,
        count=min(seen, MOST_COUNTED),
        more=seen > MOST_COUNTED,
        next=f"a{some[-1].link.number}" if some and after else "",
        previous=f"b{some[0].link.number}" if some and before else "",
    )


def contents_of(entries: Iterable[LedgerEntry]) -> dict[Any, list[LedgerContent]]:
    """What people said in their own words, by entry."""
    found: dict[Any, list[LedgerContent]] = {}
    for content in LedgerContent.objects.filter(entry__in=list(entries)).order_by("id"):
        found.setdefault(content.entry_id, []).append(content)
    return found


# --- Proof ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proof:
    """Whether an entry is what was written, as far as this database can tell.

    `wrong` is what is not as it should be. `checkpoint` is the first that covers the entry; `walked` is how many places
    lie between the two and were verified, None where they are too many for a page.
    """

    wrong: list[str]
    checkpoint: LedgerCheckpoint | None
    walked: int | None


def proof_of(entry: LedgerEntry) -> Proof:
    """Verify an entry, its words, its place and the way to the checkpoint that covers it."""
    link = entry.link
    wrong = _own(entry, link)
    checkpoint = LedgerCheckpoint.objects.filter(number__gte=link.number).order_by("number", "made_at").first()
    if checkpoint is None:
        return Proof(wrong, None, None)
    statement = statement_of(checkpoint)
    if not keys.check(checkpoint.public_key, checkpoint.signature, statement.canonical()):
        wrong.append(f"The checkpoint of entry {checkpoint.number} has a wrong signature.")
    if checkpoint.number - link.number > MOST_WALKED:
        return Proof(wrong, checkpoint, None)
    if (broken := first_broken(link.number, link.hash, checkpoint.number)) is not None:
        wrong.append(f"The chain is broken at entry {broken}.")
    elif not LedgerLink.objects.filter(number=checkpoint.number, hash=checkpoint.hash).exists():
        wrong.append(f"The checkpoint of entry {checkpoint.number} has another hash.")
    return Proof(wrong, checkpoint, checkpoint.number - link.number)


def first_broken(number: int, digest: str, last: int) -> int | None:
    """The first entry after `number`, whose hash is `digest`, that does not follow up to `last`; None if all do."""
    rows = LedgerLink.objects.filter(number__gt=number, number__lte=last).order_by("number")
    for at, previous, found, body in rows.values_list("number", "previous", "hash", "entry__body_json").iterator():
        number += 1
        digest_of = chain.body_hash((body or "").encode())
        if at != number or previous != digest or chain.link_hash(at, previous, digest_of) != found:
            return number
        digest = found
    return None if number == last else number + 1


def _own(entry: LedgerEntry, link: LedgerLink) -> list[str]:
    wrong = []
    digest = chain.body_hash(entry.body_json.encode())
    if digest != entry.body_sha256 or chain.link_hash(link.number, link.previous, digest) != link.hash:
        wrong.append("The entry's text and its hash do not agree.")
    before = LedgerLink.objects.filter(number=link.number - 1).values_list("hash", flat=True).first()
    if (before or chain.START) != link.previous:
        wrong.append("The entry does not follow the one before it.")
    named = entry.body.get("erasable", {})
    texts = {content.field: content for content in LedgerContent.objects.filter(entry=entry)}
    if texts.keys() != named.keys():
        wrong.append("The words that may be erased are not those that the entry names.")
    for name, content in texts.items():
        if content.erased_at is None and chain.content_hash(content.salt, name, content.text) != named.get(name):
            wrong.append(f"The words under “{name}” are not those that were written.")
    return wrong


# --- What an entry is about -----------------------------------------------------------------------

_PAGES = {
    "verdict": "verdicts:detail",
    "attempt": "verdicts:attempt",
    "drill": "recovery:drill",
    "proposal": "recovery:proposal",
    "exportbatch": "recovery:batch",
    "importedrecord": "verdicts:attempt",
}
_LISTS = {
    "exclusion": "recovery:exclusions",
    "incident": "recovery:incidents",
    "brake": "recovery:brakes",
    "veto": "recovery:brakes",
    "policy": "recovery:policies",
    "policyversion": "recovery:policies",
    "scope": "recovery:policies",
    "promotion": "recovery:policies",
    "sourcestate": "verdicts:sources",
}


def page_about(kind: str, subject: str, facts: dict[str, Any]) -> str:
    """The page of what an entry is about, or the list that it is in; empty where there is none."""
    if kind == "review":
        kind, subject = "verdict", str(facts.get("verdict", ""))
    try:
        if kind in _PAGES:
            return reverse(_PAGES[kind], args=[subject])
        return reverse(_LISTS[kind]) if kind in _LISTS else ""
    except NoReverseMatch:  # an id of another form than the page's
        return ""


def gist(facts: dict[str, Any], most: int = 4) -> str:
    """A few of the facts in a line: what is not nested, and no hash or id."""
    said = [
        f"{name.replace('_', ' ')} {', '.join(map(_shown, value[:3] if isinstance(value, list) else [value]))}"
        for name, value in facts.items()
        if name != "sha256" and value not in ("", None, []) and not isinstance(value, dict) and _plain(value)
    ]
    return "; ".join(said[:most])


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and (moment := _MOMENT.fullmatch(value)):
        return f"{moment['day']} {moment['time']}Z"
    return str(value)


def _plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str | int) for item in value)
    return not (isinstance(value, str) and _NAMELESS.fullmatch(value))


# --- Figures --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """How far the ledger goes, up to where it is signed, and since when signing fails, by what."""

    entries: int
    signed: int
    signed_at: datetime | None
    failures: dict[str, datetime]


def standing() -> Standing:
    """The ledger in figures, for its page and the metrics."""
    last = LedgerLink.objects.order_by("-number").values_list("number", flat=True).first()
    latest = LedgerCheckpoint.objects.order_by("-number", "-made_at").first()
    failed = LedgerEntry.objects.filter(kind=EntryKind.CHECKPOINT_FAILED.value)
    latest_of = failed.order_by("subject", "-at").distinct("subject").values_list("subject", "at")
    return Standing(last or 0, latest.number if latest else 0, latest.made_at if latest else None, dict(latest_of))
