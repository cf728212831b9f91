"""Files as people have them: packed, damaged, binary, endless lines, bombs."""

import gzip
from pathlib import Path

import pytest
import zstandard

from rules import files

LINES = b"".join(b"line %d\n" % i for i in range(1000))


def whole(path: Path) -> bytes:
    return b"".join(block.data for block in files.blocks(path))


@pytest.mark.parametrize("pack", [lambda b: b, gzip.compress, zstandard.ZstdCompressor().compress])
def test_plain_gzip_and_zstd_read_the_same(tmp_path: Path, pack) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(LINES))
    assert whole(path) == LINES


def test_utf16_is_turned_to_utf8(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes("zeile ä\n".encode("utf-16"))
    assert whole(path) == "zeile ä\n".encode()


def test_blocks_hold_whole_lines_and_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 30_000)
    blocks = list(files.blocks(path))
    assert len(blocks) > 1
    assert all(block.data.endswith(b"\n") for block in blocks)
    assert blocks[1].line == blocks[0].data.count(b"\n") + 1


def test_an_endless_line_comes_in_pieces_of_one_number(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"word " * 1_000_000)
    blocks = list(files.blocks(path))
    assert {block.line for block in blocks} == {1}
    assert max(len(block.data) for block in blocks) <= 2 * files.BLOCK


def test_a_bomb_stops_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE", 4 << 20)
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"\n" * (16 << 20)))
    with pytest.raises(files.Unreadable, match="unpacks to more than"):
        whole(path)


def test_damaged_gzip_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(LINES)[:-200])
    with pytest.raises(files.Unreadable, match="damaged"):
        whole(path)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(b"\x7fELF" + bytes(range(32)) * 500)
    with pytest.raises(files.Unreadable, match="binary"):
        whole(path)
