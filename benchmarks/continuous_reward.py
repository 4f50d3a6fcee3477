"""A reward recovered in one world, planned with in another in which actions are swapped and dynamics are changed.

    python benchmarks/continuous_reward.py [--only CartPole ...] [--end-to-end] [--seeds N] [--first-seed N]
        [--keep FILE]

The score is (return - random) / (the same solver with the true reward - random), in the changed world, over the same
20 episodes; steps are counted in both worlds, answers are what the expert was asked. Seconds are of the processor, on
one core. Thresholds were chosen on seeds 0 to 26, those for LunarLander on 0 to 4; the docs have seeds from 720 on.
Optimal experts are plans of the same solver with the true reward and 15,000 steps at home. LunarLander needs Box2D
(`pip install box2d`); controllers are searched for there, for the true reward by what episodes are paid; *translated*
is the copy of the expert with which the search begins. End to end, the true reward has 6,000 steps. With `--keep`,
runs that the file has are not done again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np

from aceirl import ActiveIRL, ContinuousResult
from aceirl.irl.deviations import Home, recover_reward
from aceirl.learner.continuous.transfer import (
    PLANNING,
    Planned,
    plan_by_sampling,
    search_by_sampling,
    transfer_reward,
    translated_copy,
)
from aceirl.models.vectors.episodes import Act, TriedActions, play
from aceirl.models.vectors.experience import Experience
from studies.kept import Kept
from studies.worlds import TASKS, Task

CASES = {
    "CartPole": ("CartPole", "rule", "far start, pole ×2", 12_000, 6_000),
    "MountainCar": ("MountainCar", "optimal", "gravity ×1.2", 12_000, 6_000),
    "MountainCar, rule": ("MountainCar", "rule", "gravity ×1.2", 12_000, 6_000),
    "Pendulum": ("Pendulum", "optimal", "g ×1.5", 12_000, 6_000),
    "Acrobot": ("Acrobot", "optimal", "masses 1.5 and 0.7", 12_000, 8_000),
    "LunarLander, wind": ("LunarLander, wind", "rule", "wind 15, actions as they were", 16_000, 18_000),
    "LunarLander, gravity": ("LunarLander, gravity", "rule", "gravity -6, actions as they were", 16_000, 18_000),
    "LunarLander, engines": ("LunarLander, engines", "rule", "nothing", 16_000, 18_000),
}
"""By name: the task, the expert, what is changed besides swapped actions, and the steps at home and away."""

END_TO_END, ANSWERS, STEPS_AWAY = ("CartPole", "MountainCar"), 600, 2_700
"""The tasks that begin with nothing: the answers, and about how many steps are taken in the changed world: never 3,000,
as the last episode is begun before and has 300 at most."""

TESTS = range(20)
"""The seeds of the episodes that returns are measured by."""


@cache
def expert(task: str, kind: str) -> Act:
    """The rule, or a plan for the true reward."""
    rule = TASKS[task].rule
    if kind == "rule":
        assert rule is not None
        return rule
    reward = TASKS[task].reward
    assert reward is not None
    return plan_by_sampling(TASKS[task].home(), reward, np.random.default_rng(1000), 15_000).predict


def mean_return(task: str, act: Act) -> float:
    """What a policy is paid in the changed world."""
    env = TASKS[task].away()
    return statistics.fmean(play(env, act, seed).paid for seed in TESTS)


def with_true_reward(world: Task, home: Home, rng: np.random.Generator, steps: int) -> Planned:
    """What the solver makes of the true reward in the changed world."""
    if world.reward is not None:
        return plan_by_sampling(world.away(), world.reward, rng, steps)
    assert home.copy is not None
    assert home.effects is not None
    return search_by_sampling(world.away(), lambda episode: episode.paid, rng, steps, (home.copy, home.effects))


def one(case: str, seed: int) -> dict[str, Any]:
    """Everything that is measured with one seed."""
    task, kind, _, at_home, away = CASES[case]
    world, wanted = TASKS[task], expert(task, kind)
    began = time.process_time()
    recovered = recover_reward(world.home, wanted, np.random.default_rng([seed, 0]), at_home)
    planned = transfer_reward(world.away, recovered, np.random.default_rng([seed, 1]), away)
    seconds = time.process_time() - began
    away_rng, home = np.random.default_rng([seed, 1]), recovered.home
    true = with_true_reward(world, home, away_rng, away)
    rng = np.random.default_rng([seed, 2])
    choices = TriedActions.of(world.away().action_space)
    found, best, chance = (
        mean_return(task, act) for act in (planned.predict, true.predict, lambda _: choices.draw(rng))
    )
    translated = None
    if home.copy is not None and home.effects is not None:
        met = Experience(world.away(), np.random.default_rng([seed, 1]))
        translated = mean_return(task, translated_copy(met, (home.copy, home.effects), away).predict)
    return {
        "return": found,
        "true": best,
        "random": chance,
        "translated": translated,
        "score": (found - chance) / (best - chance),
        "level": recovered.chosen.level,
        "warning": planned.warning,
        "steps": recovered.steps + planned.steps,
        "answers": recovered.answers,
        "seconds": seconds,
    }


def end_to_end(task: str, seed: int) -> dict[str, Any]:
    """Nothing is known of either world: what so many answers and so few steps in the changed one come to."""
    world, began = TASKS[task], time.process_time()
    learner = ActiveIRL(max_answers=ANSWERS, certify=None, seed=seed)
    learned = learner.fit(world.home(), world.rule, horizon=world.home().spec.max_episode_steps)
    assert isinstance(learned, ContinuousResult)
    planned = learned.without_asking().transfer(world.away(), steps=STEPS_AWAY)
    seconds = time.process_time() - began
    assert world.reward is not None
    true = plan_by_sampling(world.away(), world.reward, np.random.default_rng([seed, 1]), PLANNING)
    rng, choices = np.random.default_rng([seed, 2]), TriedActions.of(world.away().action_space)
    found, best, chance = (
        mean_return(task, act) for act in (planned.predict, true.predict, lambda _: choices.draw(rng))
    )
    return {
        "return": found,
        "true": best,
        "score": (found - chance) / (best - chance),
        "warning": planned.warning,
        "at home": learned.samples + learned.without_asking().recovered.steps,
        "steps": planned.steps,
        "answers": learned.answers,
        "seconds": seconds,
    }


def main(options: argparse.Namespace, report: frame.Report) -> None:
    """Every case from several seeds."""
    kept = Kept(options.keep)

    def of(case: str, run: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        for seed in seeds:
            if (case, seed) not in kept.runs:
                kept.add({"family": case, "seed": seed} | run(seed))
        return [kept.runs[case, seed] for seed in seeds]

    if options.end_to_end:
        from_nothing(report, of)
    else:
        elsewhere(report, of, options.only)


Runs = Callable[[str, Callable[[int], dict[str, Any]]], list[dict[str, Any]]]
"""Of a case, and what does one run of it by its seed: all runs that are asked for."""


def elsewhere(report: frame.Report, of: Runs, cases: list[str]) -> None:
    """The table of rewards that are found with as many answers as it takes."""
    table = report.table(
        "continuous-reward",
        frame.Column("task, expert"),
        frame.Column("changed, besides actions"),
        frame.number("score, median", "{:.3f}"),
        frame.number("worst", "{:.3f}"),
        frame.number("warned of", "{}"),
        frame.number("return", "{:.0f}"),
        frame.number("true reward", "{:.0f}"),
        frame.number("copying", "{:.0f}"),
        frame.number("translated", "{:.0f}"),
        frame.number("random", "{:.0f}"),
        frame.number("steps, both worlds", "{:,.0f}"),
        frame.number("answers", "{:,.0f}"),
        frame.number("seconds", "{:.0f}"),
        page="continuous-reward.md",
    )
    for case in cases:
        found = of(case, partial(one, case))
        scores = [row["score"] for row in found]
        task, kind, change, *_ = CASES[case]
        table.add(
            f"{task}, {kind}",
            change,
            statistics.median(scores),
            min(scores),
            f"{sum(row['warning'] is not None for row in found)} of {len(found)}",
            *(statistics.median(row[name] for row in found) for name in ("return", "true")),
            mean_return(task, expert(task, kind)),
            None if found[0]["translated"] is None else statistics.median(row["translated"] for row in found),
            *(statistics.median(row[name] for row in found) for name in ("random", "steps", "answers", "seconds")),
        )


def from_nothing(report: frame.Report, of: Runs) -> None:
    """The table of rewards that are found with few answers."""
    table = report.table(
        "continuous-end-to-end",
        frame.Column("task"),
        frame.number("score, median", "{:.3f}"),
        frame.number("worst", "{:.3f}"),
        frame.number("warned of", "{}"),
        frame.number("answers", "{:,.0f}"),
        frame.number("steps at home", "{:,.0f}"),
        frame.number("most steps in the changed world", "{:,.0f}"),
        frame.number("seconds", "{:.0f}"),
        page="continuous-reward.md",
    )
    for task in END_TO_END:
        found = of(f"{task}, end to end", partial(end_to_end, task))
        scores = [row["score"] for row in found]
        table.add(
            task,
            statistics.median(scores),
            min(scores),
            f"{sum(row['warning'] is not None for row in found)} of {len(found)}",
            max(row["answers"] for row in found),
            statistics.median(row["at home"] for row in found),
            max(row["steps"] for row in found),
            statistics.median(row["seconds"] for row in found),
        )


if __name__ == "__main__":
    frame.start(
        main,
        __doc__,
        frame.argument("--seeds", type=int, default=10, help="how many"),
        frame.argument("--first-seed", type=int, default=200),
        frame.argument("--only", nargs="+", part=True, default=list(CASES), choices=list(CASES)),
        frame.argument("--end-to-end", action="store_true", help="only what begins with nothing known"),
        frame.argument("--keep", type=Path, metavar="FILE", help="runs are added to this file, and not done again"),
    )
