"""The ledger as an export, read in pieces: what is held in memory does not grow with it."""

from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

from django.db.models import Max, Min, QuerySet

from recovery.ledger import chain
from recovery.ledger.entries import spelled
from recovery.models import LedgerCheckpoint, LedgerContent, LedgerEntry, LedgerLink

AT_ONCE = 1000


def last_number() -> int:
    """The number of the last entry; 0 where there is none."""
    return LedgerLink.objects.order_by("-number").values_list("number", flat=True).first() or 0


def statement_of(checkpoint: LedgerCheckpoint) -> chain.Statement:
    """What a checkpoint says, as it was signed."""
    return chain.Statement(
        hash=checkpoint.hash,
        made_at=spelled(checkpoint.made_at),
        number=checkpoint.number,
        public_key=checkpoint.public_key,
    )


def bounds(wanted: QuerySet[LedgerEntry]) -> tuple[int, int]:
    """The range of an export of these entries: up to the checkpoint that covers them, where there is one."""
    found = wanted.order_by().aggregate(first=Min("link__number"), last=Max("link__number"))
    if found["first"] is None:
        return last_number() + 1, last_number()
    cover = LedgerCheckpoint.objects.filter(number__gte=found["last"]).order_by("number").first()
    return found["first"], cover.number if cover else found["last"]


def lines(first: int = 1, last: int | None = None, wanted: QuerySet[LedgerEntry] | None = None) -> Iterator[bytes]:
    """The lines of an export from entry `first` to `last`, by default all that there are now.

    Of entries that are not `wanted` only the place is told, so that the chain goes through them.
    """
    until = last_number() if last is None else last
    before = LedgerLink.objects.filter(number=first - 1).values_list("hash", flat=True).first()
    if first < 1 or (first > 1 and before is None):
        raise ValueError(f"the ledger has no entry {first - 1}")
    digest = before or chain.START
    yield chain.header_line(first, digest)
    number, signed = first - 1, 0
    while number < until:
        rows = list(
            LedgerLink.objects.filter(number__gt=number, number__lte=until)
            .select_related("entry")
            .defer("entry__body")
            .order_by("number")[:AT_ONCE]
        )
        if not rows:
            break
        shown = _shown(rows, wanted)
        contents = _contents(rows, shown)
        checkpoints = _checkpoints(rows[0].number, rows[-1].number)
        for row in rows:
            number, digest = row.number, row.hash
            if row.entry_id in shown:
                body = row.entry.body_json.encode()
                yield chain.entry_line(number, row.previous, digest, body, contents.get(row.entry_id, {}))
            else:
                yield chain.sealed_line(number, digest, row.entry.body_sha256)
            for checkpoint in checkpoints.get(number, ()):
                signed += 1
                yield chain.checkpoint_line(statement_of(checkpoint), checkpoint.signature)
    yield chain.end_line(number, digest, signed)


def _shown(rows: list[LedgerLink], wanted: QuerySet[LedgerEntry] | None) -> set[UUID]:
    ids = {row.entry_id for row in rows}
    return ids if wanted is None else set(wanted.filter(pk__in=ids).order_by().values_list("pk", flat=True))


def _contents(rows: list[LedgerLink], shown: set[UUID]) -> dict[UUID, dict[str, chain.Content | None]]:
    found: dict[UUID, dict[str, chain.Content | None]] = defaultdict(dict)
    having = [row.entry_id for row in rows if row.entry_id in shown]
    for content in LedgerContent.objects.filter(entry_id__in=having):
        there = content.erased_at is None
        found[content.entry_id][content.field] = chain.Content(content.salt, content.text) if there else None
    return found


def _checkpoints(first: int, last: int) -> dict[int, list[LedgerCheckpoint]]:
    found: dict[int, list[LedgerCheckpoint]] = defaultdict(list)
    for checkpoint in LedgerCheckpoint.objects.filter(number__range=(first, last)).order_by("number", "made_at"):
        found[checkpoint.number].append(checkpoint)
    return found
