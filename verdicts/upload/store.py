"""An incident that somebody sends through the site: into a folder of its own, read, stored, the folder removed."""

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.http import HttpRequest

from rules.attempt import InputError
from rules.incident import ATTEMPT_FILE, MAX_FILE_NAME, shown
from verdicts.upload.ingest import Stored, ingest_path
from verdicts.upload.unpack import Limits, Refused, in_words, is_archive, said, unpack

#: How deep below the top of an archive the incident folder may lie.
DEPTH = 4


class TooLarge(Refused):
    """More than the site takes in one request."""


class NoRoom(InputError):
    """The machine has no room for it now."""


_NO_ROOM = "The server has too little room on its disk to take uploads now. An administrator has to look."
#: What a disk says that is full, or on which this account may have no more.
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def room() -> Iterator[None]:
    """What it takes to read an upload: a disk that fills up meanwhile is said as one that was full before."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise NoRoom(_NO_ROOM) from error
        raise


class Bounded(TemporaryFileUploadHandler):
    """Files of a request into temporary files, until they are more than the site takes."""

    def __init__(self, request: HttpRequest | None = None) -> None:
        super().__init__(request)
        self.received = 0

    def handle_raw_input(
        self, input_data: object, meta: dict[str, str], content_length: int, boundary: str, encoding: str | None = None
    ) -> None:
        self._allow(content_length)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self.received += len(raw_data)
        try:
            self._allow(self.received)
            super().receive_data_chunk(raw_data, start)
        except (TooLarge, OSError):
            # Nobody else closes, and so removes, a file that did not come whole; what is not written stays so.
            with suppress(OSError):
                self.file.close()
            raise

    def _allow(self, size: int) -> None:
        if size > settings.INQUEST_UPLOAD_BYTES:
            raise TooLarge(f"The upload is larger than {in_words(settings.INQUEST_UPLOAD_BYTES)}.")


def limits() -> Limits:
    """What one upload may unpack to, as the settings say."""
    return Limits(
        total=settings.INQUEST_UPLOAD_UNPACKED_BYTES,
        file=settings.INQUEST_UPLOAD_FILE_BYTES,
        files=settings.INQUEST_UPLOAD_FILES,
    )


def store_upload(files: list[UploadedFile], *, by: User, cluster: str = "", job: str = "") -> Stored:
    """Store one incident: an archive of its folder, or its files. Raises InputError with the reason."""
    if not files:
        raise Refused("No file was sent.")
    with _folder() as folder:
        names = [_name(file) for file in files]
        archives = [name for name in names if is_archive(name)]
        if archives and len(files) > 1:
            raise Refused(f"Send the archive {said(archives[0])} by itself: one archive is one incident.")
        if archives:
            unpack(files[0], archives[0], folder, limits())  # type: ignore[arg-type]
        else:
            _write(files, names, folder)
        incident = incident_folder(folder)
        try:
            return ingest_path(incident, cluster=cluster, job=job, by=by)
        except InputError as error:
            # Where it lay for a moment is nobody's concern.
            raise InputError(_without(str(error), folder)) from error


def incident_folder(folder: Path) -> Path:
    """The folder of the one incident in what was sent: the one with `attempt.json`, else where the files begin."""
    found = sorted(
        path.parent
        for path in folder.rglob(ATTEMPT_FILE)
        if path.is_file() and len(path.relative_to(folder).parts) <= DEPTH
    )
    if len(found) > 1:
        names = ", ".join(said(str(path.relative_to(folder))) for path in found[:4])
        raise Refused(f"It holds {len(found)} incidents ({names}): send one at a time.")
    if found:
        return found[0]
    # Packers put the folder itself into the archive: its name is no source of evidence.
    while len(inside := list(folder.iterdir())) == 1 and inside[0].is_dir():
        folder = inside[0]
    return folder


@contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder that only this process reads, gone afterwards."""
    parent = settings.FILE_UPLOAD_TEMP_DIR or tempfile.gettempdir()
    needed = settings.INQUEST_UPLOAD_UNPACKED_BYTES + settings.INQUEST_UPLOAD_BYTES
    if shutil.disk_usage(parent).free < needed:
        raise NoRoom(_NO_ROOM)
    with tempfile.TemporaryDirectory(prefix="inquest-upload-", dir=parent) as folder:
        yield Path(folder)


def _name(file: UploadedFile) -> str:
    name = Path(file.name or "").name
    if not name or len(name) > MAX_FILE_NAME or name.startswith(".") or "\0" in name:
        raise Refused(f"A file of this name is not taken: {said(name) or '(none)'}")
    return name


def _write(files: list[UploadedFile], names: list[str], folder: Path) -> None:
    if len(files) > settings.INQUEST_UPLOAD_FILES:
        raise Refused(f"More than {settings.INQUEST_UPLOAD_FILES:,} files.")
    for file, name in zip(files, names, strict=True):
        try:
            with open(folder / name, "xb") as out:
                out.writelines(file.chunks())
        except FileExistsError as error:
            raise Refused(f"Two files are called {said(name)}.") from error
        except OSError as error:
            if error.errno in _FULL:
                raise
            raise Refused(f"{said(name)} cannot be kept: {error.strerror}.") from error


def _without(text: str, folder: Path) -> str:
    for path in (str(folder), shown(str(folder))):
        text = text.replace(f"{path}/", "").replace(path, "the upload")
    return text
