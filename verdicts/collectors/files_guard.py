"""File systems that may hang: every call is made in a thread that can be left behind.

A read from a dead NFS server cannot be interrupted. The collection goes on without it when its time is over; the
thread ends when the call does, and closes what it had opened.
"""

import os
import re
import stat
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Self, TypeVar

from verdicts.collectors.ask import Budget, BudgetSpent, SourceError, Unreachable

T = TypeVar("T")

#: So many threads may wait for one folder's file system; then it is left alone until one of them comes back.
MAX_STUCK = 3
#: Names kept of one folder, and looked through for what was rotated away from one name.
MAX_ENTRIES = 50_000

_FDS = Path("/proc/self/fd")
_stuck: Counter[str] = Counter()
_lock = threading.Lock()


class Outside(OSError):
    """A path that leads out of the folder that may be read."""


class Special(OSError):
    """A pipe, a device or a socket: not a file whose end can be reached."""


@dataclass(frozen=True)
class Opened:
    """A regular file as it was when it was opened: what is appended later is not read."""

    fd: int
    path: Path
    identity: tuple[int, int]
    size: int
    mtime: float


@dataclass(frozen=True)
class Entry:
    """A name in a folder; `identity` tells a file from another of the same name."""

    name: str
    identity: tuple[int, int]
    folder: bool
    mtime: float
    link: bool = False


class Guard:
    """Calls to the file system below one folder, each waited for as long as the budget lasts."""

    def __init__(self, root: str, budget: Budget) -> None:
        with _lock:
            if _stuck[root] >= MAX_STUCK:
                raise Unreachable(
                    f"{root}: {MAX_STUCK} earlier looks still wait for its file system; is a server gone?"
                )
        self.root, self._budget = root, budget
        self._real = ""
        self._fds: set[int] = set()
        self._left = False
        self._work: SimpleQueue[tuple[Callable[[], object], Future[object]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=f"files {root}", daemon=True).start()

    def __enter__(self) -> Self:
        try:
            self._real = self.call(lambda: os.path.realpath(self.root, strict=True))
        except OSError as error:
            self.close()
            raise SourceError(f"{self.root}: {hint(error)}") from error
        except SourceError:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread, which closes what is open; at once, or when the call that it hangs in ends."""
        self._work.put(None)

    def call(self, work: Callable[[], T]) -> T:
        """The result of one call. Raises OSError as it does, and BudgetSpent when it takes too long."""
        left = self._budget.left()
        future: Future[object] = Future()
        self._work.put((work, future))
        try:
            return future.result(left)  # type: ignore[return-value]
        except TimeoutError as error:
            if future.done():  # the file system's own, or just in time
                return future.result()  # type: ignore[return-value]
            with _lock:
                self._left = True
                _stuck[self.root] += 1
            raise BudgetSpent(
                f"{self.root}: the file system did not answer within {left:.0f} s; is a server gone?"
            ) from error

    def listing(self, path: Path, wanted: re.Pattern[str], name: str, *, only: bool) -> list[Entry]:
        """What a folder holds of the wanted names; `name` is looked for by itself where there is one, `only` that one.

        Raises OSError; Outside where the folder is none of ours.
        """
        return self.call(lambda: self._list(path, wanted, name, only=only))

    def open(self, path: Path) -> Opened:
        """Open a regular file. Raises OSError; Outside where a link leads out, Special where it is no file."""
        return self.call(lambda: self._open(path))

    def read(self, file: Opened, size: int, at: int) -> bytes:
        """Up to `size` bytes from a place in a file."""
        return self.call(lambda: os.pread(file.fd, size, at))

    def release(self, file: Opened) -> None:
        """Close a file."""
        self.call(lambda: self._release(file.fd))

    def _list(self, path: Path, wanted: re.Pattern[str], name: str, *, only: bool) -> list[Entry]:
        self._inside(os.path.realpath(path, strict=True))
        found = {}
        if name and (entry := _entry(path / name, name)) is not None:
            found[name] = entry
        if only:
            return list(found.values())
        with os.scandir(path) as names:
            for looked, one in enumerate(names):
                if self._left or len(found) > MAX_ENTRIES or (name and looked >= MAX_ENTRIES):
                    break
                if wanted.fullmatch(one.name) and (entry := _entry(path / one.name, one.name)) is not None:
                    found[one.name] = entry
        return list(found.values())

    def _open(self, path: Path) -> Opened:
        real = Path(os.path.realpath(path, strict=True))
        self._inside(str(real))
        if not stat.S_ISREG(real.stat().st_mode):
            raise Special(0, "not a regular file")
        # What was looked at may have been exchanged since: no last link is followed, a pipe does not block, and
        # where the open file lies is looked at once more.
        fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        self._fds.add(fd)
        try:
            if _FDS.is_dir():
                self._inside(str((_FDS / str(fd)).readlink()))
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise Special(0, "not a regular file")
        except OSError:
            self._release(fd)
            raise
        return Opened(fd, path, (found.st_dev, found.st_ino), found.st_size, found.st_mtime)

    def _inside(self, real: str) -> None:
        if real != self._real and not real.startswith(self._real.rstrip("/") + "/"):
            raise Outside(0, f"leads out of {self.root} and is not followed")

    def _release(self, fd: int) -> None:
        if fd in self._fds:
            self._fds.discard(fd)
            os.close(fd)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, future = item
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for it
                future.set_exception(error)
            else:
                future.set_result(result)
            if self._left:
                break
        for fd in list(self._fds):
            self._release(fd)
        if self._left:
            with _lock:
                _stuck[self.root] -= 1


def _entry(path: Path, name: str) -> Entry | None:
    """A name with what it leads to; None where it leads nowhere."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # a file that may not be looked at is still there to be opened, and to be complained of
        return Entry(name, (0, 0), folder=False, mtime=0)
    return Entry(name, (found.st_dev, found.st_ino), stat.S_ISDIR(found.st_mode), found.st_mtime, path.is_symlink())


def hint(error: OSError) -> str:
    """What went wrong, and what to do about it."""
    if isinstance(error, PermissionError):
        return "permission denied: let the user that runs the workers read it (a group such as adm, or an ACL)"
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder"
    return error.strerror or str(error)
