"""Warehouses of any size, a driver who knows them, and sweeps of them on workers that are killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium import spaces

from aceirl.bench.cluster import Cluster, local_cluster
from aceirl.bench.specs import Scenario
from aceirl.bench.store import Store
from aceirl.bench.sweep import compile_once, sweep
from aceirl.bench.work import Work

MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))

HORIZON = 60

PATIENCE = 120.0
"""Seconds that a killed worker may take to come back."""

SIZES = {1_024: (8, 8), 10_240: (16, 20), 102_400: (16, 200), 301_056: (16, 588)}
"""By the number of states: the width of the floor, and how many steps a battery lasts."""


class Warehouse(gymnasium.Env[Any, Any]):
    """Fetch a box from the upper right corner, and wait with it at the dock in the lower left one.

    Whoever comes to the corner takes a box on board. The battery loses a unit a step, and an empty one is changed for a
    full one. Each step at the dock with a box on board pays 1. Episodes start anywhere, without a box, or at the
    `start` (column, row).
    """

    fields = ("column", "row", "carrying", "battery")

    def __init__(self, width: int = 8, charges: int = 4, start: tuple[int, int] | None = None) -> None:
        self.width, self.charges, self.start = width, charges, start
        self.observation_space = spaces.MultiDiscrete([width, width, 2, charges])
        self.action_space = spaces.Discrete(4)
        self.column = self.row = self.carrying = self.battery = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[int, ...], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.carrying, self.battery = 0, 0
        if self.start is None:
            self.column, self.row = self.np_random.integers(self.width, size=2).tolist()
            self.battery = int(self.np_random.integers(self.charges))
        else:
            self.column, self.row = self.start
        return self._seen, {}

    def step(self, action: int) -> tuple[tuple[int, ...], float, bool, bool, dict[str, Any]]:
        """Go right, up, left or down."""
        across, up = MOVES[action]
        self.column = min(max(self.column + across, 0), self.width - 1)
        self.row = min(max(self.row + up, 0), self.width - 1)
        if self.column == self.row == self.width - 1:
            self.carrying = 1
        self.battery = (self.battery - 1) % self.charges
        return self._seen, float(self.column == self.row == 0 and self.carrying), False, False, {}

    @property
    def _seen(self) -> tuple[int, ...]:
        return self.column, self.row, self.carrying, self.battery


def driver(width: int) -> Callable[[Any], int]:
    """Whoever goes right and then up for a box, and left and then down with it: there is no quicker way."""

    def drive(seen: Any) -> int:
        column, _, carrying, _ = seen
        if carrying:
            return 2 if column > 0 else 3
        return 0 if column < width - 1 else 1

    return drive


def small_warehouse() -> Warehouse:
    """One for sweeps, with one start: its model is found by search."""
    return Warehouse(4, 2, start=(1, 0))


small_driver = driver(4)


def cells(runs: int, max_samples: int = 240) -> list[Work]:
    """So many runs of the small warehouse, which differ in their seeds."""
    scenario = Scenario(
        name="warehouse",
        title="A small warehouse",
        environment="studies.large:small_warehouse",
        choices={"max_samples": max_samples, "certify": None},
        source={"expert": "studies.large:small_driver", "horizon": 12},
    )
    return [scenario.cell("guided", seed) for seed in range(runs)]


def killed_sweep(some: Sequence[Work], store: Store, workers: int) -> tuple[int, int]:
    """`(finished, failed)` of a sweep on a local Dask cluster, of which one worker is killed twice at work.

    There are two waves of runs, and it is killed when a quarter of each is done. Dask starts another process in its
    place, which is waited for after each wave: a cluster that is closed while a worker starts may never end.
    """
    compile_once(some)
    finished, failed, killed = 0, 0, [0]
    with local_cluster(workers) as cluster:
        victim = cluster.workers[0]
        for wave in (some[: len(some) // 2], some[len(some) // 2 :]):
            alive = victim.pid
            for progress in sweep(wave, store, Cluster(cluster.scheduler_address)):
                if alive not in killed and progress.finished >= len(wave) // 4:
                    os.kill(alive, signal.SIGKILL)
                    killed.append(alive)
            finished, failed = finished + progress.finished, failed + progress.failed
            _wait_for_another(victim, killed)
    return finished, failed


def _wait_for_another(worker: Any, killed: Sequence[int]) -> None:
    """Until another process has taken the place of those that were killed, and works."""
    deadline = time.monotonic() + PATIENCE
    while worker.pid in (None, *killed) or worker.status.name != "running":
        if time.monotonic() > deadline:
            raise RuntimeError(f"no process took the place of the killed one in {PATIENCE:.0f} seconds")
        time.sleep(0.1)
