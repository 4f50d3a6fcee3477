"""Two workers against one on a sweep of Four Paths, side by side, and what both cores give a plain busy loop.

The last figure says how much a second core is worth on this machine while the benchmark runs: no sweep can do better.
Run: `python benchmarks/sweep.py [--seeds 12] [--dask]`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

from aceirl.experiments.specs import SPECS, Cell
from aceirl.experiments.store import Store
from aceirl.experiments.sweep import Processes, Workers, compile_once, sweep

STRATEGIES = ("random", "greedy", "advice", "uniform")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dask", action="store_true", help="on local Dask clusters instead of joblib")
    options = parser.parse_args()
    setting = next(s for s in SPECS["table1"].settings if s.name == "four-paths-released-50")
    cells = [setting.cell(strategy, seed) for seed in range(options.seeds) for strategy in STRATEGIES]
    compile_once(cells)
    ratios, idle = [], []
    for number in range(options.rounds):
        one, two = (runs_per_second(cells, workers(n, options.dask)) for n in (1, 2))
        ratios.append(two / one)
        idle.append(busy_loops(2) / busy_loops(1))
        print(f"round {number + 1}: one worker {one:.2f} runs/s, two {two:.2f}, ratio {ratios[-1]:.2f};", end=" ")
        print(f"a busy loop on two processes against one: {idle[-1]:.2f}", flush=True)
    print(f"best ratio {max(ratios):.2f}, median {sorted(ratios)[len(ratios) // 2]:.2f} (busy loop {max(idle):.2f})")


def workers(number: int, dask: bool) -> Workers:
    if dask:
        from aceirl.experiments.cluster import LocalCluster

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
    main()
