"""Episodes one after the other against episodes side by side: real steps per second, as ratios.

    python benchmarks/gym_vector.py [--only NAME] [--repeat N]

Every way plays the same number of episodes of the uniform policy through the adapter, in turns; a row gives the median
of its ratios to `one by one` in the same turn, and the lowest and highest of them. Only steps of episodes that are not
over count. Processes are set up as `aceirl run --copies` does, and before the clock starts. No way can gain more from
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

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from aceirl.collect import Plan, collect
from aceirl.counts import Counts
from aceirl.envs.discretise import Bins
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.envs.vector import GymVectorEnvironment, Resting
from aceirl.experts import FunctionExpert
from aceirl.sources import Source, gym_env

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
        "MiniGrid-Empty-8x8": Case(named("MiniGrid-Empty-8x8-v0", 60), 60, 64),
        "CartPole": Case(named("CartPole-v1", 100), 100, 192, bins, native="CartPole-v1"),
        "0.1 ms of work": Case(partial(Slow, millisecond // 10), 50, 64),
        "1 ms of work": Case(partial(Slow, millisecond), 50, 16),
        "1 ms of work, any length": Case(partial(Slow, millisecond, ending=0.1), 50, 64),
        "10 ms of work": Case(partial(Slow, 10 * millisecond), 10, 8),
        "1 ms of waiting": Case(partial(Slow, waiting=0.001), 50, 16),
    }


def ways(case: Case, stack: ExitStack) -> dict[str, GymEnvironment]:
    """The environment once for every way of playing it; the stack closes them."""
    plain = case.make()
    bins = None if case.bins is None else Bins.of(case.bins, plain.observation_space)

    def vector(env: Any) -> GymVectorEnvironment:
        environment = GymVectorEnvironment(env, horizon=case.horizon, discretise=bins)
        stack.callback(environment.close)
        return environment

    found = {"one by one": GymEnvironment(plain, horizon=case.horizon, discretise=bins)}
    found["sync, 8"] = vector(SyncVectorEnv([case.make] * 8))
    found["sync and resting, 8"] = vector(SyncVectorEnv([lambda: Resting(case.make())] * 8))
    for copies in (2, 8):
        workers = AsyncVectorEnv([lambda: Resting(case.make())] * copies, shared_memory=False)
        found[f"processes, {copies}"] = vector(workers)
    if case.native is not None:
        for copies in (8, 64):
            env = gymnasium.make_vec(case.native, copies, "vector_entry_point", max_episode_steps=case.horizon)
            found[f"native, {copies}"] = vector(env)
    return found


def steps_per_second(environment: GymEnvironment, episodes: int, seed: int) -> float:
    """Real steps, by the clock on the wall."""
    shape = (environment.horizon, 1, environment.n_actions)
    plan = Plan(policy=np.full(shape, 1 / environment.n_actions), ask=False)
    expert = FunctionExpert(lambda step, state: 0)
    environment.recall(())
    began = time.perf_counter()
    seen = collect(environment, expert, plan, episodes, Counts.empty(shape), np.random.default_rng(seed))
    return seen.counts.samples / (time.perf_counter() - began)


def gain_of_two(pool: ProcessPoolExecutor, amount: int) -> float:
    """How much more work two processes do than one, in the same time."""
    times = []
    for share in (1, 2):
        began = time.perf_counter()
        list(pool.map(work, [amount] * share))
        times.append(time.perf_counter() - began)
    return 2 * times[0] / times[1]


def main() -> None:
    """Measure what was asked for, and print a table of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only")
    parser.add_argument("--repeat", type=int, default=9)
    chosen = parser.parse_args()
    print(f"gymnasium {gymnasium.__version__}, {os.cpu_count()} cores, {chosen.repeat} turns")
    bare = amount_of_work(100.0)
    print("| environment | way | steps per second | times one by one | lowest to highest |")
    print("| --- | --- | ---: | ---: | ---: |")
    for name, case in cases().items():
        if chosen.only not in (None, name):
            continue
        with ExitStack() as stack:
            pool = stack.enter_context(ProcessPoolExecutor(2))
            environments = ways(case, stack)
            gains: list[float] = []
            speeds: dict[str, list[float]] = {way: [] for way in environments}
            for turn in range(chosen.repeat + 1):
                gains.append(gain_of_two(pool, bare))
                for way, environment in environments.items():
                    speed = steps_per_second(environment, case.episodes, turn)
                    if turn:  # the first warms up
                        speeds[way].append(speed)
        for way, measured in speeds.items():
            ratios = [speed / alone for speed, alone in zip(measured, speeds["one by one"], strict=True)]
            show(name, way, f"{statistics.median(measured):,.0f}", ratios)
        show(name, "bare work, 2", "", gains[1:])


def show(name: str, way: str, speed: str, ratios: list[float]) -> None:
    """A row of the table."""
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"| {name} | {way} | {speed} | {statistics.median(ratios):.2f} | {spread} |", flush=True)


if __name__ == "__main__":
    main()
