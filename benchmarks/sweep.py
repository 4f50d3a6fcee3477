"""Two workers against one on a sweep of Four Paths, side by side, and what both cores give a plain busy loop.

    python benchmarks/sweep.py [--seeds N] [--rounds N] [--dask]

The last column says how much a second core is worth on this machine while the benchmark runs: no sweep can do better.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

import _frame as frame

from aceirl.bench.paper import SPECS
from aceirl.bench.specs import Cell
from aceirl.bench.store import Store
from aceirl.bench.sweep import Processes, Workers, compile_once, sweep

STRATEGIES = ("random", "greedy", "advice", "uniform")


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """Rounds in which one worker and two do the same runs, and one process and two the same arithmetic."""
    scenario = next(s for s in SPECS["table1"].scenarios if s.name == "four-paths-released-50")
    cells = [scenario.cell(strategy, seed) for seed in range(options.seeds) for strategy in STRATEGIES]
    compile_once(cells)
    table = report.table(
        "sweep",
        frame.number("round"),
        frame.number("one worker, runs a second", "{:.2f}"),
        frame.number("two workers", "{:.2f}"),
        frame.number("ratio", "{:.2f}"),
        frame.number("busy loop, two processes over one", "{:.2f}"),
    )
    for number in range(options.rounds):
        one, two = (runs_per_second(cells, workers(n, options.dask)) for n in (1, 2))
        table.add(number + 1, one, two, two / one, busy_loops(2) / busy_loops(1))


def workers(number: int, dask: bool) -> Workers:
    if dask:
        from aceirl.bench.cluster import LocalCluster

        return LocalCluster(number)
    return Processes(number)


def runs_per_second(cells: list[Cell], doing: Workers) -> float:
    """Throughput from the first result to the last, so that starting the workers does not count."""
    with tempfile.TemporaryDirectory() as folder:
        moments = [time.perf_counter() for progress in sweep(cells, Store(Path(folder)), doing) if progress.outcome]
    return (len(moments) - 1) / (moments[-1] - moments[0])


def busy_loops(processes: int) -> float:
    """How many equal pieces of arithmetic this many processes do in a second."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(_spin, [1] * processes)
        began = time.perf_counter()
        pool.map(_spin, [2_000_000] * 4 * processes, chunksize=1)
        return 4 * processes / (time.perf_counter() - began)


def _spin(steps: int) -> int:
    total = 0
    for i in range(steps):
        total += i
    return total


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=12),
        frame.argument("--rounds", type=int, default=3),
        frame.argument("--dask", action="store_true", help="on local Dask clusters instead of joblib"),
    )
