"""The ledger's chain: what is hashed, byte for byte, and whether an export holds what was written.

Pure: no database. The database computes the same hashes (migration `ledger`). The format is in docs/ledger.md.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import BinaryIO, TypeVar

import msgspec

from recovery.ledger.canonical import NotCanonical, canonical

#: What stands before the first entry.
START = "0" * 64
FORMAT = "inquest-ledger-1"
Told = TypeVar("Told")
#: No line of an export is longer: a hostile file must not fill the memory.
MOST_LINE = 32 * 1024 * 1024


def body_hash(body: bytes) -> str:
    """SHA-256 of an entry's canonical JSON, as hex."""
    return sha256(body).hexdigest()


def link_hash(number: int, previous: str, body_sha256: str) -> str:
    """The hash of an entry's place in the chain."""
    return sha256(f"{FORMAT}\n{number}\n{previous}\n{body_sha256}\n".encode()).hexdigest()


def content_hash(salt: str, name: str, text: str) -> str:
    """The salted hash that the chain keeps of text that may be erased. A salt is 64 hex digits."""
    return sha256(f"{salt}\n{name}\n{text}".encode()).hexdigest()


# --- The lines of an export -----------------------------------------------------------------------


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text that is still there, with the salt of its hash."""

    salt: str
    text: str


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry with its place; a content that was erased is null."""

    contents: dict[str, Content | None]
    entry: msgspec.Raw
    hash: str
    number: int
    previous: str


class Sealed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The place of an entry that was left out of the export: the chain goes through it."""

    body_sha256: str
    hash: str
    number: int


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a checkpoint says: how far the chain went at a time. It is signed by the key that it names."""

    hash: str
    made_at: str
    number: int
    public_key: str

    def canonical(self) -> bytes:
        """The statement's bytes as they are signed and exported."""
        return canonical(msgspec.to_builtins(self))


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line: where the export begins."""

    first: int
    format: str
    previous: str


class End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line, without which an export was cut off."""

    checkpoints: int
    hash: str
    number: int


class _SealedLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sealed: Sealed


class _CheckpointLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    checkpoint: Statement
    signature: str


class _EndLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    end: End


class _Body(msgspec.Struct, frozen=True):
    kind: str
    at: str
    actor: str
    erasable: dict[str, str] = {}


def header_line(first: int, previous: str) -> bytes:
    """The first line of an export."""
    return canonical({"first": first, "format": FORMAT, "previous": previous}) + b"\n"


def entry_line(number: int, previous: str, digest: str, body: bytes, contents: dict[str, Content | None]) -> bytes:
    """An entry's line; `body` is its canonical JSON and goes in as it is."""
    texts = canonical(msgspec.to_builtins(contents)) if contents else b"{}"
    return b'{"contents":%s,"entry":%s,"hash":"%s","number":%d,"previous":"%s"}\n' % (
        texts,
        body,
        digest.encode(),
        number,
        previous.encode(),
    )


def sealed_line(number: int, digest: str, body_sha256: str) -> bytes:
    """The line of an entry that is left out."""
    return b'{"sealed":{"body_sha256":"%s","hash":"%s","number":%d}}\n' % (
        body_sha256.encode(),
        digest.encode(),
        number,
    )


def checkpoint_line(statement: Statement, signature: str) -> bytes:
    """A checkpoint's line, in an export as in the checkpoint file."""
    return b'{"checkpoint":%s,"signature":"%s"}\n' % (statement.canonical(), signature.encode())


def end_line(number: int, digest: str, checkpoints: int) -> bytes:
    """The last line of an export."""
    return canonical({"end": {"checkpoints": checkpoints, "hash": digest, "number": number}}) + b"\n"


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, one at a time; one that is too long comes in pieces, which are no lines of an export."""
    while line := file.readline(MOST_LINE):
        yield line


# --- Verifying ------------------------------------------------------------------------------------

#: Whether a signature (hex) by a public key (hex) is right over some bytes; see `recovery.ledger.keys.check`.
Check = Callable[[str, str, bytes], bool]


class Bad(Exception):
    """The first thing that is wrong: `number` is the entry it is about, `line` the line of the file, where known."""

    def __init__(self, why: str, *, number: int | None = None, line: int | None = None) -> None:
        super().__init__(why)
        self.number = number
        self.line = line


@dataclass
class Report:
    """What was found. `signed_to` is the last entry that a right checkpoint covers, `keys` who signed."""

    first: int = 1
    last: int = 0
    hash: str = START
    entries: int = 0
    sealed: int = 0
    erased: int = 0
    checkpoints: int = 0
    from_outside: int = 0
    signed_to: int = 0
    signed_at: str = ""
    keys: set[str] = field(default_factory=set)
    bad: Bad | None = None


#: What a decoder raises for what is no JSON, not of its shape, or nested to exhaust it.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_entry = msgspec.json.Decoder(Entry)
_body = msgspec.json.Decoder(_Body)
_sealed = msgspec.json.Decoder(_SealedLine)
_checkpoint = msgspec.json.Decoder(_CheckpointLine)
_header = msgspec.json.Decoder(Header)
_end = msgspec.json.Decoder(_EndLine)


def verify(
    lines: Iterable[bytes],
    check: Check,
    *,
    keys: Collection[str] = (),
    outside: Iterable[bytes] = (),
) -> Report:
    """Verify an export, line by line, up to the first thing that is wrong; memory does not grow with the export.

    `keys` are the public keys that checkpoints may be signed with; without, any. `outside` are the lines of a
    checkpoint file that was kept elsewhere: they tell of entries cut off at the end and of a history made anew.
    """
    walk = _Walk(check, frozenset(keys), outside)
    try:
        walk.through(lines)
    except Bad as bad:
        walk.report.bad = bad
    except NotCanonical as error:
        walk.report.bad = walk.bad(f"the line is not spelled as an export spells it: {error}")
    return walk.report


class _Walk:
    """The state of verifying: where the chain is, and the next checkpoint from outside."""

    def __init__(self, check: Check, keys: frozenset[str], outside: Iterable[bytes]) -> None:
        self.report = Report()
        self._check, self._keys = check, keys
        self._outside = self._statements(outside)
        self._next: Statement | None = None
        self._line = 0
        self._ended = False

    def through(self, lines: Iterable[bytes]) -> None:
        """Read everything. Raises Bad."""
        self._next = next(self._outside, None)
        for line in lines:
            self._line += 1
            if self._ended:
                raise self.bad("something follows the last line")
            if self._line == 1:
                self._begin(line)
            elif line.startswith(b'{"contents":'):
                self._take(line)
            elif line.startswith(b'{"sealed":'):
                self._pass(line)
            elif line.startswith(b'{"checkpoint":'):
                self._signed(line)
            elif line.startswith(b'{"end":'):
                self._end(line)
            else:
                raise self.bad("this is no line of a ledger's export")
        if not self._line:
            raise Bad("the file is empty")
        if not self._ended:
            raise self.bad("the export was cut off: its last line is missing")
        if self._next is not None:
            statement = self._next
            raise Bad(
                f"entries {self.report.last + 1} to {statement.number} are missing at the end: a checkpoint of"
                f" {statement.made_at} covers them (or this export is older than that)",
                number=self.report.last + 1,
            )

    def bad(self, why: str) -> Bad:
        """What is wrong with the line that was read last."""
        return Bad(why, number=self.report.last + 1, line=self._line)

    def _begin(self, line: bytes) -> None:
        header = self._read(_header, line, "this is no export of a ledger")
        if header.format != FORMAT or header_line(header.first, header.previous) != line:
            raise self.bad(f"the first line is not that of a {FORMAT}")
        if header.first < 1 or (header.first == 1) != (header.previous == START):
            raise self.bad("the first line does not say where the chain begins")
        self.report.first, self.report.last, self.report.hash = header.first, header.first - 1, header.previous
        self._compare_outside()

    def _take(self, line: bytes) -> None:
        entry = self._read(_entry, line, "this is not an entry")
        raw = bytes(entry.entry)
        if entry_line(entry.number, entry.previous, entry.hash, raw, entry.contents) != line:
            raise self.bad("the line is not spelled as an export spells it")
        self._link(entry.number, entry.hash, body_hash(raw), entry.previous)
        told = self._read(_body, raw, "the entry's text is not that of an entry")
        self._contents(entry, told)
        self.report.entries += 1
        self._arrive(entry.number, entry.hash)

    def _pass(self, line: bytes) -> None:
        sealed = self._read(_sealed, line, "this is not the place of an entry").sealed
        if sealed_line(sealed.number, sealed.hash, sealed.body_sha256) != line:
            raise self.bad("the line is not spelled as an export spells it")
        self._link(sealed.number, sealed.hash, sealed.body_sha256, self.report.hash)
        self.report.sealed += 1
        self._arrive(sealed.number, sealed.hash)

    def _link(self, number: int, digest: str, body_sha256: str, previous: str) -> None:
        wanted = self.report.last + 1
        if number > wanted:
            raise self.bad(f"entry {wanted} is missing or was moved: entry {number} stands in its place")
        if number < wanted:
            raise self.bad(f"entry {number} stands where entry {wanted} belongs: it was inserted or moved")
        if previous != self.report.hash:
            raise self.bad("the entry does not follow the one before it: it was inserted, or its `previous` changed")
        if link_hash(number, previous, body_sha256) != digest:
            raise self.bad("the entry was changed: its text and its hash do not agree")

    def _contents(self, entry: Entry, told: _Body) -> None:
        if entry.contents.keys() != told.erasable.keys():
            raise self.bad("the words that may be erased are not those that the entry names")
        for name, content in entry.contents.items():
            if content is None:
                self.report.erased += 1
            elif content_hash(content.salt, name, content.text) != told.erasable[name]:
                raise self.bad(f"the words under {name!r} were changed: the entry has another hash of them")

    def _arrive(self, number: int, digest: str) -> None:
        self.report.last, self.report.hash = number, digest
        self._compare_outside()

    def _signed(self, line: bytes) -> None:
        statement = self._statement(line, self._line, "the checkpoint", self.report.last)
        if statement.number != self.report.last:
            raise self.bad(f"a checkpoint of entry {statement.number} stands after entry {self.report.last}")
        self._compare(statement)
        self.report.checkpoints += 1

    def _end(self, line: bytes) -> None:
        end = self._read(_end, line, "this is no last line").end
        if end_line(end.number, end.hash, end.checkpoints) != line:
            raise self.bad("the line is not spelled as an export spells it")
        if end.number != self.report.last or end.hash != self.report.hash:
            raise self.bad(f"the last line speaks of entry {end.number}, the export ends with {self.report.last}")
        if end.checkpoints != self.report.checkpoints:
            raise self.bad(f"the export has {self.report.checkpoints} checkpoints, its last line {end.checkpoints}")
        self._ended = True

    def _compare_outside(self) -> None:
        """Compare the checkpoints from outside that speak of this entry; earlier ones are not of this export."""
        while self._next is not None and self._next.number <= self.report.last:
            if self._next.number == self.report.last:
                self._compare(self._next)
                self.report.from_outside += 1
            self._next = next(self._outside, None)

    def _compare(self, statement: Statement) -> None:
        if statement.hash != self.report.hash:
            raise Bad(
                f"the history was made anew: the checkpoint of {statement.made_at} has another hash of entry"
                f" {statement.number}; something in entries {max(self.report.signed_to, self.report.first - 1) + 1}"
                f" to {statement.number} is not what was written",
                number=max(self.report.signed_to, self.report.first - 1) + 1,
                line=self._line,
            )
        self.report.signed_to, self.report.signed_at = statement.number, statement.made_at
        self.report.keys.add(statement.public_key)

    def _statement(self, line: bytes, place: int, where: str, number: int | None) -> Statement:
        try:
            told = _checkpoint.decode(line)
        except UNREADABLE as error:
            raise Bad(f"{where} cannot be read: {error}", line=place, number=number) from error
        statement = told.checkpoint
        number = number or statement.number
        if checkpoint_line(statement, told.signature) != line:
            raise Bad(f"{where} is not spelled as an export spells it", line=place, number=number)
        if self._keys and statement.public_key not in self._keys:
            raise Bad(f"{where} is signed with another key", line=place, number=number)
        if not self._check(statement.public_key, told.signature, statement.canonical()):
            raise Bad(f"{where} has a wrong signature", line=place, number=number)
        return statement

    def _statements(self, lines: Iterable[bytes]) -> Iterator[Statement]:
        last = 0
        for place, line in enumerate(lines, 1):
            where = f"line {place} of the checkpoint file"
            statement = self._statement(line, place, where, None)
            if statement.number < last:
                raise Bad(f"{where} is out of its order", line=place, number=statement.number)
            last = statement.number
            yield statement

    def _read(self, decoder: "msgspec.json.Decoder[Told]", line: bytes, why: str) -> Told:
        try:
            return decoder.decode(line)
        except UNREADABLE as error:
            raise self.bad(f"{why}: {error}") from error
