"""The file of a record: a bag (RFC 8493) in a zip, signed. Pure: no database.

The same content gives the same bytes: times in the zip are fixed, and files come in the order in which they are named
here. The format is in docs/records.md.
"""

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import BinaryIO, Self

import msgspec

from recovery.record.mark import BASE, DECLARATION

#: A record that has everything in it, and one of an export whose records share their rulesets, which lie beside them.
SCHEMA, SHARED = "inquest.record/1", "inquest.record/2"
BAGIT = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
MANIFEST, TAGMANIFEST, SIGNATURE = "manifest-sha256.txt", "tagmanifest-sha256.txt", "signature.json"
INFO, PAGE = "bag-info.txt", "index.html"
#: The tag files that the tag manifest names; the signature is over the tag manifest.
TAGS = (INFO, DECLARATION, PAGE, MANIFEST)
#: Of a record of an export one more: the files of the payload that lie beside it, each with its length.
FETCH = "fetch.txt"
_FETCH = re.compile(r"(rulesets/[0-9a-f]{64}\.jsonl) ([0-9]{1,10}) data/\1")
#: The zip's comment ends with the SHA-256 of all that is before it.
SEAL = b"inquest-record-1 sha256="
SEALED = len(SEAL) + 64
#: The least that a zip can say.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_BLOCK = 1 << 20

#: Gives the public key and the signature, as hex, of some bytes.
Sign = Callable[[bytes], tuple[str, str]]


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file `signature.json`: whose signature it is, and over what."""

    algorithm: str
    public_key: str
    signature: str
    signed: str


class BagWriter:
    """Writes a record into a file that can be read and written anywhere; what is added is not kept in memory.

    One that `shares` may have files beside it.
    """

    def __init__(self, out: BinaryIO, name: str, *, shares: bool = False) -> None:
        self._out, self._base = out, BASE + name
        # No file needs zip64: what is larger than two gigabytes is told by an error, not written.
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, allowZip64=False)
        self._payload: dict[str, str] = {}
        self._tags: dict[str, str] = {}
        self._fetch: list[str] | None = [] if shares else None
        self._bytes = 0
        self._tag(DECLARATION, BAGIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        # Of a record that was not finished the zip is ended all the same: it writes at its end, into a file still open.
        self._zip.close()

    def add(self, name: str, blocks: Iterable[bytes]) -> int:
        """Add a file of the payload, in pieces; says how many bytes it has."""
        place = f"data/{name}"
        if place in self._payload:
            raise ValueError(f"{place} is there already")
        self._payload[place], size = self._write(place, blocks)
        self._bytes += size
        return size

    def beside(self, name: str, content: bytes) -> None:
        """Name a file of the payload that lies beside the record."""
        if self._fetch is None:
            raise ValueError("this record has everything in it")
        self._payload[f"data/{name}"] = sha256(content).hexdigest()
        self._fetch.append(f"{name} {len(content)} data/{name}\n")
        self._bytes += len(content)

    def close(self, info: Iterable[tuple[str, str]], page: bytes, sign: Sign) -> None:
        """Write what describes the payload, sign it, and seal the file."""
        oxum = ("Payload-Oxum", f"{self._bytes}.{len(self._payload)}")
        self._tag(INFO, "".join(f"{name}: {value}\n" for name, value in (*info, oxum)).encode())
        self._tag(PAGE, page)
        self._tag(MANIFEST, manifest(self._payload))
        if self._fetch is not None:
            self._tag(FETCH, "".join(sorted(self._fetch)).encode())
        tagged = manifest(self._tags)
        self._write(TAGMANIFEST, [tagged])
        key, signature = sign(tagged)
        told = Signature(algorithm="Ed25519", public_key=key, signature=signature, signed=TAGMANIFEST)
        self._write(SIGNATURE, [msgspec.json.encode(told, order="sorted") + b"\n"])
        seal(self._zip, self._out)

    def _tag(self, name: str, content: bytes) -> None:
        self._tags[name], _ = self._write(name, [content])

    def _write(self, name: str, blocks: Iterable[bytes]) -> tuple[str, int]:
        digest, size = sha256(), 0
        with self._zip.open(entry_of(f"{self._base}/{name}"), "w") as file:
            for block in _gathered(blocks):
                digest.update(block)
                size += len(block)
                file.write(block)
        return digest.hexdigest(), size


def entry_of(name: str) -> zipfile.ZipInfo:
    """A file's entry in the zip: it says nothing but its name."""
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
    return entry


def seal(archive: zipfile.ZipFile, out: BinaryIO) -> None:
    """End the zip, with the checksum of all that is before it as its comment's end."""
    archive.comment = SEAL + b"0" * 64
    archive.close()
    end = out.seek(0, 2)
    digest = digest_of(out, end - 64)
    out.seek(end - 64)
    out.write(digest.encode())
    out.seek(0)


def fetched(raw: bytes) -> dict[str, int]:
    """The files of the payload that lie beside a record, with their lengths. Raises ValueError."""
    found = {}
    for line in raw.decode("ascii").splitlines():
        match = _FETCH.fullmatch(line)
        if match is None:
            raise ValueError(f"{FETCH} cannot be read")
        found[f"data/{match[1]}"] = int(match[2])
    return found


def _gathered(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces: a line at a time takes several times as long."""
    held: list[bytes] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size >= _BLOCK:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def manifest(digests: dict[str, str]) -> bytes:
    """A manifest's bytes: a line for each file, sorted by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()


def digest_of(file: BinaryIO, size: int) -> str:
    """SHA-256 of the first `size` bytes of a file."""
    file.seek(0)
    digest = sha256()
    while size and (block := file.read(min(_BLOCK, size))):
        digest.update(block)
        size -= len(block)
    return digest.hexdigest()
