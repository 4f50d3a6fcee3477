"""One run of an experiment: carried out anywhere, handed back as the bytes of a Parquet file."""

from __future__ import annotations

import atexit
import gc
import json
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aceirl.collect import Streams
from aceirl.counts import Counts
from aceirl.dynamic_programming import greedy_actions
from aceirl.envs import ENVIRONMENTS, Problem, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import cause
from aceirl.experiments.specs import RESULTS_VERSION, Cell
from aceirl.experiments.transfers import transfer_regrets
from aceirl.experts import PolicyExpert
from aceirl.loop import learn
from aceirl.mdp import IntArray
from aceirl.metrics import Truth
from aceirl.rewards import action_values
from aceirl.runs import settings_for
from aceirl.sources import Source, open_source, own_regret
from aceirl.turns import Record, Turn

CELL = b"aceirl.cell"

# One row an iteration, or, in a transfer run, one for each plan and target after the last. What names the run is in
# every row, so that many files read as one table; `visits`, the observations in each state, are in the last row only.
NAMES = [
    ("run", pa.string()),
    ("environment", pa.string()),
    ("strategy", pa.string()),
    ("episodes_per_iteration", pa.int64()),
    ("seed", pa.int64()),
]
NUMBERS = [
    ("iteration", pa.int64()),
    ("samples", pa.int64()),
    ("episodes", pa.int64()),
    ("answers", pa.int64()),
    ("regret", pa.float64()),
    ("bound", pa.float64()),
    ("infeasibility", pa.float64()),
    ("planner_gap", pa.float64()),
    ("stopped", pa.string()),
]
LABELS = [("plan", pa.string()), ("target", pa.string())]
SCHEMA = pa.schema([*NAMES, *NUMBERS, *LABELS, ("visits", pa.list_(pa.int64()))])


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
        return carry_out(cell)
    except Exception as error:
        path = getattr(cell, "path", "")  # of a method of one's own
        said = cause(error, path) if path else f"{type(error).__name__}: {error}"
        return Failed(cell, cell.key, " ".join(said.split()), traceback.format_exc())


def get_ready(_: object) -> None:
    """What a new process does first: load this module, and see to it that its end takes no time."""
    atexit.register(gc.freeze)


@singledispatch
def warm_up(cell: Work) -> None:
    """Compile what a run needs, by doing its first iteration; the compiled code is kept on disk for all processes."""
    raise TypeError(f"nobody knows how to carry out a {type(cell).__name__}")


@singledispatch
def carry_out(cell: Work) -> Finished:
    """A run, to its end; each kind of run registers its own way."""
    raise TypeError(f"nobody knows how to carry out a {type(cell).__name__}")


@warm_up.register
def _(cell: Cell) -> None:
    next(_turns(cell), None)


@carry_out.register
def _(cell: Cell) -> Finished:
    began, worked = time.perf_counter(), time.thread_time()
    records, planning, inferring, turn = [], 0.0, 0.0, None
    labels: list[tuple[str, str]] = []
    for turn, regret in _turns(cell):
        records.append((turn.record, regret))
        planning += turn.record.planning_seconds
        inferring += turn.record.inferring_seconds
    assert turn is not None
    last, counts = turn.record, turn.counts
    if cell.transfer is not None:
        found = transfer_regrets(cell, turn)
        labels, records = list(found), [(last, regret) for regret in found.values()]
    seconds = {
        "total": time.perf_counter() - began,
        "processor": time.thread_time() - worked,
        "planning": planning,
        "inferring": inferring,
    }
    return Finished(
        cell,
        cell.key,
        _parquet(cell, records, counts, labels),
        seconds,
        samples=last.samples,
        stopped=last.stopped or "",
    )


def _turns(cell: Cell) -> Iterator[tuple[Turn, float]]:
    """The turns of a run, each with the regret that this experiment measures."""
    if cell.environment not in ENVIRONMENTS:
        yield from _gym_turns(cell)
        return
    parameters = cell.parameters
    problem = make(cell.environment, cell.seed, **parameters) if parameters else _made(cell.environment, cell.seed)
    environment = Simulator(problem.mdp)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    truth = Truth(problem.mdp, problem.reward)
    if not cell.reward_free:
        for turn in learn(environment, expert, cell.settings, regret=truth.regret):
            assert turn.regret is not None
            yield turn, turn.regret
        return
    for turn in learn(environment, expert, cell.settings):
        yield turn, truth.regret(_planned(turn, truth))


@lru_cache(maxsize=8)
def _made(environment: str, seed: int) -> Problem:
    """A problem; the runs of all strategies in it follow each other."""
    return make(environment, seed)


def _gym_turns(cell: Cell) -> Iterator[tuple[Turn, float]]:
    """The same in a Gymnasium environment; the regret is by what it pays itself, whoever the expert is."""
    source = Source(cell.environment, cell.parameters, cell.seed, **{"expert": "optimal", **cell.source})
    with open_source(source) as task:
        regret = task.regret or own_regret(task)
        settings = settings_for(task, cell.settings)
        for turn in learn(task.environment, task.expert, settings, regret=regret):
            assert turn.regret is not None
            yield turn, turn.regret


def _planned(turn: Turn, truth: Truth) -> IntArray:
    """The best policy for the true reward in the process as it is estimated; what is unknown is worth nothing."""
    ties = Streams.of(turn.settings.seed, turn.iteration).ties
    return greedy_actions(action_values(turn.belief.estimate, truth.reward, unknown_step_reward=0.0), ties)


def _parquet(cell: Cell, records: list[tuple[Record, float]], counts: Counts, labels: list[tuple[str, str]]) -> bytes:
    rows = len(records)
    names: dict[str, Any] = {
        "run": cell.key,
        "environment": cell.environment,
        "strategy": cell.strategy,
        "episodes_per_iteration": cell.settings.episodes_per_iteration,
        "seed": cell.seed,
    }
    columns: dict[str, list[Any]] = {name: [value] * rows for name, value in names.items()}
    for name, _ in NUMBERS:
        columns[name] = [getattr(record, name) for record, _ in records]
    columns["regret"] = [regret for _, regret in records]
    for place, (name, _) in enumerate(LABELS):
        columns[name] = [label[place] for label in labels] or [None] * rows
    columns["visits"] = [None] * (rows - 1) + [np.asarray(counts.visits.sum(axis=(0, 2))).tolist()]
    return parquet(columns, SCHEMA, {"results": RESULTS_VERSION, **cell.model_dump()})


def parquet(columns: Mapping[str, list[Any]], schema: pa.Schema, cell: Mapping[str, Any]) -> bytes:
    """A table as the bytes of a file, with all that determines its run in the metadata."""
    metadata = {CELL: json.dumps(cell, sort_keys=True)}
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=schema.with_metadata(metadata)), buffer, compression="zstd")
    return bytes(buffer.getvalue())
