"""The price of `policy` in Gymnasium, what its first wager costs, and whether it can be had too cheaply.

    python benchmarks/wagers.py [--seeds N] [--runs N] [--only TABLE ...]

`first-wager`: samples to the certificate if almost everything is staked before anything is known, and if nothing is.
`promises`: samples and answers to the promise that at most a tenth is lost of what the best and the worst policy differ
by, with a stationary expert. `attacks`: how often the promise was broken at δ = 0.1 by copies that share their random
state, and by a person who takes back every surprise.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import _frame as frame
import gymnasium
import numpy as np
from joblib import Parallel, delayed

from aceirl.envs.truth import exact_model
from aceirl.experts.tasks import Source
from aceirl.models.tabular.dynamic_programming import optimal_values
from studies.attacks import copies_run, samples_to_policy, undo_run
from studies.soundness import p_value

Named = dict[str, tuple[str, dict[str, Any], int | None]]

LAKES: Named = {
    "FrozenLake": ("FrozenLake-v1", {}, None),
    "FrozenLake 8×8": ("FrozenLake-v1", {"map_name": "8x8"}, None),
}
CLIFF: Named = {"CliffWalking": ("CliffWalking-v1", {}, 100)}
PROMISES: Named = {**LAKES, **CLIFF, "Taxi": ("Taxi-v4", {}, None), "Blackjack": ("Blackjack-v1", {}, 10)}
TABLES = ("first-wager", "promises", "attacks")


def source(name: str, seed: int) -> Source:
    """One of these environments, with a stationary expert who knows it."""
    environment, parameters, horizon = PROMISES[name]
    return Source(environment, parameters, seed, expert="optimal", horizon=horizon, stationary_expert=True)


def spread(name: str) -> float:
    """What the best and the worst policy differ by, from the start."""
    environment, parameters, horizon = PROMISES[name]
    env: Any = gymnasium.make(environment, max_episode_steps=horizon, **parameters)
    model = exact_model(env, horizon or env.spec.max_episode_steps, int(env.action_space.n))
    best, worst = (optimal_values(model.mdp, sign * model.reward)[1][0] for sign in (1, -1))
    return float(model.mdp.initial @ (best + worst))


def first_wager(options: argparse.Namespace, report: frame.Report) -> None:
    """The same runs with two first wagers."""
    table = report.table(
        "first-wager",
        frame.Column("environment"),
        frame.number("N_E"),
        frame.number("98 % staked at first: samples", "{:,.0f}"),
        frame.number("nothing", "{:,.0f}"),
        frame.number("ratio", "{:.1f}"),
        page="certificates.md",
    )
    for name in (*LAKES, *CLIFF):
        for episodes in (1, 8, 50):
            before, after = (
                np.mean(
                    Parallel(options.jobs)(
                        delayed(_samples)(source(name, seed), episodes, reckless) for seed in range(options.seeds)
                    )
                )
                for reckless in (True, False)
            )
            table.add(name, episodes, before, after, before / after)


def _samples(chosen: Source, episodes: int, reckless: bool) -> int:
    return samples_to_policy(chosen, episodes, reckless=reckless).counts.samples


def _promise(chosen: Source, epsilon: float) -> tuple[float, ...]:
    turn = samples_to_policy(chosen, 1, epsilon=epsilon)
    assert turn.regret is not None
    return turn.counts.samples, turn.counts.questions, turn.regret, turn.belief.target.possible(turn.counts.shape[0])


def promises(options: argparse.Namespace, report: frame.Report) -> None:
    """What it takes to promise a tenth of what policies differ by."""
    table = report.table(
        "gym-promises",
        frame.Column("environment"),
        frame.number("the best and the worst policy differ by", "{:,.3g}"),
        frame.number("promised: at most", "{:,.3g}"),
        frame.number("two episodes differ by at most", "{:,.4g}"),
        frame.number("samples", "{:,.0f}"),
        frame.number("answers", "{:,.0f}"),
        frame.number("lost in truth, of what policies differ by", "{:.2%}"),
        page="gymnasium.md",
    )
    for name in PROMISES:
        differ = spread(name)
        found = Parallel(options.jobs)(
            delayed(_promise)(source(name, seed), 0.1 * differ) for seed in range(options.seeds)
        )
        samples, answers, regret, possible = np.mean(found, axis=0)
        table.add(name, differ, 0.1 * differ, possible, samples, answers, regret)


def attacks(options: argparse.Namespace, report: frame.Report) -> None:
    """Every way to get a promise too cheaply."""
    table = report.table(
        "attacks",
        frame.Column("attack"),
        frame.number("runs"),
        frame.number("broken"),
        frame.number("share", "{:.1%}"),
        frame.number("p", "{:.2g}"),
        page="certificates.md",
    )
    ways = {
        "8 copies with one random state, as they were": (partial(copies_run, copies=8, mended=False), 40),
        "8 copies with one random state, mended": (partial(copies_run, copies=8, mended=True), options.runs),
        "every surprise is taken back and answered again": (partial(undo_run, skip=False), options.runs),
        "every surprise is taken back and not answered": (partial(undo_run, skip=True), options.runs),
    }
    for name, (run, most) in ways.items():
        runs = min(most, options.runs)
        broken = sum(run(seed) for seed in range(runs))  # one after the other: copies are processes of their own
        table.add(name, runs, broken, broken / runs, p_value(broken, runs))


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """The tables that were asked for."""
    for name, part in zip(TABLES, (first_wager, promises, attacks), strict=True):
        if not options.only or name in options.only:
            part(options, report)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=10),
        frame.argument("--runs", type=int, default=500),
        frame.argument("--jobs", type=int, default=2),
        frame.argument("--only", nargs="+", choices=TABLES, part=True),
    )
