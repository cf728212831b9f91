"""A whole batch as one zip, made while it is sent: what is held in memory does not grow with it. Pure: no database."""

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

_BLOCK = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)
SUMS, MISSING = "SHA256SUMS", "NOT-WRITTEN.txt"


class File(Protocol):
    """A file that goes in."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> Path: ...

    @property
    def sha256(self) -> str: ...


class _Pipe(io.RawIOBase):
    """What the zip writes to: it cannot go back, and gives away what it was given."""

    def __init__(self) -> None:
        self._held: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        self._held.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        held, self._held = b"".join(self._held), []
        return held


def whole(folder: str, files: Iterable[File], missing: Iterable[tuple[str, str]]) -> Iterator[bytes]:
    """The zip in pieces: a folder with the files as they are, their checksums, and what is not among them and why.

    Records are compressed already: they are stored. A file that went meanwhile is said to be missing.
    """
    pipe = _Pipe()
    sums: list[str] = []
    without = [f"{attempt}  {why}" for attempt, why in missing]
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for file in files:
            try:
                opened = file.path.open("rb")
            except OSError:
                without.append(f"{file.name}  its file is not there any more")
                continue
            with opened, archive.open(_entry(f"{folder}/{file.name}"), "w", force_zip64=True) as out:
                while block := opened.read(_BLOCK):
                    out.write(block)
                    yield pipe.taken()
            sums.append(f"{file.sha256}  {file.name}")
        for name, lines in ((SUMS, sums), (MISSING, without)):
            if lines:
                archive.writestr(_entry(f"{folder}/{name}"), "".join(f"{line}\n" for line in lines))
        yield pipe.taken()
    yield pipe.taken()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.create_system, entry.external_attr = 3, 0o100644 << 16
    return entry
