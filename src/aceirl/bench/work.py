"""One run of a study: all that determines it, carried out anywhere, handed back as the bytes of a Parquet file."""

from __future__ import annotations

import atexit
import gc
import hashlib
import json
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

from pydantic import BaseModel, ConfigDict

from aceirl.errors import cause
from aceirl.learner.turns import Turn

# Part of every run's name. Raise it when a change of the software changes what runs with the same settings give.
RESULTS_VERSION = 4

CELL = b"aceirl.cell"
LIST = "list of int64"


class Frozen(BaseModel):
    """A value that cannot change and knows no fields but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other fields, checked; nothing that was worked out from the old ones is kept."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | dict(update or {}))


class Measured(NamedTuple):
    """What a run comes to: rows, columns by type, the version of these, the last turn, and further seconds."""

    rows: list[dict[str, Any]]
    schema: dict[str, str]
    version: dict[str, int]
    last: Turn
    seconds: dict[str, float]


class Work(Protocol):
    """One run, with all that determines it: a `Cell`, or one of the arena. It can travel to any process."""

    @property
    def key(self) -> str:
        """A name that two runs share if, and only if, all that determines them is equal."""

    @property
    def seed(self) -> int:
        """The seed of problem and run."""

    @property
    def place(self) -> tuple[str, str]:
        """The row and the column of a table in which the run stands."""

    @property
    def compiled(self) -> tuple[object, ...]:
        """What decides which code has to be compiled for the run."""

    def model_dump(self) -> dict[str, Any]:
        """The fields as plain values."""

    def steps(self) -> Iterator[Any]:
        """The run as it goes on; the first step compiles all that it needs, for all processes."""

    def measured(self) -> Measured:
        """The run, to its end."""


def key_of(everything: Mapping[str, Any]) -> str:
    """A name for all that determines a run, the version of the results included."""
    text = json.dumps({"results": RESULTS_VERSION, **everything}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


@dataclass(frozen=True)
class Finished:
    """A run that came to its end: `file` is the same, byte for byte, wherever it was done; `seconds` are not."""

    cell: Work
    key: str
    file: bytes
    seconds: dict[str, float]
    samples: int
    stopped: str


@dataclass(frozen=True)
class Failed:
    """A run that did not: what went wrong, in one line and in full."""

    cell: Work
    key: str
    error: str
    trace: str = ""


Outcome = Finished | Failed


def perform(cell: Work) -> Outcome:
    """Carry out a run. Whatever goes wrong in it is part of the outcome."""
    try:
        return _carried_out(cell)
    except Exception as error:
        path = getattr(cell, "path", "")  # of a method of one's own
        said = cause(error, path) if path else f"{type(error).__name__}: {error}"
        return Failed(cell, cell.key, " ".join(said.split()), traceback.format_exc())


def _carried_out(cell: Work) -> Finished:
    import pyarrow as pa
    import pyarrow.parquet as pq

    began, worked = time.perf_counter(), time.thread_time()
    rows, schema, version, last, further = cell.measured()
    seconds = {"total": time.perf_counter() - began, "processor": time.thread_time() - worked, **further}
    # What names the run is in every row, so that many files read as one table.
    rows = [{"run": cell.key, **row} for row in rows]
    types = [(name, pa.list_(pa.int64()) if kind == LIST else kind) for name, kind in schema.items()]
    metadata = {CELL: json.dumps({**version, **cell.model_dump()}, sort_keys=True)}
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(types, metadata)), buffer, compression="zstd")
    file = bytes(buffer.getvalue())
    return Finished(cell, cell.key, file, seconds, samples=last.samples, stopped=last.stopped or "")


def get_ready(_: Work) -> None:
    """What a new process does first: load what such a run needs, by being sent it; and see to a quick end."""
    atexit.register(gc.freeze)
