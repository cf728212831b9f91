"""Reading a tar as a stream. `tarfile` reads a header of any length into memory; here every length is bounded."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

Read = Callable[[int], bytes]

BLOCK = 512
#: A long name, and the list of extended attributes of one file.
MAX_LONG_NAME = 1 << 13
MAX_EXTENDED = 1 << 18
#: A header that applies to what follows: so many in a row are nobody's file.
MAX_HEADERS = 16

KINDS = {
    b"0": "file",
    b"\0": "file",
    b"7": "file",
    b"5": "folder",
    b"1": "a hard link",
    b"2": "a link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a file with holes",
}


class Bad(ValueError):
    """What is no tar, or one that asks for too much."""


@dataclass
class Entry:
    """A file, a folder or something else in a tar; its content is read before the next entry is."""

    name: str
    kind: str
    size: int
    _read: Read
    _left: int = 0

    def blocks(self, most: int) -> Iterator[bytes]:
        """The content of a file."""
        while self._left:
            block = self._read(min(most, self._left))
            if not block:
                raise Bad("it ends too early")
            self._left -= len(block)
            yield block


def entries(read: Read) -> Iterator[Entry]:
    """What a tar has in it. `read` gives so many bytes, fewer only at the end. Raises Bad."""
    long_name, extended, headers = "", {}, 0  # type: str, dict[str, str], int
    while header := read(BLOCK):
        if len(header) < BLOCK:
            raise Bad("it ends too early")
        if not header.strip(b"\0"):
            return
        _check(header)
        size, kind = _number(header[124:136]), header[156:157]
        if kind in (b"L", b"K", b"x", b"g"):
            headers += 1
            if headers > MAX_HEADERS or size > (MAX_LONG_NAME if kind in (b"L", b"K") else MAX_EXTENDED):
                raise Bad("a header in it is longer than any that a tar needs")
            said = _exactly(read, size)
            _exactly(read, -size % BLOCK)
            if kind == b"L":
                long_name = _text(said.rstrip(b"\0"))
            elif kind == b"x":
                extended = _extended(said)
            continue
        if "size" in extended:
            size = _whole(extended["size"])
        if any(key.startswith("GNU.sparse") for key in extended):
            kind = b"S"
        name = extended.get("path") or long_name or _name(header)
        # A former kind of tar marks a folder only by its name.
        known = "folder" if kind in (b"0", b"\0") and name.endswith("/") else KINDS.get(kind, "of an unknown kind")
        entry = Entry(name, known, size, read, size if known == "file" else 0)
        yield entry
        for _ in entry.blocks(1 << 16):
            pass
        _exactly(read, -size % BLOCK if known == "file" else 0)
        long_name, extended, headers = "", {}, 0
    raise Bad("it is empty or ends too early")


def _check(header: bytes) -> None:
    said = header[148:156].strip(b" \0")
    summed = sum(header[:148]) + 8 * 32 + sum(header[156:])
    try:
        right = int(said, 8) == summed
    except ValueError:
        right = False
    if not right:
        raise Bad("it is no tar, or damaged")


def _exactly(read: Read, size: int) -> bytes:
    data = read(size) if size else b""
    if len(data) < size:
        raise Bad("it ends too early")
    return data


def _number(digits: bytes) -> int:
    if digits[0] & 0x80:
        return int.from_bytes(digits, "big") & ~(0x80 << 8 * (len(digits) - 1))
    return _whole(digits.strip(b" \0").decode("ascii", "replace") or "0", 8)


def _whole(digits: str, base: int = 10) -> int:
    if len(digits) > 20 or not digits.isascii() or not digits.isdigit():
        raise Bad("a size in it is no number")
    try:
        return int(digits, base)
    except ValueError as error:
        raise Bad("a size in it is no number") from error


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _name(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return _text(prefix + b"/" + name if prefix else name)


def _extended(data: bytes) -> dict[str, str]:
    """The pairs of a pax header: "30 path=…" and a line's end, the number being the whole length."""
    found: dict[str, str] = {}
    while data:
        digits, _, _ = data.partition(b" ")
        length = _whole(digits.decode("ascii", "replace")) if len(digits) < 8 else 0
        pair = data[len(digits) + 1 : length]
        if not pair.endswith(b"\n"):
            raise Bad("a header in it is damaged")
        key, _, value = pair[:-1].partition(b"=")
        found[_text(key)] = _text(value)
        data = data[length:]
    return found
