"""Continuous tasks beside other libraries: what each makes of the same expert at home and where the world is changed.

    python benchmarks/continuous_peers.py --peers PYTHON [--seeds N] [--only CartPole ...] [--keep FILE]

`--peers` is the interpreter of an environment with imitation, econirl, numba, pydantic and a NumPy before 2
(`studies/peers.py`), for LunarLander with Box2D too. All are given 600 answers of the rule that is the expert, but for
DAgger, whose rounds are larger. AIRL has the steps that the table says in each world, and one seed: a step is about a
millisecond of one core. Where a method has no way to take a reward elsewhere, its policy goes there as it is. GLADIUS
chooses among a few actions, so it has no row for Pendulum. Scores are (return - random) / (our solver with the true
reward - random), over the same 20 episodes; at home the expert's return takes the solver's place. Seconds are of the
processor. With `--keep`, runs that the file has are not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np
from continuous_reward import with_true_reward
from gymnasium.spaces import Discrete

from aceirl import ActiveIRL, ContinuousResult
from aceirl.irl.deviations import recover_reward
from aceirl.learner.continuous.transfer import PLANNING, SEARCHING
from aceirl.models.vectors.episodes import TriedActions
from studies.kept import Kept
from studies.peers import ANSWERS, STEPS, mean_return, one_by_one
from studies.worlds import TASKS

FIRST_SEED = 800
NAMES = ("CartPole", "MountainCar", "Acrobot", "Pendulum", "LunarLander, engines")
THEIRS = {
    "bc": "copying, imitation",
    "dagger": "DAgger, imitation",
    "airl": f"AIRL, imitation, {STEPS:,} steps",
    "gladius": "GLADIUS, econirl",
}
OURS = "aceirl"
FEW = 1
"""The seeds of AIRL, at most: one run takes many minutes."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""One thread each, so that seconds can be compared."""


def ours(task: str, seed: int) -> dict[str, Any]:
    """The policy at home, and the plan with its reward elsewhere."""
    world, began = TASKS[task], time.process_time()
    learner = ActiveIRL(max_answers=ANSWERS, certify=None, seed=seed)
    learned = learner.fit(world.home(), world.rule, horizon=world.home().spec.max_episode_steps)
    assert isinstance(learned, ContinuousResult)
    silent = learned.without_asking()
    planned = silent.transfer(world.away())
    seconds = time.process_time() - began
    return {
        "home": mean_return(world.home, lambda seen: learned.predict(seen)[0]),
        "away": mean_return(world.away, one_by_one(planned.predict)),
        "answers": learned.answers,
        "steps": learned.samples + silent.recovered.steps,
        "steps away": planned.steps,
        "seconds": seconds,
    }


def theirs(python: Path, method: str, task: str, seed: int) -> dict[str, Any]:
    """The same of another library, in its own environment."""
    done = subprocess.run(
        [str(python), "-m", "studies.peers", method, task, str(seed)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(("src", "."))} | dict.fromkeys(THREADS, "1"),
        cwd=Path(__file__).parents[1],
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def yardstick(task: str) -> dict[str, float]:
    """The expert at home, random actions in both worlds, and the solver with the true reward in the changed one."""
    world, rng = TASKS[task], np.random.default_rng(0)
    assert world.rule is not None
    choices = TriedActions.of(world.home().action_space)
    home = recover_reward(world.home, world.rule, np.random.default_rng(2)).home
    true = with_true_reward(world, home, np.random.default_rng(1), SEARCHING if home.copy is not None else PLANNING)
    return {
        "expert": mean_return(world.home, one_by_one(world.rule)),
        "random home": mean_return(world.home, one_by_one(lambda _: choices.draw(rng))),
        "random away": mean_return(world.away, one_by_one(lambda _: choices.draw(rng))),
        "true": mean_return(world.away, one_by_one(true.predict)),
    }


def main(options: argparse.Namespace, report: frame.Report) -> None:
    """A row for each task and method."""
    kept = Kept(options.keep)

    def once(family: str, seed: int, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if (family, seed) not in kept.runs:
            kept.add({"family": family, "seed": seed} | run())
        return kept.runs[family, seed]

    table = report.table(
        "continuous-peers",
        frame.Column("task"),
        frame.Column("method"),
        frame.number("return at home", "{:.1f}"),
        frame.number("score at home", "{:.2f}"),
        frame.number("score in the changed world", "{:.2f}"),
        frame.number("answers", "{:,.0f}"),
        frame.number("steps at home", "{:,.0f}"),
        frame.number("steps in the changed world", "{:,.0f}"),
        frame.number("seconds", "{:.0f}"),
        frame.number("seeds", "{}"),
        page="continuous-reward.md",
    )
    for task in options.only:
        known = once(task, 0, partial(yardstick, task))
        for method in (OURS, *THEIRS):
            if method == "gladius" and not isinstance(TASKS[task].home().action_space, Discrete):
                continue
            run = partial(ours, task) if method == OURS else partial(theirs, options.peers, method, task)
            seeds = range(FIRST_SEED, FIRST_SEED + (min(options.seeds, FEW) if method == "airl" else options.seeds))
            rows = [once(f"{task}, {method}", seed, partial(run, seed)) for seed in seeds]
            home, away = (statistics.median(row[name] for row in rows) for name in ("home", "away"))
            table.add(
                task,
                THEIRS.get(method, OURS),
                home,
                (home - known["random home"]) / (known["expert"] - known["random home"]),
                (away - known["random away"]) / (known["true"] - known["random away"]),
                *(
                    statistics.median(row.get(name, 0) for row in rows)
                    for name in ("answers", "steps", "steps away", "seconds")
                ),
                len(rows),
            )


if __name__ == "__main__":
    frame.start(
        main,
        __doc__,
        frame.argument("--peers", type=Path, required=True, metavar="PYTHON", help="where the other libraries are"),
        frame.argument("--seeds", type=int, default=3, help="how many; the medians are shown"),
        frame.argument("--only", nargs="+", part=True, default=list(NAMES), choices=list(NAMES)),
        frame.argument("--keep", type=Path, metavar="FILE", help="runs are added to this file, and not done again"),
    )
