"""Samples of `random` to regret 0.4, first crossing against lasting one, with pooled and with per-step estimates.

    python benchmarks/first_crossing.py [--seeds N] [--jobs N]

`random` collects the same samples either way, so whatever differs lies in what is made of them. The median of the last
nine regrets cannot be below 0.4 by one lucky policy.
"""

from __future__ import annotations

import argparse

import _frame as frame
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike

from aceirl import PolicyExpert, Settings, Simulator, Truth, learn, make
from aceirl.models.tabular.mdp import FloatArray

ENVIRONMENTS = {"four-paths-released": "Four Paths", "double-chain": "Double Chain"}
BUDGET, WINDOW, THRESHOLD = 60_000, 9, 0.4


def curve(environment: str, seed: int, pooled: bool) -> FloatArray:
    """`[K, 2]`: samples and regret after each iteration of 50 episodes."""
    problem = make(environment, seed)
    settings = Settings(
        strategy="random",
        confidence="kl" if pooled else "hoeffding",
        episodes_per_iteration=50,
        max_samples=BUDGET,
        certify=None,
        stationary_dynamics=pooled,
        seed=seed,
    )
    turns = learn(
        Simulator(problem.mdp),
        PolicyExpert(problem.expert, problem.mdp.shape),
        settings,
        regret=Truth(problem.mdp, problem.reward).regret,
    )
    return np.array([(turn.record.samples, turn.regret) for turn in turns])


def crossing(samples: FloatArray, regret: ArrayLike) -> float:
    """The samples at which a regret is first below the threshold; the budget, if it never is."""
    below = np.asarray(regret) < THRESHOLD
    return float(samples[below.argmax()]) if below.any() else float(BUDGET)


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """One row for each environment and way of estimating."""
    table = report.table(
        "first-crossing",
        frame.Column(""),
        frame.Column("estimates"),
        frame.number("first below 0.4", "{:,.0f}"),
        frame.number("lasting", "{:,.0f}"),
        frame.number("change of regret", "{:.3f}"),
        frame.number("regret at 20,000", "{:.2f}"),
        page="reproduction.md",
    )
    for environment, name in ENVIRONMENTS.items():
        for pooled in (True, False):
            curves = Parallel(options.jobs)(delayed(curve)(environment, seed, pooled) for seed in range(options.seeds))
            first = [crossing(*found.T) for found in curves]
            lasting = [
                crossing(found[:, 0], [np.median(found[max(0, i - WINDOW + 1) : i + 1, 1]) for i in range(len(found))])
                for found in curves
            ]
            regret = np.array([found[:, 1] for found in curves])
            change = np.abs(np.diff(regret, axis=1)).mean()
            estimates = "pooled" if pooled else "per step"
            table.add(
                name if pooled else None, estimates, np.mean(first), np.mean(lasting), change, regret[:, 19].mean()
            )


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=30),
        frame.argument("--jobs", type=int, default=-1, help="processes; by default one a core"),
    )
