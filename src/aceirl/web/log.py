"""The log of an interview: all that happened, in order, on disk before the next question is shown."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from aceirl.errors import InputError

Event = dict[str, Any]


class Log:
    """Lines of JSON that are only ever appended. A last line that was cut off is dropped when the log is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("ab", buffering=0)
            self._keep_whole_lines()
            _sync_folder(path.parent)
        except OSError as error:
            raise InputError(f"cannot write to {path}: {error.strerror or error}") from error

    def append(self, events: Iterable[Event], *, wait: bool = True) -> None:
        """Hand events to the system and, unless told otherwise, wait until they and all before them are on the disk."""
        lines = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
        size = self.path.stat().st_size
        try:
            _write_all(self._file, lines.encode())
            if wait:
                os.fsync(self._file.fileno())
        except OSError as error:
            # What a full disk has left of a line must not spoil the next.
            self._file.truncate(size)
            raise InputError(f"cannot write to {self.path}: {error.strerror or error}") from error

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


def replace_file(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file under another name and move it into place, so that it is there whole or not at all."""
    draft = path.with_name(path.name + ".draft")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o644), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Two servers must not write into one folder, which is made if need be; the lock ends with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot use the folder {folder}: {error.strerror or error}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise InputError(f"{folder} is in use: an interview with this folder is already running") from None
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
