"""Reading evidence files in bounded memory: plain, gzip, zstd, UTF-16; whole lines in blocks of about a mebibyte.

A line longer than a block is handed over in pieces that keep its number. A file that unpacks to more
than it may, or that is binary, ends with the reason.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import zstandard

BLOCK = 1 << 20
#: Unpacked bytes of one packed file: enough for any log, too little for a bomb to cost an hour.
MAX_UNPACKED = 16 << 30
#: An unpacked size over this multiple of the packed one is a bomb once it is also large.
MAX_RATIO, LARGE = 400, 256 << 20

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: `journalctl -o export` writes the length of some fields as a binary number.
JOURNAL_EXPORT = b"__CURSOR="
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


class Unreadable(Exception):
    """A file that cannot be read further; the message says why."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines (or one piece of an overlong line), the number of the first, and how many newlines there are."""

    data: bytes
    line: int
    newlines: int


@contextmanager
def _unpacked(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    """The unpacked stream of an open file."""
    head = raw.read(4)
    raw.seek(0)
    if is_packed(head):
        if head.startswith(_GZIP):
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked  # type: ignore[misc]
        else:
            packed = zstandard.ZstdDecompressor(max_window_size=1 << 27)
            with packed.stream_reader(raw, read_across_frames=True, closefd=False) as unpacked:
                yield unpacked
    else:
        yield raw


def is_packed(head: bytes) -> bool:
    """Whether a file that begins so is packed by gzip or zstd."""
    return head.startswith((_GZIP, _ZSTD))


def chunks(path: Path) -> Iterator[bytes]:
    """The unpacked bytes of a file, UTF-16 turned to UTF-8, in pieces. Raises Unreadable or OSError."""
    with path.open("rb") as raw:
        yield from pieces(raw, path.stat().st_size)


def pieces(raw: IO[bytes], packed: int) -> Iterator[bytes]:
    """The same of an open file of so many bytes, read from its beginning."""
    total = 0
    decoder: codecs.IncrementalDecoder | None = None
    with _unpacked(raw) as stream:
        while True:
            try:
                piece = stream.read(BLOCK)
            except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
                raise Unreadable(f"the packed data is damaged after {total} bytes: {error}") from error
            if not piece:
                if decoder and (rest := decoder.decode(b"", final=True)):
                    yield rest.encode()
                return
            if total == 0:
                if encoding := _UTF16.get(piece[:2]):
                    # A piece may end inside a character.
                    decoder = codecs.getincrementaldecoder(encoding)("replace")
                    piece = piece[2:]
                elif is_binary(piece[:8192]):
                    raise Unreadable("a binary file, not text")
            total += len(piece)
            if total > MAX_UNPACKED or (total > LARGE and total > MAX_RATIO * packed):
                raise Unreadable(f"unpacks to more than {total} bytes from {packed}; the rest was not read")
            yield decoder.decode(piece).encode() if decoder else piece


def is_binary(head: bytes) -> bool:
    """Whether the beginning of a file is no text: NUL bytes, or many control characters."""
    if not head or head.startswith(JOURNAL_EXPORT):
        return False
    control = sum(1 for b in head if b < 9 or 13 < b < 27 or 27 < b < 32)
    nul = head.count(0)
    return nul > len(head) // 50 or control > len(head) // 20


def blocks(path: Path) -> Iterator[Block]:
    """The file in blocks of whole lines."""
    return whole_lines(chunks(path))


def whole_lines(given: Iterable[bytes]) -> Iterator[Block]:
    """Pieces of any size as blocks of whole lines."""
    carry = b""
    line = 1
    for piece in given:
        data = carry + piece
        cut = data.rfind(b"\n") + 1
        if cut == 0:
            if len(data) < BLOCK:
                carry = data
                continue
            # An overlong line: hand over a piece, cut at a blank so that no word is torn.
            cut = data.rfind(b" ", BLOCK // 2) + 1 or len(data)
            yield Block(data[:cut], line, 0)
            carry = data[cut:]
            continue
        newlines = data.count(b"\n", 0, cut)
        yield Block(data[:cut], line, newlines)
        line += newlines
        carry = data[cut:]
    if carry:
        yield Block(carry, line, 0)


def sample(path: Path, size: int) -> str:
    """The beginning of a file as text, "" when it cannot be read as text."""
    out = b""
    try:
        for piece in chunks(path):
            out += piece
            if len(out) >= size:
                break
    except (Unreadable, OSError):
        return ""
    return out[:size].decode("utf-8", "replace")
