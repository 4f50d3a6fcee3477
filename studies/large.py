"""Warehouses of any size, a driver who knows them, and sweeps of them on workers that are killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from aceirl.bench.cluster import Cluster, local_cluster
from aceirl.bench.specs import Scenario
from aceirl.bench.store import Store
from aceirl.bench.sweep import compile_once, sweep
from aceirl.bench.work import Work

MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))

HORIZON = 60

SHELVED = 4
"""One cell of so many is a shelf."""

PATIENCE = 120.0
"""Seconds that a killed worker may take to come back."""

SIZES = {1_056: (8, 11), 4_992: (16, 13), 10_368: (16, 27), 100_224: (16, 261), 300_288: (16, 782)}
"""By the number of states: the width of the floor, and how many steps a battery lasts."""

Cell = tuple[int, int]


@dataclass(frozen=True)
class Floor:
    """A square floor with shelves, drawn by a seed: all `cells` without one can be reached from each other.

    Boxes are at the `depot`, and the `dock` has a shelf or a wall beside it, so that one can stay there.
    """

    width: int
    seed: int
    cells: frozenset[Cell]
    dock: Cell
    depot: Cell

    @classmethod
    def drawn(cls, width: int, seed: int) -> Floor:
        """Shelves two to four cells long; the dock and the depot anywhere, but so that there is time to deliver.

        That is, if the depot is not beside the dock, and from anywhere three quarters of an episode are enough.
        """
        rng = np.random.default_rng([seed, width])
        cells, wanted = frozenset(product(range(width), range(width))), width * width - width * width // SHELVED
        while len(cells) > wanted:
            (across, up), (column, row) = MOVES[int(rng.integers(2))], rng.integers(width, size=2).tolist()
            length = min(int(rng.integers(2, 5)), len(cells) - wanted)
            shelf = {(column + k * across, row + k * up) for k in range(length)}
            left = cells - shelf
            if shelf <= cells and len(distances(left, min(left))) == len(left):
                cells = left
        sides = [cell for cell in sorted(cells) if any(after(cells, cell, action) == cell for action in range(4))]
        far = {cell: distances(cells, cell) for cell in sorted(cells)}
        pairs = [
            (dock, depot)
            for dock in sides
            for depot, ways in far.items()
            if ways[dock] >= width // 2 and 4 * (max(ways.values()) + ways[dock]) <= 3 * HORIZON
        ]
        return cls(width, seed, cells, *pairs[int(rng.integers(len(pairs)))])


def after(cells: frozenset[Cell], cell: Cell, action: int) -> Cell:
    """Where a step to the right, up, to the left or down leads: nowhere, if there is a shelf or a wall."""
    there = cell[0] + MOVES[action][0], cell[1] + MOVES[action][1]
    return there if there in cells else cell


def distances(cells: frozenset[Cell], goal: Cell) -> dict[Cell, int]:
    """How many steps the goal is away from each cell from which it can be reached."""
    found, waiting = {goal: 0}, [goal]
    for cell in waiting:  # grows while it is walked through
        for action in range(4):
            there = after(cells, cell, action)
            if there not in found:
                found[there] = found[cell] + 1
                waiting.append(there)
    return found


class Warehouse(gymnasium.Env[Any, Any]):
    """Fetch a box from the depot, and wait with it at the dock.

    Whoever is at the depot takes a box on board. The battery loses a unit a step, and an empty one is changed for a
    full one. Each step at the dock with a box on board pays 1. Episodes start anywhere, or at the `start`.
    """

    fields = ("column", "row", "carrying", "battery")

    def __init__(self, width: int = 8, charges: int = 4, seed: int = 0, start: Cell | None = None) -> None:
        self.floor, self.charges, self.start = Floor.drawn(width, seed), charges, start
        self.observation_space = spaces.MultiDiscrete([width, width, 2, charges])
        self.action_space = spaces.Discrete(4)
        self.cell, self.carrying, self.battery = self.floor.dock, 0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[int, ...], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.cell, self.carrying, self.battery = self.start or self.floor.dock, 0, 0
        if self.start is None:
            anywhere = sorted(self.floor.cells)
            self.cell = anywhere[int(self.np_random.integers(len(anywhere)))]
            self.battery = int(self.np_random.integers(self.charges))
        return self._arrived(), {}

    def step(self, action: int) -> tuple[tuple[int, ...], float, bool, bool, dict[str, Any]]:
        """Go right, up, left or down."""
        paid = float(self.carrying and self.cell == self.floor.dock)
        self.cell, self.battery = after(self.floor.cells, self.cell, action), (self.battery - 1) % self.charges
        return self._arrived(), paid, False, False, {}

    def _arrived(self) -> tuple[int, ...]:
        """What is seen at the cell, where there may be a box to be taken."""
        self.carrying = max(self.carrying, int(self.cell == self.floor.depot))
        return *self.cell, self.carrying, self.battery


def driver(floor: Floor, *, by_order: bool = False) -> Callable[[Any], int]:
    """Whoever takes a shortest way to the depot and, with a box, to the dock, and stays there: there is no quicker way.

    Of equally short ones each cell has one, drawn at random, which is always taken; or, `by_order`, the first.
    """
    rng = np.random.default_rng([floor.seed, floor.width, 1])
    chosen: dict[tuple[int, ...], int] = {}
    for carrying, goal in enumerate((floor.depot, floor.dock)):
        far = distances(floor.cells, goal)
        for cell in sorted(floor.cells):
            ways = [far[after(floor.cells, cell, action)] for action in range(4)]
            best = [action for action, way in enumerate(ways) if way == min(ways)]
            chosen[*cell, carrying] = best[0 if by_order else int(rng.integers(len(best)))]
    return lambda seen: chosen[*seen[:3]]


def small_warehouse() -> Warehouse:
    """One for sweeps, with one start: its model is found by search."""
    return Warehouse(4, 2, start=Floor.drawn(4, 0).dock)


small_driver = driver(Floor.drawn(4, 0))


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
