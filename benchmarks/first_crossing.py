"""Samples of `random` to regret 0.4, first crossing against lasting one, with pooled and with per-step estimates.

    python benchmarks/first_crossing.py

`random` collects the same samples either way, so whatever differs lies in what is made of them. The median of the last
nine regrets cannot be below 0.4 by one lucky policy.
"""

from __future__ import annotations

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike

from aceirl import PolicyExpert, Settings, Simulator, Truth, make
from aceirl.loop import learn
from aceirl.mdp import FloatArray

SEEDS, BUDGET, WINDOW, THRESHOLD = 30, 60_000, 9, 0.4


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
    return np.array([(turn.record.samples, turn.record.regret) for turn in turns])


def crossing(samples: FloatArray, regret: ArrayLike) -> float:
    """The samples at which a regret is first below the threshold; the budget, if it never is."""
    below = np.asarray(regret) < THRESHOLD
    return float(samples[below.argmax()]) if below.any() else float(BUDGET)


def main() -> None:
    """One line for each environment and way of estimating."""
    print(f"{'':21} {'estimates':10} {'first':>7} {'lasting':>8} {'change of regret':>17} {'regret at 20,000':>17}")
    for environment in ("four-paths-released", "double-chain"):
        for pooled in (True, False):
            curves = Parallel(-1)(delayed(curve)(environment, seed, pooled) for seed in range(SEEDS))
            first = [crossing(*found.T) for found in curves]
            lasting = [
                crossing(found[:, 0], [np.median(found[max(0, i - WINDOW + 1) : i + 1, 1]) for i in range(len(found))])
                for found in curves
            ]
            regret = np.array([found[:, 1] for found in curves])
            change = np.abs(np.diff(regret, axis=1)).mean()
            print(
                f"{environment:21} {'pooled' if pooled else 'per step':10} {np.mean(first):7,.0f} "
                f"{np.mean(lasting):8,.0f} {change:17.3f} {regret[:, 19].mean():17.2f}"
            )


if __name__ == "__main__":
    main()
