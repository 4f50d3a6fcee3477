"""Warehouses of a thousand to 300,000 states, default settings: seconds and memory of every part of a run.

    python benchmarks/large.py [--states N ...] [--samples N]
    python benchmarks/large.py --sweep [--runs N]

The learner has 100,000 steps in each warehouse and does not know how many states there are; "met" are those it met.
Explore is all of `fit` but inferring rewards; say is the wish and the sentences of `show`; transfer plans in the same
warehouse from another start, and finds its model by trying every action everywhere. Seconds are those of the processor,
in one process; each warehouse has a process of its own, whose largest memory is that of all parts up to then. "Right"
is whether the sentence is bold and names the dock and nothing else, or a set with the dock in it; "in part", if it
names the column or the row of the dock alone. The last row is the exponent
with which seconds grow with the states, from the second warehouse to the last.

With `--sweep`: runs of an environment of one's own on a local Dask cluster of four workers, one of which is killed
twice, beside the same runs one after the other.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import _frame as frame

import aceirl
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, sweep
from aceirl.irl import SparseLikelihood
from aceirl.rewards import Recovered
from studies.large import HORIZON, SIZES, Warehouse, cells, driver, killed_sweep

PLACE = {"column = 0", "row = 0"}
DOCK = PLACE | {"carrying = 1"}

PARTS = ("explore", "infer", "certify", "say", "transfer", "show")

T = TypeVar("T")


@dataclass(frozen=True)
class TimedInference(SparseLikelihood):
    """The default algorithm, which writes down how long each inference took."""

    seconds: list[float] = field(default_factory=list)

    def __call__(self, *arguments: Any) -> Recovered:
        """The reward."""
        began = time.process_time()
        found = super().__call__(*arguments)
        self.seconds.append(time.process_time() - began)
        return found


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """A process for each warehouse, or the sweep."""
    if options.one is not None:
        print(json.dumps(one_world(options.one, options.samples)))
        return
    if options.sweep:
        killed(options.runs, report)
        return
    table = report.table(
        "large",
        frame.number("states"),
        frame.number("met"),
        *(frame.number(f"{part}, s", "{:.2f}") for part in PARTS),
        frame.number("all, s", "{:.1f}"),
        frame.number("memory, GB", "{:.2f}"),
        frame.Column("right"),
        page="large.md",
    )
    found = []
    for states in options.states:
        command = [sys.executable, __file__, "--one", str(states), "--samples", str(options.samples)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(done.stdout.splitlines()[-1])
        found.append((states, row))
        table.add(states, row["met"], *(row[part] for part in PARTS), total(row), row["memory"], row["right"])
    if len(found) > 2:
        (small, first), (large, last) = found[1], found[-1]
        power = math.log(total(last) / total(first)) / math.log(large / small)
        grown = [math.log(last[part] / first[part]) / math.log(large / small) for part in PARTS]
        table.add(None, None, *grown, power, None, None)


def total(row: dict[str, Any]) -> float:
    """The seconds of all parts."""
    return float(sum(row[part] for part in PARTS))


def one_world(states: int, samples: int) -> dict[str, Any]:
    """The parts of one run, and the largest memory."""
    width, charges = SIZES[states]
    everything(Warehouse(4, 2), 4, 300, 10, {})  # it may have to compile
    seconds: dict[str, float] = {}
    result = everything(Warehouse(width, charges), width, samples, HORIZON, seconds)
    wish = result.turn.wish
    # "The sooner the better" is true of whoever is paid at every step; all else must be of the dock.
    said = [one for one in wish.named if one.claim.what != "hurry"]
    conditions = [set((one.words or one.claim.what).split(" and ")) for one in said]
    print(*result.sentences, sep="\n", file=sys.stderr)
    right, together = "no", set().union(*conditions)
    if wish.kind == "set" and any(PLACE <= one <= DOCK for one in conditions):
        right = "one of a set"
    if wish.kind == "bold" and together and together <= DOCK:
        right = "yes" if together >= PLACE else "in part"
    return {
        **seconds,
        "met": result.turn.counts.shape[1] - 1,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "right": right,
    }


def everything(env: Warehouse, width: int, samples: int, horizon: int, seconds: dict[str, float]) -> Any:
    """A run with all that follows it; the seconds of each part are written down."""

    def timed(part: str, work: Callable[[], T]) -> T:
        began = time.process_time()
        found = work()
        seconds[part] = time.process_time() - began
        return found

    inferring, expert = TimedInference(), driver(width)
    learner = aceirl.ActiveIRL(max_samples=samples, irl=inferring)
    result = timed("explore", lambda: learner.fit(env, expert, horizon=horizon))
    seconds["infer"] = sum(inferring.seconds)
    seconds["explore"] -= seconds["infer"]
    timed("certify", lambda: result.certificate)
    timed("say", lambda: result.sentences)
    timed("transfer", lambda: result.transfer(Warehouse(width, env.charges), start=(width - 1, 0, 1, 0)).in_words())
    timed("show", result.plot)
    return result


def killed(runs: int, report: frame.Report) -> None:
    """The sweep with a worker killed twice, beside the undisturbed one."""
    table = report.table(
        "large-sweep",
        frame.Column("sweep"),
        frame.number("runs"),
        frame.number("finished"),
        frame.number("failed"),
        frame.number("files"),
        frame.Column("the same bytes"),
        frame.number("time", frame.seconds),
    )
    some = cells(runs)
    with tempfile.TemporaryDirectory() as folder:
        serial, cluster = Path(folder) / "serial", Path(folder) / "cluster"
        began = time.perf_counter()
        *_, last = sweep(some, Store(serial), Here())
        table.add("one after the other", runs, last.finished, last.failed, len(files(serial)), None, since(began))
        began = time.perf_counter()
        finished, failed = killed_sweep(some, Store(cluster), 4)
        same = "all" if files(cluster) == files(serial) else "no"
        name = "four workers, one killed twice"
        table.add(name, runs, finished, failed, len(files(cluster)), same, since(began))


def since(began: float) -> float:
    return time.perf_counter() - began


def files(folder: Path) -> dict[str, bytes]:
    """The results by their names."""
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--states", part=True, type=int, nargs="+", default=list(SIZES), choices=list(SIZES)),
        frame.argument("--samples", part=True, type=int, default=100_000),
        frame.argument("--sweep", action="store_true", help="the sweep on killed workers instead"),
        frame.argument("--runs", part=True, type=int, default=200),
        frame.argument("--one", part=True, type=int, help=argparse.SUPPRESS),
    )
