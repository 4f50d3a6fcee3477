"""How fast the error bound shrinks in the long run: samples that `guided` and `ace` need for the same bound.

Batches grow geometrically, so that the bound can be followed over many orders of magnitude; the batched roll-outs cost
the same for any number of episodes. Prints, for each environment, the bounds reached and the ratio of samples.

    uv run --all-extras python benchmarks/long_run.py
"""

from __future__ import annotations

import argparse

import numpy as np

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.loop import State, learn
from aceirl.settings import Settings

ENVIRONMENTS = ("four-paths", "double-chain", "chain", "gridworld", "random-mdp")
LEVELS = (0.5, 0.2, 0.1)


def bounds(environment: str, strategy: str, seed: int, largest: float) -> tuple[np.ndarray, np.ndarray]:
    """Samples and bounds (as a share of the trivial one) of a run whose batches double every second iteration."""
    problem = make(environment, seed)
    simulator, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
    state: State | None = None
    curve: list[tuple[int, float]] = []
    episodes = 1.0
    while not curve or (curve[-1][0] < largest and curve[-1][1] > min(LEVELS)):
        settings = Settings(
            strategy=strategy,
            irl="feasible-point",
            certify=None,
            episodes_per_iteration=int(episodes),
            max_samples=2**62,
            seed=seed,
        )
        turn = next(learn(simulator, expert, settings, state=state))
        state = turn.state
        curve.append((turn.record.samples, turn.record.bound / problem.mdp.horizon))
        episodes *= 2**0.5 if len(curve) > 60 else 1.0
    samples, shares = np.array(curve).T
    return samples, shares


def samples_to(level: float, samples: np.ndarray, shares: np.ndarray) -> float:
    """Samples at which the bound is at the level, interpolated between the two iterations around it."""
    if shares.min() > level:
        return float("nan")
    k = int(np.argmax(shares <= level))
    if k == 0:
        return float(samples[0])
    return float(np.exp(np.interp(-level, -shares[k - 1 : k + 1], np.log(samples[k - 1 : k + 1]))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--largest", type=float, default=1e12, help="give up after so many samples")
    options = parser.parse_args()
    print(f"{'environment':16} {'bound / H·Rmax':>16} {'ace':>12} {'guided':>12} {'ratio':>8}")
    for environment in ENVIRONMENTS:
        runs = {
            strategy: [bounds(environment, strategy, seed, options.largest) for seed in range(options.seeds)]
            for strategy in ("ace", "guided")
        }
        for level in LEVELS:
            ace, guided = (np.mean([samples_to(level, *run) for run in runs[s]]) for s in ("ace", "guided"))
            print(f"{environment:16} {level:>16} {ace:>12.3g} {guided:>12.3g} {guided / ace:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
