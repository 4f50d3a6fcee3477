"""How many answers a policy takes without any declaration, where questions are chosen by wishes and fields.

    python benchmarks/fields.py [--only Taxi ...] [--seeds N] [--first SEED]
    python benchmarks/fields.py --warehouses [--seeds N] [--first SEED] [--keep FILE]
    python benchmarks/fields.py --inventory|--tanks [--seeds N] [--first SEED] [--keep FILE]

The expert does what is best by the environment's own reward, whatever the step, and is asked by the strategy
`sparing`: first the learner looks around without asking, then it asks the question whose answer is expected to prevent
the greatest loss. `answers` is how many were given when the policy first lost at most 0.01 against the expert, as a
share of what the best and the worst policy differ by; it is measured after every answer. `one by one` is what an
interview took that asks about every situation it meets (docs/interview.md).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import _frame as frame
import numpy as np

from aceirl.envs import make
from aceirl.envs.truth import stationary_policy
from aceirl.experts import PolicyExpert
from aceirl.experts.tasks import Source, Task, open_task
from aceirl.experts.tasks.world import GymWorld
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.mdp import IntArray
from aceirl.models.tabular.metrics import Truth
from studies.fields import PLANS, TANKS, KeyDoor, fetched, key_expert, levelled, share_of_all_answers, stocked
from studies.kept import Kept

REGRET = 0.01


def built_in(name: str, seed: int) -> tuple[Task, Callable[[IntArray], float]]:
    """One of our own problems, with an expert who does not look at the step, and what a policy loses against it."""
    problem = make(name, seed)
    mdp, does = problem.mdp, stationary_policy(problem.mdp, problem.reward)
    table = np.broadcast_to(np.eye(mdp.n_actions)[does], mdp.shape)
    task = replace(open_task(problem), expert=PolicyExpert(table, mdp.shape, stationary=True))
    assert task.regret is not None
    own, regret = task.regret(np.broadcast_to(does, mdp.shape[:2])), task.regret
    return task, lambda policy: regret(policy) - own


def toy_text(name: str, horizon: int | None, seed: int, **parameters: str) -> tuple[Task, Callable[[IntArray], float]]:
    """One of Gymnasium's own, with the best expert who does not look at the step; what a policy loses against it."""
    source = Source(name, dict(parameters), seed, stationary_expert=True, horizon=horizon, expert="optimal")
    task = open_task(source)
    assert isinstance(task.world, GymWorld)
    assert task.regret is not None
    model, regret = task.world.model(), task.regret
    own = Truth(model.mdp, model.reward).regret(np.broadcast_to(model.stationary_expert(), model.mdp.shape[:2]))
    return task, lambda policy: regret(policy) - own


def key_door(seed: int) -> tuple[Task, Callable[[IntArray], float]]:
    """The example of docs/python.md."""
    task = open_task(KeyDoor(), key_expert, horizon=40, seed=seed)

    def regret(policy: IntArray) -> float:
        """Whether it does not get to the far corner."""
        env, states = KeyDoor(), task.environment.states  # type: ignore[attr-defined]
        seen, over = env.reset()[0], False
        for step in range(len(policy)):
            state = states.find(seen)
            if over or state is None or state >= policy.shape[1]:
                break
            seen, _, over, _, _ = env.step(int(policy[step, state]))
        return 0.0 if over else 1.0

    return task, regret


CASES: dict[str, tuple[int | None, int, Callable[[int], tuple[Task, Callable[[IntArray], float]]]]] = {
    "Four Paths": (21, 20, lambda seed: built_in("four-paths", seed)),
    "Double Chain": (19, 20, lambda seed: built_in("double-chain", seed)),
    "Chain": (7, 7, lambda seed: built_in("chain", seed)),
    "Gridworld": (10, 9, lambda seed: built_in("gridworld", seed)),
    "FrozenLake": (12, 11, lambda seed: toy_text("FrozenLake-v1", None, seed)),
    "FrozenLake 8x8": (None, 60, lambda seed: toy_text("FrozenLake-v1", None, seed, map_name="8x8")),
    "CliffWalking": (34, 12, lambda seed: toy_text("CliffWalking-v1", 50, seed)),
    "Taxi": (403, 60, lambda seed: toy_text("Taxi-v4", None, seed)),
    "Blackjack": (288, 60, lambda seed: toy_text("Blackjack-v1", 12, seed)),
    "key and door": (None, 15, key_door),
}
"""By name: the answers one by one, the most that are asked, and how it is made."""


def answers_needed(case: str, seed: int) -> tuple[int | None, int]:
    """`(answers, samples)` until the policy loses at most `REGRET`; None if it never did."""
    _, most, made = CASES[case]
    task, regret = made(seed)
    settings = Settings(
        strategy="sparing", irl=None, certify=None, seed=seed, max_samples=100_000, max_answers=most, ask_again=0.0
    )
    asked, turn = 0, None
    for turn in learn(task.environment, task.expert, settings):
        if turn.counts.questions > asked:
            asked = turn.counts.questions
            if regret(turn.policy) <= REGRET + 1e-9:
                return asked, turn.samples
    return None, 0 if turn is None else turn.samples


def warehouses(options: argparse.Namespace, report: frame.Report) -> None:
    """Four warehouses from several seeds; finished runs are kept."""
    table = report.table(
        "warehouses",
        frame.Column("warehouse"),
        frame.number("runs", "{}"),
        frame.number("named rightly", "{}"),
        frame.number("named falsely", "{}"),
        frame.number("answers, median", "{:.0f}"),
        frame.number("most", "{}"),
        frame.number("reached", "{}"),
        frame.number("samples, mean", "{:,.0f}"),
        frame.number("delivers elsewhere", "{}"),
        page="fields.md",
    )
    kept = Kept(options.keep)
    for seed in range(options.first, options.first + options.seeds):
        for name, plan in PLANS.items():
            if (name, seed) not in kept.runs:
                kept.add({"family": name, "seed": seed} | asdict(fetched(plan, seed)))
                print(kept.runs[name, seed], flush=True)
    for name in dict.fromkeys(family for family, _ in kept.runs):
        runs = [run for (family, _), run in kept.runs.items() if family == name]
        reached = [run["answers"] for run in runs if run["answers"] is not None]
        table.add(
            name,
            len(runs),
            sum(run["right"] for run in runs),
            sum(run["bold"] is not None and not run["right"] for run in runs),
            statistics.median(reached) if reached else None,
            max(reached, default=None),
            f"{len(reached)} of {len(runs)}",
            statistics.mean(run["samples"] for run in runs),
            sum((run["delivered"] or 0.0) >= 0.99 for run in runs),
        )


def inventories(options: argparse.Namespace, report: frame.Report) -> None:
    """Runs with an inventory, by experts who look at the step and who do not; finished runs are kept."""
    table = report.table(
        "inventory",
        frame.Column("the expert looks at"),
        frame.Column("a run"),
        frame.number("runs", "{}"),
        frame.number("bold", "{}"),
        frame.number("a set", "{}"),
        frame.number("a range is named", "{}"),
        frame.number("it holds what is wanted", "{}"),
        frame.number("elsewhere, median", "{:.3f}"),
        frame.number("worst", "{:.3f}"),
        frame.number("within 2 %", "{}"),
        frame.number("answers, median", "{:.0f}"),
        frame.number("samples, median", "{:,.0f}"),
        page="fields.md",
    )
    kept = Kept(options.keep)
    for samples, by_step in product((20_000, None), (True, False)):
        name = "stock and day" if by_step else "the stock", "default" if samples is None else f"{samples:,} samples"
        for seed in range(options.first, options.first + options.seeds):
            if (", ".join(name), seed) not in kept.runs:
                kept.add({"family": ", ".join(name), "seed": seed} | asdict(stocked(seed, by_step, samples)))
        runs = [run for (family, _), run in kept.runs.items() if family == ", ".join(name)]
        table.add(
            *name,
            len(runs),
            *(sum(run["kind"] == kind for run in runs) for kind in ("bold", "set")),
            *(sum(run[key] for run in runs) for key in ("spoken", "held")),
            statistics.median(run["elsewhere"] for run in runs),
            min(run["elsewhere"] for run in runs),
            sum(run["elsewhere"] >= 0.98 for run in runs),
            *(statistics.median(run[key] for run in runs) for key in ("answers", "samples")),
        )
    for by_step in (True, False):
        seeds = range(options.first, options.first + options.seeds)
        shares = [share_of_all_answers(seed, by_step) for seed in seeds]
        within = sum(share >= 0.98 for share in shares)
        known = "stock and day" if by_step else "the stock", "all answers and the dynamics known", len(shares)
        table.add(*known, *[None] * 4, statistics.median(shares), min(shares), within, None, None)


def tanks(options: argparse.Namespace, report: frame.Report) -> None:
    """Default runs with tanks, whose dynamics are and are not the same everywhere; finished runs are kept."""
    table = report.table(
        "tanks",
        frame.Column("tank"),
        frame.Column("the expert looks at"),
        frame.number("runs", "{}"),
        frame.number("a range is named", "{}"),
        frame.number("it holds what is wanted", "{}"),
        frame.number("answers, median", "{:.0f}"),
        frame.number("samples, median", "{:,.0f}"),
        page="fields.md",
    )
    kept = Kept(options.keep)
    for by_step, kind in product((True, False), TANKS):
        looks = "level and step" if by_step else "the level"
        name = f"{kind}, {looks}"
        for seed in range(options.first, options.first + options.seeds):
            if (name, seed) not in kept.runs:
                kept.add({"family": name, "seed": seed} | levelled(kind, seed, by_step))
        runs = [run for (family, _), run in kept.runs.items() if family == name]
        said = [sum(run[key] for run in runs) for key in ("spoken", "held")]
        used = [statistics.median(run[key] for run in runs) for key in ("answers", "samples")]
        table.add(kind, looks, len(runs), *said, *used)


def main(options: argparse.Namespace, report: frame.Report) -> None:
    """Every case from several seeds."""
    if options.warehouses:
        warehouses(options, report)
        return
    if options.inventory:
        inventories(options, report)
        return
    if options.tanks:
        tanks(options, report)
        return
    table = report.table(
        "answers-of-fields",
        frame.Column("environment"),
        frame.number("one by one", "{}"),
        frame.number("answers, mean", "{:.1f}"),
        frame.number("most", "{}"),
        frame.number("reached", "{}"),
        frame.number("samples, mean", "{:,.0f}"),
        page="fields.md",
    )
    for name in options.only:
        found = [answers_needed(name, seed) for seed in range(options.first, options.first + options.seeds)]
        reached = [answers for answers, _ in found if answers is not None]
        table.add(
            name,
            CASES[name][0],
            statistics.mean(reached) if reached else None,
            max(reached, default=None),
            f"{len(reached)} of {len(found)}",
            statistics.mean(samples for _, samples in found),
        )


if __name__ == "__main__":
    frame.start(
        main,
        __doc__,
        frame.argument("--seeds", type=int, default=3),
        frame.argument("--first", type=int, default=0, help="the first seed"),
        frame.argument("--warehouses", action="store_true"),
        frame.argument("--inventory", action="store_true"),
        frame.argument("--tanks", action="store_true"),
        frame.argument("--keep", type=Path, help="finished runs of those, to go on from"),
        frame.argument("--only", nargs="+", part=True, default=list(CASES), choices=list(CASES)),
    )
