"""Reading and verifying a record anywhere: no database, no network, and bounded memory whatever the file is.

Nothing of a record is used before the whole of it was verified.
"""

import io
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import BinaryIO, TypeVar

import msgspec

from recovery.ledger import chain
from recovery.ledger import keys as ledger_keys
from recovery.record import bag, beside
from recovery.record.bag import Signature
from recovery.record.container import DAMAGED, MOST_BYTES, BadRecord, blocks, check_container, lines, whole
from recovery.record.mark import BASE, DECLARATION
from verdicts.upload.unpack import Refused, check_entry, in_words, said

#: A tag file, and a file of the payload that is read at once.
MOST_TAG, MOST_WHOLE = 64 << 20, 64 << 20
#: Deflate cannot do more: what claims to unpack to more than so many times its size lies.
MOST_RATIO = 1100

_BASE = re.compile(re.escape(BASE) + r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9]+)?(/[a-z0-9][a-z0-9_-]*(\.[a-z0-9]+)?){0,3}")
_LINE = re.compile(r"([0-9a-f]{64})  ([!-~]+)")
Told = TypeVar("Told")


class VerdictOf(msgspec.Struct, frozen=True):
    """A line of `verdicts.json`: a version of the verdict; its text is `verdicts/NUMBER.json`.

    Where what it quotes had expired, `sha256` is that of what was issued and `left_sha256` that of what is left.
    """

    id: str
    number: int
    sha256: str
    current: bool
    mode: str
    engine: str
    generation: int
    ruleset: str
    layers: list[str]
    created_at: str
    left_sha256: str = ""


class Missing(msgspec.Struct, frozen=True):
    """A line of `missing.json`: an input that is not there, or not whole."""

    input: str
    said: str


class About(msgspec.Struct, frozen=True):
    """The file `about.json`: which attempt it is, and the state of its evidence."""

    attempt: str
    generation: int
    cluster: str
    job_id: str
    created_at: str


@dataclass
class Report:
    """What was found. `payload` is the hash of the manifest: one state of an attempt has one.

    `covered` says that a checkpoint covers the whole ledger extract, `beside` what was read beside the file.
    """

    attempt: str
    public_key: str
    payload: str
    info: dict[str, str]
    files: int = 0
    bytes: int = 0
    verdicts: int = 0
    in_ledger: int = 0
    entries: int = 0
    erased: int = 0
    covered: bool = True
    sealed: bool = True
    missing: list[Missing] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)


class Record:
    """A record that was verified; it is read while its file is open."""

    def __init__(self, archive: zipfile.ZipFile, base: str, report: Report, near: Mapping[str, bytes]) -> None:
        self._zip, self._base, self._near = archive, base, near
        self.report = report
        self.about = self.read("about.json", About)
        self.verdicts = self.read("verdicts.json", list[VerdictOf])

    def names(self, folder: str) -> list[str]:
        """The files of the payload below a folder, in order."""
        start = f"{self._base}/data/"
        found = (entry.filename.removeprefix(start) for entry in self._zip.infolist())
        return sorted(name for name in found if name.startswith(f"{folder}/"))

    def has(self, name: str) -> bool:
        """Whether the payload has a file."""
        return name in self._near or f"{self._base}/data/{name}" in self._zip.NameToInfo

    def whole(self, name: str) -> bytes:
        """A file of the payload. Raises BadRecord."""
        return whole(self._zip, f"{self._base}/data/{name}", MOST_WHOLE)

    def lines(self, name: str) -> Iterator[bytes]:
        """A file of the payload by its lines, one in memory at a time. Raises BadRecord."""
        if name in self._near:
            return iter(io.BytesIO(self._near[name]))
        return lines(self._zip, f"{self._base}/data/{name}")

    def read(self, name: str, kind: type[Told]) -> Told:
        """A file of the payload as what it holds. Raises BadRecord."""
        return _decoded(self.whole(name), kind, name)

    def rows(self, name: str, kind: type[Told]) -> Iterator[Told]:
        """The lines of a file as what they hold. Raises BadRecord."""
        decoder = msgspec.json.Decoder(kind)
        for number, line in enumerate(self.lines(name), 1):
            try:
                yield decoder.decode(line)
            except chain.UNREADABLE as error:
                raise BadRecord(f"{name}, line {number}, cannot be read: {error}") from error

    def body(self, verdict: VerdictOf) -> bytes:
        """A verdict's canonical JSON, byte for byte."""
        return self.whole(f"verdicts/{verdict.number:04}.json")


def open_record(file: BinaryIO, keys: Collection[str] = (), near: beside.Finder = beside.nowhere) -> Record:
    """Verify a record and open it. `keys` are the public keys that may have signed it; without, any.

    `near` gives what lies beside a record of an export whose records share their rulesets.
    Raises BadRecord with the first thing that is wrong.
    """
    try:
        return _Reading(file, frozenset(keys), near).record()
    except Refused as error:
        raise BadRecord(str(error)) from error
    except DAMAGED as error:
        raise BadRecord(f"the file is damaged or no record: {error}") from error


class _Reading:
    """The steps of verifying: container, signature, checksums, ledger, and whether the parts agree."""

    def __init__(self, file: BinaryIO, keys: frozenset[str], near: beside.Finder) -> None:
        self._keys, self._find = keys, near
        self._near: dict[str, bytes] = {}
        self._absent: list[str] = []
        self._fetch: dict[str, int] = {}
        sealed = check_container(file)
        self._zip = zipfile.ZipFile(file)
        self._base, self._entries = self._listed()
        signature, tagged = self._signature()
        info = self._tags(tagged)
        self.report = Report(
            attempt=self._base.removeprefix(BASE),
            public_key=signature.public_key,
            payload=sha256(self._tag(bag.MANIFEST)).hexdigest(),
            info=info,
            sealed=sealed,
        )

    def record(self) -> Record:
        """The record, if all is as it was written. Raises BadRecord."""
        self._payload()
        record = Record(self._zip, self._base, self.report, self._near)
        if record.about.attempt != self.report.attempt:
            raise BadRecord("the parts are of different attempts")
        self._agree(record, self._ledger(record))
        if self._absent:
            raise BadRecord(
                f"{', '.join(self._absent)} is not beside the record: all else is as it was written. Take the folder"
                f" {beside.FOLDER} of the export that the record comes from, or the record of this attempt alone"
            )
        self.report.missing = record.read("missing.json", list[Missing])
        return record

    # --- The container --------------------------------------------------------------------------

    def _listed(self) -> tuple[str, dict[str, zipfile.ZipInfo]]:
        """The files by their names within the bag; what is no plain file with a plain name is refused."""
        bases: set[str] = set()
        entries: dict[str, zipfile.ZipInfo] = {}
        promised = 0
        for entry in self._zip.infolist():
            check_entry(entry)
            base, _, name = entry.filename.partition("/")
            if _BASE.fullmatch(base) is None or _NAME.fullmatch(name) is None or len(name) > 200:
                raise BadRecord(f"{said(entry.filename)} is no file of a record")
            if name in entries:
                raise BadRecord(f"{said(name)} is there twice")
            promised += entry.file_size
            if promised > MOST_BYTES or entry.file_size > MOST_RATIO * entry.compress_size + 1024:
                raise BadRecord(f"{said(name)} would unpack to {in_words(entry.file_size)}: no record has that")
            bases.add(base)
            entries[name] = entry
        if len(bases) != 1:
            raise BadRecord("it is no record: it has not one folder")
        return bases.pop(), entries

    def _tag(self, name: str) -> bytes:
        if name not in self._entries:
            raise BadRecord(f"{name} is missing")
        return whole(self._zip, f"{self._base}/{name}", MOST_TAG)

    def _signature(self) -> tuple[Signature, bytes]:
        if self._tag(DECLARATION) != bag.BAGIT:
            raise BadRecord("it is no bag of the version that records are")
        signature = _decoded(self._tag(bag.SIGNATURE), Signature, bag.SIGNATURE)
        tagged = self._tag(bag.TAGMANIFEST)
        if (signature.algorithm, signature.signed) != ("Ed25519", bag.TAGMANIFEST):
            raise BadRecord("it is signed in a way that is not known")
        if self._keys and signature.public_key not in self._keys:
            raise BadRecord(
                f"it is signed with another key ({signature.public_key}) than those given: it was signed again by"
                " somebody else, or comes from another site"
            )
        if not ledger_keys.check(signature.public_key, signature.signature, tagged):
            raise BadRecord("the signature is wrong: the record was changed after it was signed")
        return signature, tagged

    # --- Checksums --------------------------------------------------------------------------------

    def _tags(self, tagged: bytes) -> dict[str, str]:
        told = _manifest(tagged, bag.TAGMANIFEST)
        if set(told) - {bag.FETCH} != set(bag.TAGS):
            raise BadRecord(f"{bag.TAGMANIFEST} does not name the files that it should")
        for name in told:
            if sha256(self._tag(name)).hexdigest() != told[name]:
                raise BadRecord(f"{name} was changed")
        info: dict[str, str] = {}
        for line in _text(self._tag(bag.INFO), bag.INFO).splitlines():
            label, colon, value = line.partition(": ")
            if not colon or label in info:
                raise BadRecord(f"{bag.INFO} cannot be read")
            info[label] = value
        if info.get("Inquest-Schema") not in (bag.SCHEMA, bag.SHARED):
            raise BadRecord(
                f"it is of the schema {info.get('Inquest-Schema')}: this program reads {bag.SCHEMA} and {bag.SHARED}"
            )
        if (info["Inquest-Schema"] == bag.SHARED) != (bag.FETCH in told):
            raise BadRecord(f"{bag.FETCH} does not agree with the schema")
        if bag.FETCH in told:
            try:
                self._fetch = bag.fetched(self._tag(bag.FETCH))
            except ValueError as error:
                raise BadRecord(f"{bag.FETCH} cannot be read") from error
        return info

    def _payload(self) -> None:
        told = _manifest(self._tag(bag.MANIFEST), bag.MANIFEST)
        there = {name for name in self._entries if name.startswith("data/")}
        known = {
            *bag.TAGS,
            bag.SIGNATURE,
            bag.TAGMANIFEST,
            *([bag.FETCH] if self.report.info["Inquest-Schema"] == bag.SHARED else []),
        }
        for name in self._entries:
            if name not in there | known:
                raise BadRecord(f"{said(name)} is no part of a record: it was put in")
        for name in sorted({*told, *there, *self._fetch}):
            if name not in there and name not in self._fetch:
                raise BadRecord(f"{said(name)} is missing")
            if name not in told:
                raise BadRecord(f"{said(name)} was put in: the manifest does not name it")
        size = sum(self._entries[name].file_size if name in there else self._fetch[name] for name in told)
        if self.report.info.get("Payload-Oxum") != f"{size}.{len(told)}":
            raise BadRecord("the payload has not the size that it had")
        for name in sorted(told):
            if name not in there:
                self._beside(name.removeprefix("data/"), told[name])
                continue
            digest = sha256()
            for block in blocks(self._zip, f"{self._base}/{name}"):
                digest.update(block)
                self.report.bytes += len(block)
            if digest.hexdigest() != told[name]:
                raise BadRecord(f"{name} was changed")
            self.report.files += 1

    def _beside(self, name: str, digest: str) -> None:
        content = self._find(name)
        if content is None:
            self._absent.append(name)
            return
        if sha256(content).hexdigest() != digest:
            raise BadRecord(f"{name}, beside the record, is not what the record was made with")
        self._near[name] = content
        self.report.beside.append(name)
        self.report.bytes += len(content)
        self.report.files += 1

    # --- The ledger, and whether the parts agree --------------------------------------------------

    def _ledger(self, record: Record) -> dict[str, str]:
        """Verify each piece of the ledger; the hashes that it has of verdicts, by verdict."""
        issued: dict[str, str] = {}
        known = {verdict.id for verdict in record.verdicts}
        for name in record.names("ledger"):
            told = _remembering(record.lines(name), known, issued)
            report = chain.verify(told, ledger_keys.check, keys=self._keys)
            if report.bad is not None:
                number = f"entry {report.bad.number}" if report.bad.number else "the beginning"
                raise BadRecord(f"the ledger's extract {name} is not as it was written, {number}: {report.bad}")
            others = report.keys - {self.report.public_key}
            if others and not self._keys:
                raise BadRecord(
                    f"its ledger is signed with {others.pop()}, the record with {self.report.public_key}: it was signed"
                    " again by somebody else. Where a site changed its key, give both with --public-key"
                )
            self.report.entries += report.entries
            self.report.erased += report.erased
            self.report.covered = self.report.covered and report.signed_to == report.last
        return issued

    def _agree(self, record: Record, issued: dict[str, str]) -> None:
        """Whether each verdict is the one that is told of."""
        if [verdict.number for verdict in record.verdicts] != list(range(1, len(record.verdicts) + 1)):
            raise BadRecord("a version of the verdict is missing")
        for verdict in record.verdicts:
            if sha256(record.body(verdict)).hexdigest() != (verdict.left_sha256 or verdict.sha256):
                raise BadRecord(f"verdict {verdict.number} is not the one that is told of")
            if verdict.id in issued and issued[verdict.id] != verdict.sha256:
                raise BadRecord(f"verdict {verdict.number} is not the one that the ledger says was issued")
            self.report.in_ledger += verdict.id in issued
        self.report.verdicts = len(record.verdicts)


class _Facts(msgspec.Struct, frozen=True):
    sha256: str = ""


class _Subject(msgspec.Struct, frozen=True):
    id: str


class _Issued(msgspec.Struct, frozen=True):
    kind: str
    subject: _Subject
    facts: _Facts


class _EntryLine(msgspec.Struct, frozen=True):
    entry: msgspec.Raw


_WORD = b'"kind":"verdict.issued"'


def _remembering(lines: Iterator[bytes], known: Collection[str], issued: dict[str, str]) -> Iterator[bytes]:
    """The lines; what they say of verdicts that are in the record is kept on the way."""
    for line in lines:
        yield line
        if line.startswith(b'{"contents":') and _WORD in line:
            # The line was verified when the next one is asked for.
            entry = _decoded(bytes(_decoded(line, _EntryLine, "an entry").entry), _Issued, "an entry of a verdict")
            if entry.kind == "verdict.issued" and entry.subject.id in known:
                issued[entry.subject.id] = entry.facts.sha256


def _manifest(raw: bytes, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _text(raw, name).splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise BadRecord(f"{name} cannot be read")
        found[match[2]] = match[1]
    if bag.manifest(found) != raw:
        raise BadRecord(f"{name} is not spelled as a record spells it")
    return found


def _text(raw: bytes, name: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise BadRecord(f"{name} is no text") from error


def _decoded(raw: bytes, kind: type[Told], name: str) -> Told:
    try:
        return msgspec.json.decode(raw, type=kind)
    except chain.UNREADABLE as error:
        raise BadRecord(f"{name} cannot be read: {error}") from error
