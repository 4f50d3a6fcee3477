"""Results on disk: one Parquet file a run, there whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from aceirl.bench.work import Failed, Outcome, Work
from aceirl.runs.files import DRAFT, disk, replace

ABANDONED = 3600.0  # seconds after which a draft is nobody's any more


class Store:
    """A folder with `<key>.parquet` for each finished run, named by a hash of all that determines it.

    Beside it lie `<key>.json`, its checksum and how long it took, and `<key>.error.json` for a run that failed. Files
    are written under a name of their own and then moved into place, so any number of sweeps may share a folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Make sure that the folder can be written, before any work is done for it; sweep out abandoned drafts."""
        with self._disk():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(self.folder / "probe", b"")
            (self.folder / "probe").unlink(missing_ok=True)
            for draft in self.folder.glob(f".*{DRAFT}"):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - draft.stat().st_mtime > ABANDONED:
                        draft.unlink()

    def path(self, cell: Work) -> Path:
        """Where the run's rows are, once it is finished."""
        return self.folder / f"{cell.key}.parquet"

    def finished(self, cell: Work) -> bool:
        """Whether the run's file is there, whole and as it was written."""
        return self._whole(cell) is not None

    def save(self, outcome: Outcome) -> None:
        """Keep what came out of a run."""
        error = self.folder / f"{outcome.key}.error.json"
        with self._disk():
            if isinstance(outcome, Failed):
                failure = {"cell": outcome.cell.model_dump(), "error": outcome.error, "trace": outcome.trace}
                self._write(error, json.dumps(failure, indent=2).encode())
                return
            beside = {"sha256": hashlib.sha256(outcome.file).hexdigest(), "seconds": outcome.seconds}
            self._write(self.folder / f"{outcome.key}.json", json.dumps(beside).encode())
            self._write(self.folder / f"{outcome.key}.parquet", outcome.file)
            error.unlink(missing_ok=True)

    def table(self, cell: Work, columns: Sequence[str] | None = None) -> tuple[pa.Table, dict[str, float]] | None:
        """The run's rows as they were written, all columns or these, and how long it took; None if not finished."""
        found = self._whole(cell)
        if found is None:
            return None
        file, beside = found
        # `read_table` would set up a scan of many files for each of them, which takes longer than to read it.
        opened = pq.ParquetFile(pa.BufferReader(file))
        return opened.read(None if columns is None else [*columns], use_threads=False), beside["seconds"]

    def error(self, cell: Work) -> str | None:
        """What went wrong with the run the last time it was tried; None if nothing did."""
        try:
            return str(json.loads((self.folder / f"{cell.key}.error.json").read_text())["error"])
        except (OSError, ValueError, KeyError):
            return None

    def _whole(self, cell: Work) -> tuple[bytes, dict[str, Any]] | None:
        """The file and what lies beside it, if the one is what the other says."""
        path = self.path(cell)
        try:
            file = path.read_bytes()
            beside = json.loads(path.with_suffix(".json").read_text())
            return (file, beside) if hashlib.sha256(file).hexdigest() == beside["sha256"] else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write(self, path: Path, content: bytes) -> None:
        # No run waits for the disk: what a power cut leaves of a file does not match its checksum, and is done again.
        replace(path, content, wait=False)

    def _disk(self) -> AbstractContextManager[None]:
        return disk(self.folder, "finished runs are kept, and the same command goes on")
