"""Episodes one after the other against episodes side by side: real steps per second, as ratios.

    python benchmarks/gym_vector.py [--only NAME ...] [--rounds N]

Every way plays the same number of episodes of the uniform policy through the adapter, in turns; a row gives the median
of its ratios to `one by one` in the same turn, and the lowest and highest of them. Only steps of episodes that are not
over count. Processes are set up as `aceirl run --num-envs` does, and before the clock starts. No way can gain more from
two processes than the machine gives, so each turn also measures that: `bare work, 2` is the work that two processes do
in the time in which one does 1. MiniGrid needs `pip install minigrid`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import _frame as frame
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from aceirl.envs.gymnasium import GymAdapter, GymEnvironment
from aceirl.envs.vector import GymVectorEnvironment, Resting
from aceirl.experts import FunctionExpert
from aceirl.experts.tasks import Source, gym_env
from aceirl.irl.belief import Plan
from aceirl.models.tabular.bins import Bins
from aceirl.models.tabular.counts import Counts
from studies.collecting import collected

Make = Callable[[], gymnasium.Env[Any, Any]]


class Slow(gymnasium.Env[Any, Any]):
    """A ring of rooms in which every step takes `work` or waits, and ends the episode with probability `ending`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, work: int = 0, ending: float = 0.0, waiting: float = 0.0) -> None:
        self.work, self.ending, self.waiting, self.room = work, ending, waiting, 0
        self.observation_space, self.action_space = spaces.Discrete(10), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.room = 0
        return self.room, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        work(self.work)
        if self.waiting:
            time.sleep(self.waiting)
        self.room = (self.room + (1 if action else -1)) % 10
        return self.room, 0.0, bool(self.np_random.random() < self.ending), False, {}


def work(amount: int) -> int:
    """Keep a core busy."""
    return sum(number * number for number in range(amount))


def amount_of_work(milliseconds: float) -> int:
    """How much `work` takes that long on this machine, when nobody disturbs it."""

    def seconds() -> float:
        began = time.perf_counter()
        work(10_000)
        return time.perf_counter() - began

    return int(10_000 * milliseconds / 1000 / min(seconds() for _ in range(50)))


@dataclass(frozen=True)
class Case:
    """An environment, how long its episodes are and how many are played; if it can, as a vector by nature."""

    make: Make
    horizon: int
    episodes: int
    bins: str | None = None
    native: str | None = None


def cases() -> dict[str, Case]:
    """What is measured. The numbers of episodes fill whole rounds of 64, or of 8 where a step is slow."""

    def named(name: str, horizon: int) -> Make:
        return partial(gym_env, Source(name, {}, seed=0, horizon=horizon))

    bins = "-2.4:2.4:3,-3:3:3,-0.21:0.21:6,-3:3:6"
    millisecond = amount_of_work(1.0)
    return {
        "FrozenLake": Case(named("FrozenLake-v1", 100), 100, 640),
        "CartPole, in bins": Case(named("CartPole-v1", 100), 100, 192, bins, native="CartPole-v1"),
        "MiniGrid-Empty-8x8": Case(named("MiniGrid-Empty-8x8-v0", 60), 60, 64),
        "0.1 ms of work a step": Case(partial(Slow, millisecond // 10), 50, 64),
        "1 ms of work a step": Case(partial(Slow, millisecond), 50, 16),
        "1 ms, episodes of very different length": Case(partial(Slow, millisecond, ending=0.1), 50, 64),
        "10 ms of work a step": Case(partial(Slow, 10 * millisecond), 10, 8),
        "1 ms of waiting a step": Case(partial(Slow, waiting=0.001), 50, 16),
    }


def ways(case: Case, stack: ExitStack) -> dict[str, GymAdapter]:
    """The environment once for every way of playing it; the stack closes them."""
    plain = case.make()
    bins = None if case.bins is None else Bins.of(case.bins, plain.observation_space)

    def vector(env: Any) -> GymVectorEnvironment:
        environment = GymVectorEnvironment(env, horizon=case.horizon, discretise=bins)
        stack.callback(environment.close)
        return environment

    found: dict[str, GymAdapter] = {"one by one": GymEnvironment(plain, horizon=case.horizon, discretise=bins)}
    found["sync, 8"] = vector(SyncVectorEnv([case.make] * 8))
    found["sync and resting, 8"] = vector(SyncVectorEnv([lambda: Resting(case.make())] * 8))
    for number in (2, 8):
        workers = AsyncVectorEnv([lambda: Resting(case.make())] * number, shared_memory=False)
        found[f"processes, {number}"] = vector(workers)
    if case.native is not None:
        for number in (8, 64):
            env = gymnasium.make_vec(case.native, number, "vector_entry_point", max_episode_steps=case.horizon)
            found[f"native, {number}"] = vector(env)
    return found


def steps_per_second(environment: GymAdapter, episodes: int, seed: int) -> float:
    """Real steps, by the clock on the wall."""
    shape = (environment.horizon, 1, environment.n_actions)
    plan = Plan(policy=np.full(shape, 1 / environment.n_actions), ask=False)
    expert = FunctionExpert(lambda step, state: 0)
    environment.states.recall(())
    began = time.perf_counter()
    seen = collected(environment, expert, plan, episodes, Counts.empty(shape), np.random.default_rng(seed))
    return seen.counts.samples / (time.perf_counter() - began)


def gain_of_two(pool: ProcessPoolExecutor, amount: int) -> float:
    """How much more work two processes do than one, in the same time."""
    times = []
    for share in (1, 2):
        began = time.perf_counter()
        list(pool.map(work, [amount] * share))
        times.append(time.perf_counter() - began)
    return 2 * times[0] / times[1]


COLUMNS = {
    "sync, 8": "`SyncVectorEnv`, 8",
    "sync and resting, 8": "the same, resting",
    "processes, 2": "2 processes",
    "processes, 8": "8 processes",
    "native, 8": "native, 8",
    "native, 64": "native, 64",
}


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """Every way in every environment, and once more what the docs show of it."""
    print(f"gymnasium {gymnasium.__version__}, {os.cpu_count()} cores, {options.rounds} rounds\n")
    bare = amount_of_work(100.0)
    table = report.table(
        "gym-vector, all figures",
        frame.Column("environment"),
        frame.Column("way"),
        frame.number("steps per second", "{:,.0f}"),
        frame.number("times one by one", "{:.2f}"),
        frame.number("lowest to highest", lambda ends: f"{ends[0]:.2f} to {ends[1]:.2f}"),
    )
    shown: dict[str, dict[str, float]] = {}
    for name, case in cases().items():
        if options.only and name not in options.only:
            continue
        speeds, gains = in_turns(case, options.rounds, bare)
        shown[name] = {}
        for way, measured in speeds.items():
            ratios = [speed / alone for speed, alone in zip(measured, speeds["one by one"], strict=True)]
            shown[name][way] = statistics.median(ratios)
            table.add(name, way, statistics.median(measured), shown[name][way], (min(ratios), max(ratios)))
        table.add(name, "bare work, 2", None, statistics.median(gains), (min(gains), max(gains)))
    heads = (frame.number(head, "{:.2f}") for head in COLUMNS.values())
    pivot = report.table("gym-vector", frame.Column("environment"), *heads, page="gymnasium.md")
    for name, found in shown.items():
        pivot.add(name, *(found.get(way) for way in COLUMNS))


def in_turns(case: Case, rounds: int, bare: int) -> tuple[dict[str, list[float]], list[float]]:
    """Steps per second of each way, and what two processes gain, round after round; the first one warms up."""
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(2))
        environments = ways(case, stack)
        gains: list[float] = []
        speeds: dict[str, list[float]] = {way: [] for way in environments}
        for turn in range(rounds + 1):
            gain = gain_of_two(pool, bare)
            measured = {
                way: steps_per_second(environment, case.episodes, turn) for way, environment in environments.items()
            }
            if turn:
                gains.append(gain)
                for way, speed in measured.items():
                    speeds[way].append(speed)
    return speeds, gains


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--only", nargs="+", metavar="NAME", part=True, help="environments; by default all"),
        frame.argument("--rounds", type=int, default=9),
    )
