"""The rulesets that the records of an export share: each lies once beside them, in a folder. Pure: no database.

A record that was taken from there alone gets them put in; its signature covers them either way.
"""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from recovery.record import bag
from recovery.record.container import BadRecord
from verdicts.upload.unpack import in_words

FOLDER = "rulesets"
#: A ruleset's text; the shipped one has two million bytes.
MOST = 64 << 20
#: Gives the bytes of a file by its name beside the record, such as "rulesets/DIGEST.jsonl"; None where it is not there.
Finder = Callable[[str], bytes | None]


def nowhere(_name: str) -> bytes | None:
    """Of a record that has nothing beside it."""
    return None


def near(record: Path) -> Finder:
    """What lies beside a record that is a file. It raises BadRecord for what cannot be read."""
    return within(record.parent)


def within(folder: Path) -> Finder:
    """The same of all records in a folder."""

    def find(name: str) -> bytes | None:
        path = folder / name
        try:
            if not path.is_file():
                return None
            if path.stat().st_size > MOST:
                raise BadRecord(f"{name}, beside the record, is larger than {in_words(MOST)}")
            return path.read_bytes()
        except OSError as error:
            raise BadRecord(f"{name}, beside the record, cannot be read: {error.strerror or error}") from error

    return find


def put(folder: Path, name: str, content: bytes) -> None:
    """Write what records share, once: whole or not at all, whoever else writes it now."""
    path = folder / name
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".partial", delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)


def shared(folder: Path) -> list[Path]:
    """The files that the records of a folder share, in order."""
    return sorted((folder / FOLDER).glob("*.jsonl"))


def completed(record: Path) -> BinaryIO:
    """A record with what lies beside it put in, as a file that is gone when it is closed. Raises BadRecord, OSError."""
    out: BinaryIO = tempfile.SpooledTemporaryFile(4 << 20)  # type: ignore[assignment] # noqa: SIM115 - handed over
    try:
        with record.open("rb") as file:
            shutil.copyfileobj(file, out, 1 << 20)
        if absent := _absent(out, near(record)):
            archive = zipfile.ZipFile(out, "a", allowZip64=False)
            for name, content in absent.items():
                archive.writestr(bag.entry_of(name), content)
            bag.seal(archive, out)
        out.seek(0)
    except BaseException:
        out.close()
        raise
    return out


def _absent(record: BinaryIO, find: Finder) -> dict[str, bytes]:
    """What lies beside a record and not in it, by the names that it has in the zip."""
    found = {}
    with zipfile.ZipFile(record) as archive:
        base = archive.infolist()[0].filename.partition("/")[0]
        fetch = f"{base}/{bag.FETCH}"
        for name in sorted(bag.fetched(archive.read(fetch))) if fetch in archive.NameToInfo else ():
            if f"{base}/{name}" in archive.NameToInfo:
                continue
            content = find(name.removeprefix("data/"))
            if content is None:
                raise BadRecord(f"{name.removeprefix('data/')} is not beside the record any more")
            found[f"{base}/{name}"] = content
    return found
