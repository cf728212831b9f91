"""An uploaded archive into a folder, within limits: what a hostile one tries is refused with the reason.

Nothing is written outside the folder, no more than the limits allow, and only plain files. An archive is
refused whole: half an incident would be read as one whose other sources were silent.
"""

import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import zstandard

from rules.attempt import InputError
from rules.incident import shown
from verdicts.upload import tar

BLOCK = 1 << 18
#: The list at the end of a zip is read whole into memory: so much a file is more than enough for names and fields.
ZIP_ENTRY_BYTES = 600
#: How much memory a zstd frame may ask for its window.
ZSTD_WINDOW = 1 << 27
ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst")
_ARCHIVES = (*ENDINGS, ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".7z", ".rar", ".jar")


class Refused(InputError):
    """An upload that is not taken, and why."""


@dataclass(frozen=True)
class Limits:
    """What one upload may unpack to."""

    total: int
    file: int
    files: int
    depth: int = 20
    name: int = 900


@dataclass
class _Room:
    """What has been written so far, and where."""

    folder: Path
    limits: Limits
    files: int = 0
    entries: int = 0
    total: int = 0
    seen: set[str] = field(default_factory=set)

    def entry(self) -> None:
        """Count a file or a folder."""
        self.entries += 1
        if self.entries > 2 * self.limits.files:
            raise Refused(f"the archive has more than {self.limits.files:,} files")

    def write(self, name: str, promised: int, blocks: Iterator[bytes]) -> None:
        """Write one file, believing neither its name nor the size that the archive says."""
        path = self._place(name)
        if path is None:
            return
        self.files += 1
        if self.files > self.limits.files:
            raise Refused(f"the archive has more than {self.limits.files:,} files")
        self._room_for(name, promised, self.total + promised)
        size = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # "x": a second file of the same name never overwrites the first.
            with open(path, "xb") as out:
                for block in blocks:
                    size += len(block)
                    self.total += len(block)
                    self._room_for(name, size, self.total)
                    out.write(block)
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            raise Refused(f"the archive has {said(name)} twice, or as a file and as a folder") from error

    def _room_for(self, name: str, size: int, total: int) -> None:
        if size > self.limits.file:
            raise Refused(f"{said(name)} is larger than {in_words(self.limits.file)} unpacked")
        if total > self.limits.total:
            raise Refused(f"the archive is larger than {in_words(self.limits.total)} unpacked")

    def _place(self, name: str) -> Path | None:
        """Where a file goes; None for what packers add by themselves."""
        if len(name) > self.limits.name or "\0" in name:
            raise Refused(f"a name in the archive is no name of a file: {said(name)}")
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if not parts or parts[0] == "/" or ".." in parts or parts[0].endswith(":"):
            raise Refused(f"{said(name)} leads out of the archive")
        if len(parts) > self.limits.depth or any(len(os.fsencode(part)) > 255 for part in parts):
            raise Refused(f"{said(name)} lies too deep or has too long a name")
        if parts[0] == "__MACOSX":
            return None
        if parts[-1].lower().endswith(_ARCHIVES):
            raise Refused(f"{said(name)} is an archive inside the archive: pack what is in it instead")
        return self.folder.joinpath(*parts)


def is_archive(name: str) -> bool:
    """Whether a file is an archive by its name; those of kinds that are not taken are refused when unpacked."""
    return name.lower().endswith(_ARCHIVES)


def unpack(archive: BinaryIO, name: str, folder: Path, limits: Limits) -> int:
    """Unpack an archive into a folder that is there; says how many files. Raises Refused."""
    lowered = name.lower()
    room = _Room(folder, limits)
    try:
        if lowered.endswith(".zip"):
            _zip(archive, room)
        elif lowered.endswith(".tar"):
            _tar(archive, room)
        elif lowered.endswith((".tar.gz", ".tgz")):
            _tar(_Blocks(_gunzipped(archive)), room)
        elif lowered.endswith(".tar.zst"):
            whole = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).stream_reader(archive)
            _tar(_Blocks(iter(lambda: whole.read(BLOCK), b"")), room)
        else:
            raise Refused(f"{said(name)} is of a kind that is not taken: pack it as {', '.join(ENDINGS)}")
    except (zipfile.BadZipFile, zlib.error, zstandard.ZstdError, EOFError, NotImplementedError, UnicodeError) as error:
        raise Refused(f"{said(name)} is damaged or not what its name says: {error}") from error
    except tar.Bad as error:
        raise Refused(f"{said(name)}: {error}") from error
    if not room.files:
        raise Refused(f"{said(name)} has no file in it")
    return room.files


def said(name: str) -> str:
    """A name out of an archive for a sentence."""
    text = shown(name)
    return text if len(text) <= 120 else "…" + text[-119:]


def in_words(size: int) -> str:
    """A size with its unit."""
    return f"{size / (1 << 20):,.0f} MiB" if size >= 1 << 20 else f"{size:,} bytes"


# --- zip ----------------------------------------------------------------------------------------


def _zip(file: BinaryIO, room: _Room) -> None:
    check_list(file, room.limits)
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            room.entry()
            if entry.is_dir():
                continue
            check_entry(entry)
            with archive.open(entry) as data:
                room.write(entry.filename, entry.file_size, iter(lambda: data.read(BLOCK), b""))


def check_entry(entry: zipfile.ZipInfo) -> None:
    """Refuse what is in a zip and is no plain file, or cannot be read within bounds."""
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
        raise Refused(f"{said(entry.filename)} is a link or a device: pack the file itself")
    if entry.header_offset < 0:
        raise zipfile.BadZipFile(f"{said(entry.filename)} would begin before the archive")
    if entry.flag_bits & 1:
        raise Refused(f"{said(entry.filename)} is encrypted")
    # The other methods may ask for gigabytes of memory by a number in the archive.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Refused(f"{said(entry.filename)} is compressed in a way that is not taken: use deflate")


def check_list(file: BinaryIO, limits: Limits) -> None:
    """Refuse a zip whose list of files is too long, before `zipfile` reads that list into memory."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(max(0, size - (1 << 16) - 22 - 20))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + 22:
        raise zipfile.BadZipFile("it has no list of its files")
    if tail.rfind(b"PK\6\7") >= 0:
        raise Refused("the zip has the list of a very large archive (zip64): pack less, or as .tar.gz")
    number = int.from_bytes(tail[at + 10 : at + 12], "little")
    length = int.from_bytes(tail[at + 12 : at + 16], "little")
    if number > 2 * limits.files or length > ZIP_ENTRY_BYTES * limits.files:
        raise Refused(f"the archive has more than {limits.files:,} files")
    file.seek(0)


# --- tar ----------------------------------------------------------------------------------------


def _tar(file: "BinaryIO | _Blocks", room: _Room) -> None:
    for entry in tar.entries(file.read):
        room.entry()
        if entry.kind == "file":
            room.write(entry.name, entry.size, entry.blocks(BLOCK))
        elif entry.kind != "folder":
            raise Refused(f"{said(entry.name)} is {entry.kind}: pack the file itself (tar --dereference)")


class _Blocks:
    """Blocks of any size, read like a file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._left = b""

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end."""
        got = [self._left]
        have = len(self._left)
        while have < size and (block := next(self._blocks, b"")):
            got.append(block)
            have += len(block)
        whole = b"".join(got)
        self._left = whole[size:]
        return whole[:size]


def _gunzipped(file: BinaryIO) -> Iterator[bytes]:
    """The content of a gzip file of one or more members, never more than a block at a time."""
    data = file.read(BLOCK)
    while data:
        inflater = zlib.decompressobj(wbits=31)
        while not inflater.eof:
            if block := inflater.decompress(data, BLOCK):
                yield block
            data = inflater.unconsumed_tail or (inflater.unused_data if inflater.eof else file.read(BLOCK))
            if not data and not inflater.eof:
                raise EOFError("it ends too early")
        # Nulls behind the last member are padding.
        data = (data or file.read(BLOCK)).lstrip(b"\0")
