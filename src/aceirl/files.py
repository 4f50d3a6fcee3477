"""Files that are there whole or not at all, locks between processes, and logs that are only ever appended."""

from __future__ import annotations

import contextlib
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


@contextlib.contextmanager
def disk(path: Path, kept: str = "") -> Iterator[None]:
    """What goes wrong with the disk is said in one line; `kept` is what is not lost by it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot write to {path}: {reason}{'; ' + kept if kept else ''}") from error


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
        lock = FileLock(folder / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(f"{folder} is in use: {doing}") from None
    try:
        yield
    finally:
        lock.release()


class Log:
    """Lines of JSON that are only ever appended. A last line that was cut off is dropped when the log is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with disk(path):
            self._file = path.open("ab", buffering=0)
            self._keep_whole_lines()
            sync_folder(path.parent)

    def append(self, events: Iterable[Event], *, wait: bool = True) -> None:
        """Hand events to the system and, unless told otherwise, wait until they and all before them are on the disk."""
        lines = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
        size = self.path.stat().st_size
        try:
            with disk(self.path):
                _write_all(self._file, lines.encode())
                if wait:
                    os.fsync(self._file.fileno())
        except InputError:
            # What a full disk has left of a line must not spoil the next.
            self._file.truncate(size)
            raise

    def __iter__(self) -> Iterator[Event]:
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise InputError(f"{self.path}, line {number} is not an event: {error}") from None

    def close(self) -> None:
        """No more is written."""
        self._file.close()

    def _keep_whole_lines(self) -> None:
        with self.path.open("rb") as file:
            whole = sum(len(line) for line in file if line.endswith(b"\n"))
        if whole != self.path.stat().st_size:
            self._file.truncate(whole)


def _write_all(file: io.FileIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
