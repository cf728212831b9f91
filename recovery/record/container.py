"""The zip of a record, read within bounds whatever is in it. Pure: no database."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from recovery.record import bag
from verdicts.upload.unpack import BLOCK, Limits, check_list, in_words, said

#: What a record may have at most. An attempt's observations are bounded by the store: 32 million characters a source.
MOST_FILES, MOST_BYTES = 4_000, 2 << 30
MOST_LINE = 32 << 20
#: What reading a hostile zip can raise.
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeError, struct.error, OSError)


class BadRecord(Exception):
    """A record that is refused, and why."""


def check_container(file: BinaryIO) -> bool:
    """Check the zip as a file; says whether it is sealed. One that was packed again is not, and is read all the same.

    Raises BadRecord and Refused.
    """
    check_list(file, Limits(total=MOST_BYTES, file=MOST_BYTES, files=MOST_FILES))
    size = file.seek(0, 2)
    file.seek(max(0, size - (1 << 16) - 22))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    comment = tail[at + 22 :]
    if int.from_bytes(tail[at + 20 : at + 22], "little") != len(comment):
        raise BadRecord("the file was cut, or something was added at its end")
    if comment:
        if len(comment) != bag.SEALED or not comment.startswith(bag.SEAL):
            raise BadRecord("the end of the file was changed")
        if bag.digest_of(file, size - 64) != comment[-64:].decode("ascii", "replace"):
            raise BadRecord("the file was changed: it has not the checksum at its end")
    file.seek(0)
    return bool(comment)


def blocks(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """A file in pieces. Raises BadRecord."""
    try:
        with archive.open(name) as data:
            while block := data.read(BLOCK):
                yield block
    except DAMAGED as error:
        raise BadRecord(f"{said(name)} is damaged: {error}") from error


def whole(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """A file of no more than `most` bytes. Raises BadRecord."""
    if name not in archive.NameToInfo:
        raise BadRecord(f"{said(name)} is missing")
    if archive.getinfo(name).file_size > most:
        raise BadRecord(f"{said(name)} is larger than {in_words(most)}")
    return b"".join(blocks(archive, name))


def lines(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """Lines with their ends; the last may have none."""
    left: list[bytes] = []
    size = 0
    for block in blocks(archive, name):
        *ended, rest = block.split(b"\n")
        for piece in ended:
            yield b"".join((*left, piece, b"\n"))
            left, size = [], 0
        left.append(rest)
        size += len(rest)
        if size > MOST_LINE:
            raise BadRecord(f"{said(name)} has a line that is longer than {in_words(MOST_LINE)}")
    if size:
        yield b"".join(left)
