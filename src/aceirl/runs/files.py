"""Files that are there whole or not at all, locks between processes, and logs that are only ever appended."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from aceirl.errors import InputError

Event = dict[str, Any]

LOCK = ".lock"
DRAFT = ".draft"

GONE = "it was deleted or moved while it was in use; put it back, or stop and start again"


class DiskError(InputError):
    """The disk is full, or otherwise cannot be written to; another try may work."""


@contextlib.contextmanager
def disk(path: Path, kept: str = "") -> Iterator[None]:
    """What goes wrong with the disk is said in one line; `kept` is what is not lost by it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(f"cannot write to {path}: {reason}{'; ' + kept if kept else ''}") from error


def replace(path: Path, content: bytes, *, private: bool = False, wait: bool = True) -> None:
    """Write a file under a name of its own and move it into place, so that it is there whole or not at all.

    Without `wait` it survives the end of the process, but perhaps not a power cut.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}{DRAFT}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644), "wb") as file:
            file.write(content)
            file.flush()
            if wait:
                os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    if wait:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """See that new names in a folder survive a power cut, where the system can be told to."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def alone(folder: Path, doing: str) -> Iterator[None]:
    """Two processes must not write into one folder, which is made if need be; the lock ends with the process.

    `doing` is what another process is busy with, if it has the lock.
    """
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(f"{folder} is in use: {doing}") from None
    try:
        yield
    finally:
        lock.release()


class LogFile:
    """Lines of JSON that are only ever appended. A last line that was cut off is dropped when the log is opened.

    Only its owner can read it. A symbolic link is not followed: what it points to is no log of ours.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_symlink():
            raise InputError(f"{path} is a symbolic link, which is not followed")
        with disk(path):
            self._file = io.FileIO(str(path), "a+", opener=_private)
            self._size = sum(len(line) for line in self._lines() if line.endswith(b"\n"))
            self._file.truncate(self._size)
            sync_folder(path.parent)
        self._mark = 0, 0  # so many lines, and where they end

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self._size

    def append(self, events: Iterable[Event], *, wait: bool = True) -> None:
        """Hand events to the system and, unless told otherwise, wait until they and all before them are on the disk.

        Either all of them are in the log afterwards, or none is.
        """
        lines = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events).encode()
        with disk(self.path):
            try:
                if not self._is_there():
                    raise FileNotFoundError(errno.ENOENT, GONE)
                self._keep_whole_lines()
                _write_all(self._file, lines)
                if wait:
                    os.fsync(self._file.fileno())
                self._size += len(lines)
            except OSError:
                self._keep_whole_lines()
                raise

    def __iter__(self) -> Iterator[Event]:
        return self.after(0)

    def after(self, lines: int) -> Iterator[Event]:
        """The events after so many lines; those before the last such question are not read again."""
        known, end = self._mark if self._mark[0] <= lines else (0, 0)
        rest = self._lines(end)
        self._mark = lines, end + sum(map(len, rest[: lines - known]))
        for number, line in enumerate(rest[lines - known :], start=lines + 1):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{self.path}, line {number} is not an event: {error}") from None
            if not isinstance(event, dict):
                raise InputError(f"{self.path}, line {number} is not an event: it is not an object")
            yield event

    def content(self) -> bytes:
        """All whole lines as they are, also if the file was deleted meanwhile."""
        self._file.seek(0)
        return self._file.read(self._size) or b""

    def close(self) -> None:
        """No more is written."""
        self._file.close()

    def _lines(self, start: int = 0) -> list[bytes]:
        """All lines with their ends, from where one begins; the last one may have none."""
        self._file.seek(start)
        return io.BytesIO(self._file.readall()).readlines()

    def _is_there(self) -> bool:
        """Whether the path still leads to the open file."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path))
        return False

    def _keep_whole_lines(self) -> None:
        """What a full disk has left of a line must not spoil the next."""
        if os.fstat(self._file.fileno()).st_size != self._size:
            self._file.truncate(self._size)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _write_all(file: io.FileIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
