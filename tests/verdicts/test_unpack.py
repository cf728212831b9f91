"""Archives that people send: what is in them, and what hostile ones try."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verdicts.upload import tar
from verdicts.upload.unpack import Limits, Refused, unpack

SMALL = Limits(total=1 << 20, file=1 << 19, files=50)
FILES = {"incident/attempt.json": b'{"job_id": "1"}', "incident/syslog/gpu-01.log": b"line\n" * 400}


def a_zip(files: dict[str, bytes] = FILES, change: Callable[[zipfile.ZipInfo], None] = lambda _: None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            change(entry)
            archive.writestr(entry, data)
    return out.getvalue()


def a_tar(
    files: dict[str, bytes] = FILES,
    mode: str = "w",
    form: int = tarfile.PAX_FORMAT,
    change: Callable[[tarfile.TarInfo], None] = lambda _: None,
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            change(entry)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def unpacked(data: bytes, name: str, folder: Path, limits: Limits = SMALL) -> dict[str, bytes]:
    unpack(io.BytesIO(data), name, folder, limits)
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def refusal(data: bytes, name: str, folder: Path, limits: Limits = SMALL) -> str:
    with pytest.raises(Refused) as refused:
        unpack(io.BytesIO(data), name, folder, limits)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("incident.zip", a_zip()),
        ("Incident.ZIP", a_zip()),
        ("incident.tar", a_tar()),
        ("incident.tar", a_tar(form=tarfile.GNU_FORMAT)),
        ("incident.tar", a_tar(form=tarfile.USTAR_FORMAT)),
        ("incident.tgz", a_tar(mode="w:gz")),
        ("incident.tar.gz", a_tar(mode="w:gz")),
        ("incident.tar.zst", zstandard.ZstdCompressor().compress(a_tar())),
    ],
)
def test_every_kind_gives_the_files_as_they_were(name: str, data: bytes, tmp_path: Path) -> None:
    assert unpacked(data, name, tmp_path) == FILES


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_long_and_foreign_names_are_kept(form: int, tmp_path: Path) -> None:
    files = {"incident/" + "a" * 60 + "/" + "b" * 80 + "/rank-0.log": b"x", "incident/größe.log": b"y"}
    assert unpacked(a_tar(files, form=form), "i.tar", tmp_path) == files


def test_a_gzip_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    whole = a_tar()
    parts = [zlib.compress(part, wbits=31) for part in (whole[:700], whole[700:3000], whole[3000:])]
    assert unpacked(b"".join(parts) + bytes(512), "i.tar.gz", tmp_path) == FILES


HOSTILE_NAMES = ["../outside", "a/../../outside", "/etc/outside", "..\\outside", "C:/outside", "C:\\outside"]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_that_leads_out_is_refused_and_nothing_is_written_there(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for number, (kind, data) in enumerate((("i.zip", a_zip({name: b"x"})), ("i.tar", a_tar({name: b"x"})))):
        inner = folder / str(number)
        inner.mkdir(parents=True)
        assert "leads out" in refusal(data, kind, inner)
    assert not list(tmp_path.rglob("*outside*"))
    assert not Path("/etc/outside").exists()


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (tarfile.SYMTYPE, "a link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a pipe"),
    ],
)
def test_only_files_come_out_of_a_tar(kind: bytes, word: str, tmp_path: Path) -> None:
    def change(entry: tarfile.TarInfo) -> None:
        entry.type, entry.linkname, entry.size = kind, "/etc/passwd", 0

    assert word in refusal(a_tar({"syslog/x.log": b""}, change=change), "i.tar", tmp_path)


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.create_system, entry.external_attr = 3, 0o120777 << 16

    assert "link" in refusal(a_zip({"syslog/x.log": b"/etc/passwd"}, change), "i.zip", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_bomb_is_given_up_at_the_limit(tmp_path: Path) -> None:
    nought = bytes(1 << 22)
    for name, data in (
        ("i.zip", a_zip({"bomb.log": nought})),
        ("i.tar.gz", a_tar({"bomb.log": nought}, mode="w:gz")),
        ("i.tar.zst", zstandard.ZstdCompressor().compress(a_tar({"bomb.log": nought}))),
    ):
        folder = tmp_path / name
        folder.mkdir()
        assert "larger than" in refusal(data, name, folder)
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= SMALL.file


def test_a_zip_that_lies_about_sizes_is_given_up_at_the_limit(tmp_path: Path) -> None:
    data = bytearray(a_zip({"bomb.log": bytes(1 << 22)}))
    for signature, at in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        place = data.index(signature) + at
        data[place : place + 4] = (10).to_bytes(4, "little")
    assert refusal(bytes(data), "i.zip", tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= SMALL.file


def test_many_small_files_add_up(tmp_path: Path) -> None:
    files = {f"{number}.log": bytes(1 << 18) for number in range(8)}
    assert "larger than" in refusal(a_zip(files), "i.zip", tmp_path)


def test_a_million_entries_cost_neither_memory_nor_files(tmp_path: Path) -> None:
    entry = b"PK\1\2" + bytes(42)
    whole = entry * 60_000 + b"PK\5\6" + bytes(4)
    end = (60_000).to_bytes(2, "little") * 2 + (len(entry) * 60_000).to_bytes(4, "little") + bytes(6)
    assert "more than 50 files" in refusal(whole + end, "i.zip", tmp_path)
    empty = a_tar({f"{number}": b"" for number in range(200)})
    assert "more than 50 files" in refusal(empty, "i.tar", tmp_path)
    folders = a_tar(
        {f"{number}/": b"" for number in range(200)}, change=lambda entry: setattr(entry, "type", tarfile.DIRTYPE)
    )
    assert "more than 50 files" in refusal(folders, "i.tar", tmp_path)


def test_a_list_of_files_that_hides_behind_zip64_is_refused(tmp_path: Path) -> None:
    data = a_zip()
    at = data.rindex(b"PK\5\6")
    assert "zip64" in refusal(data[:at] + b"PK\6\7" + bytes(16) + data[at:], "i.zip", tmp_path)


def test_a_header_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    def header(kind: bytes, size: int) -> bytes:
        entry = tarfile.TarInfo("x")
        entry.size, entry.type = size, kind
        return entry.tobuf(tarfile.GNU_FORMAT)

    for kind in (b"L", b"x", b"g"):
        bomb = zlib.compressobj(wbits=31)
        data = bomb.compress(header(kind, 1 << 30) + bytes(1 << 24)) + bomb.flush()
        tracemalloc.start()
        try:
            assert "header" in refusal(data, "i.tar.gz", tmp_path)
            assert tracemalloc.get_traced_memory()[1] < 1 << 23
        finally:
            tracemalloc.stop()


def test_the_same_name_twice_and_a_file_below_a_file_are_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("a.log", "a.log"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert "twice" in refusal(out.getvalue(), "i.tar", tmp_path)
    assert "as a file and as a folder" in refusal(a_tar({"b": b"x", "b/c.log": b"y"}), "i.tar", tmp_path)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("i.zip", b"", "damaged"),
        ("i.zip", b"PK", "damaged"),
        ("i.tar", b"no tar at all" * 100, "no tar"),
        ("i.tar", b"", "empty"),
        ("i.tar", bytes(10_240), "no file in it"),
        ("i.tar.gz", b"\x1f\x8b no gzip", "damaged"),
        ("i.tar.gz", a_tar(mode="w:gz")[:-40], "damaged"),
        ("i.tar", a_tar()[:1000], "ends too early"),
        ("i.tar.zst", b"no zstd", "damaged"),
        ("i.tar.xz", b"x", "kind that is not taken"),
        ("i.7z", b"x", "kind that is not taken"),
        ("i.zip", a_zip({"inner.tar.gz": b"x"}), "archive inside"),
        ("i.zip", a_zip({}), "no file in it"),
        ("i.zip", a_zip({"/".join("d" * 30): b""}), "too deep"),
        ("i.zip", a_zip({"n" * 300: b""}), "too long a name"),
    ],
)
def test_what_is_no_archive_of_an_incident_is_refused_with_the_reason(
    name: str, data: bytes, why: str, tmp_path: Path
) -> None:
    assert why in refusal(data, name, tmp_path)


def test_an_encrypted_zip_and_a_strange_method_are_refused(tmp_path: Path) -> None:
    data = bytearray(a_zip())
    at = data.index(b"PK\1\2")
    data[at + 8] |= 1
    assert "encrypted" in refusal(bytes(data), "i.zip", tmp_path)
    data = bytearray(a_zip())
    data[data.index(b"PK\1\2") + 10] = zipfile.ZIP_LZMA
    assert "compressed in a way" in refusal(bytes(data), "i.zip", tmp_path)


def test_what_a_packer_adds_by_itself_is_left_out(tmp_path: Path) -> None:
    assert unpacked(a_zip(FILES | {"__MACOSX/incident/._x": b"junk"}), "i.zip", tmp_path) == FILES


def test_a_file_that_begins_before_its_archive_is_refused(tmp_path: Path) -> None:
    broken = bytearray(a_zip())
    # The size of the list, one page too large: everything then lies that much before where it is.
    broken[-22 + 13] += 1
    with pytest.raises(Refused, match="is damaged"):
        unpack(io.BytesIO(bytes(broken)), "i.zip", tmp_path, SMALL)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_is_a_refusal_or_files_inside_the_folder(data: st.DataObject, tmp_path: Path) -> None:
    kind, whole = data.draw(st.sampled_from([("i.zip", a_zip()), ("i.tar", a_tar()), ("i.tar.gz", a_tar(mode="w:gz"))]))
    broken = bytearray(whole)
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(broken) - 1), st.integers(0, 255)), min_size=1, max_size=6)
    ):
        broken[at] = byte
    folder = tmp_path / os.urandom(8).hex() / "inside"
    folder.mkdir(parents=True)
    with contextlib.suppress(Refused):
        unpack(io.BytesIO(bytes(broken)), kind, folder, SMALL)
    assert [path.name for path in folder.parent.iterdir()] == ["inside"]
    assert all(path.is_dir() or (path.is_file() and not path.is_symlink()) for path in folder.rglob("*"))


@given(st.binary(max_size=3000))
def test_the_tar_reader_ends_on_anything(data: bytes) -> None:
    stream = io.BytesIO(data)
    with contextlib.suppress(tar.Bad):
        for entry in tar.entries(stream.read):
            assert all(entry.blocks(100))
