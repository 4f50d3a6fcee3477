"""Samples to the default certificate, by this version of the package and by an earlier one.

    python benchmarks/before_and_after.py --against SRC [--seeds N] [--first SEED] [--only WORD ...]

SRC is the source folder of the earlier version. Both run with their own defaults and the same seeds, in turns. The docs
compare with the version that took every new successor of a row for a new state:

    git worktree add ../before c643994
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _frame as frame
import gymnasium
import numpy as np
from gymnasium import spaces

from aceirl import ActiveIRL

MAX_SAMPLES = 60_000


class Inventory(gymnasium.Env[Any, Any]):
    """31 stocks of one article, up to 9 pieces ordered a day, a demand of three a day."""

    observation_space, action_space = spaces.Discrete(31), spaces.Discrete(10)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Begin with any stock."""
        super().reset(seed=seed)
        self.stock = int(self.np_random.integers(31))
        return self.stock, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """A day."""
        self.stock = max(0, min(30, self.stock + int(action)) - int(self.np_random.poisson(3)))
        return self.stock, float(-abs(self.stock - 12)), False, False, {}


class Queue(gymnasium.Env[Any, Any]):
    """The lengths of two queues, up to five; a customer is sent to one of them at each step."""

    observation_space, action_space = spaces.MultiDiscrete([6, 6]), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[tuple[int, ...], dict[str, Any]]:
        """Begin with nobody."""
        super().reset(seed=seed)
        self.lengths = [0, 0]
        return tuple(self.lengths), {}

    def step(self, action: int) -> tuple[tuple[int, ...], float, bool, bool, dict[str, Any]]:
        """One customer comes, and each server may be done with one."""
        self.lengths[action] = min(5, self.lengths[action] + 1)
        for server, speed in enumerate((0.7, 0.4)):
            self.lengths[server] -= int(self.lengths[server] > 0 and self.np_random.random() < speed)
        return tuple(self.lengths), -float(sum(self.lengths)), False, False, {}


def ordered(stock: int) -> int:
    """Up to twelve pieces are kept."""
    return int(np.clip(12 - stock, 0, 9))


def sent(lengths: Any) -> int:
    """To the slower server only where the other has a longer queue by two."""
    return int(lengths[0] > lengths[1] + 1)


ENVIRONMENTS: dict[str, Callable[[], tuple[Any, Any, int | None]]] = {
    "random-mdp": lambda: ("random-mdp", None, None),
    "gridworld": lambda: ("gridworld", None, None),
    "chain": lambda: ("chain", None, None),
    "double-chain": lambda: ("double-chain", None, None),
    "four-paths": lambda: ("four-paths", None, None),
    "FrozenLake": lambda: ("FrozenLake-v1", "optimal", None),
    "FrozenLake 8×8": lambda: ("FrozenLake8x8-v1", "optimal", None),
    "CliffWalking": lambda: ("CliffWalking-v1", "optimal", 30),
    "small-taxi": lambda: ("small-taxi", None, None),
    "Blackjack": lambda: ("Blackjack-v1", "optimal", 5),
    "inventory": lambda: (Inventory(), ordered, 40),
    "queue": lambda: (Queue(), sent, 15),
}
"""Environment, expert and horizon; those of ours have both of their own."""


def samples(name: str, seed: int) -> int | None:
    """Samples until the default certificate stops a run; None if it did not."""
    environment, expert, horizon = ENVIRONMENTS[name]()
    result = ActiveIRL(seed=seed, max_samples=MAX_SAMPLES).fit(environment, expert, horizon=horizon)
    return result.samples if result.turn.stopped == "certificate" else None


def by_version(source: Path, name: str, seeds: int, first: int) -> list[int | None]:
    """The samples of each seed, by the version of the package in a folder."""
    process = subprocess.run(
        [sys.executable, __file__, "--worker", name, "--seeds", str(seeds), "--first", str(first)],
        env={**os.environ, "PYTHONPATH": str(source.resolve())},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return list(json.loads(process.stdout))


def measure(options: argparse.Namespace, report: frame.Report) -> int | None:
    """One row for each environment."""
    if options.worker:
        print(
            json.dumps([samples(options.worker, seed) for seed in range(options.first, options.first + options.seeds)])
        )
        return None
    if options.against is None or not (options.against / "aceirl").is_dir():
        raise SystemExit("--against names the folder that has the package aceirl of the earlier version in it")
    table = report.table(
        "before-and-after",
        frame.Column("environment"),
        frame.number(f"before: samples, median of {options.seeds}", "{:,.0f}"),
        frame.number("now", "{:,.0f}"),
        frame.number("ratio of the medians", "{:.2f}"),
        frame.number("certified before"),
        frame.number("now"),
        page="certificates.md",
    )
    for name in ENVIRONMENTS:
        if options.only and not any(word in name for word in options.only):
            continue
        sources = options.against, frame.ROOT / "src"
        before, now = (by_version(path, name, options.seeds, options.first) for path in sources)
        middles = [statistics.median(MAX_SAMPLES if one is None else one for one in runs) for runs in (before, now)]
        certified = [sum(one is not None for one in runs) for runs in (before, now)]
        table.add(name, *middles, middles[1] / middles[0], *certified)
    return None


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--against", type=Path, metavar="SRC", help="the earlier version"),
        frame.argument("--seeds", type=int, default=5),
        frame.argument("--first", type=int, default=0, help="the first seed"),
        frame.argument("--only", part=True, nargs="+", metavar="WORD", help="environments with one of the words"),
        frame.argument("--worker", help=argparse.SUPPRESS),
    )
