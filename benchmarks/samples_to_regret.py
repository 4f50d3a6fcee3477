"""Samples until the regret is below 0.4, beside the paper's Table 1: what its own setting gives, and what advice gives.

The paper's code keeps a transition model per step, so `random`, `greedy` and `uniform` run that way here (with the
paper's radii). `greedy-released` is greedy as the released code has it: the bound is not clipped at `(H-h)·Rmax`, and
it is planned in a process whose counts start at one for every successor. `advice` and `guided` run with the
defaults of this software and one episode an iteration.

    uv run --all-extras python benchmarks/samples_to_regret.py --seeds 50 --jobs 2
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from aceirl.collect import Plan
from aceirl.confidence import trivial_bound
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experiments.published import TABLE1
from aceirl.experts import PolicyExpert
from aceirl.explore import Belief
from aceirl.dynamic_programming import greedy_actions, optimal_values
from aceirl.loop import learn
from aceirl.mdp import MDP
from aceirl.metrics import Truth
from aceirl.settings import Settings

SETTINGS = {
    "four-paths-released-50": 100_000,
    "double-chain-50": 100_000,
    "chain-1": 10_000,
    "gridworld-released-1": 3_000,
    "random-mdp-released-1": 3_000,
}
ADVICE_LIMITS = {"four-paths-released": 60, "double-chain": 80, "chain": 40, "gridworld-released": 25} | {
    "random-mdp-released": 22
}


@dataclass(frozen=True)
class GreedyReleased:
    """AceIRL Greedy as released: no clip, and every successor of every row was seen once before the start."""

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        horizon = belief.shape[0]
        visits = np.maximum(1, belief.estimate.counts.visits)
        log_term = np.log(24 * np.prod(belief.shape) * visits.astype(float) ** 2 / belief.delta)
        radius = trivial_bound(horizon, belief.rmax)[:, None, None] * 2 * np.sqrt(2 * log_term / visits)
        q, _ = optimal_values(_counted_from_one(belief), radius)
        return Plan(policy=np.eye(belief.shape[2])[greedy_actions(q, rng)])


def _counted_from_one(belief: Belief) -> MDP:
    known, visits = belief.estimate.mdp, belief.estimate.counts.visits[..., None]
    rows = (known.dense() * visits + 1) / (visits + belief.shape[1])
    return MDP.from_dense(rows, initial=known.initial)


def samples(environment: str, strategy: str, episodes: int, budget: int, seed: int) -> tuple[int, bool]:
    """Samples of one run until its regret is below 0.4, and whether it ever was."""
    problem = make(environment, seed)
    as_released = strategy not in ("advice", "guided")
    settings = Settings(
        strategy="greedy" if strategy == "greedy-released" else strategy,
        confidence="hoeffding" if as_released else "kl",
        stationary_dynamics=not as_released,
        episodes_per_iteration=episodes,
        max_samples=budget,
        until_regret=0.4,
        certify=None,
        seed=seed,
    )
    turns = learn(
        Simulator(problem.mdp),
        PolicyExpert(problem.expert, problem.mdp.shape),
        settings,
        regret=Truth(problem.mdp, problem.reward).regret,
        explorer=GreedyReleased() if strategy == "greedy-released" else None,
    )
    *_, last = turns
    return last.record.samples, last.record.stopped == "regret"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    known = ("uniform", "random", "greedy", "greedy-released")
    parser.add_argument("--strategies", nargs="*", choices=known, default=known)
    options = parser.parse_args()
    pool = Parallel(n_jobs=options.jobs)

    def measured(environment: str, strategy: str, episodes: int, budget: int) -> tuple[float, float, int]:
        cells = (delayed(samples)(environment, strategy, episodes, budget, seed) for seed in range(options.seeds))
        spent, reached = np.array(pool(cells)).T
        return float(spent.mean()), float(spent.std(ddof=1) / np.sqrt(len(spent))), int((reached == 0).sum())

    print(f"{'setting':24} {'strategy':18} {'ours':>16} {'published':>16} {'difference / joint s.e.':>24}")
    for name, budget in SETTINGS.items():
        environment, _, episodes = name.rpartition("-")
        for strategy in options.strategies:
            mean, error, censored = measured(environment, strategy, int(episodes), budget)
            printed = TABLE1[name]["greedy" if strategy == "greedy-released" else strategy]
            distance = (mean - printed.mean) / np.hypot(error, printed.error)
            note = f" ({censored} censored)" if censored else ""
            ours, theirs = f"{mean:.0f} ± {error:.0f}", f"{printed.mean} ± {printed.error}"
            print(f"{name:24} {strategy:18} {ours:>16} {theirs:>16} {distance:>+24.1f}{note}", flush=True)
    print(f"\n{'N_E=1':24} {'advice':>16} {'guided':>16} {'asked for':>16}")
    for environment, limit in ADVICE_LIMITS.items():
        cells = []
        for strategy in ("advice", "guided"):
            mean, error, _ = measured(environment, strategy, 1, 10_000)
            cells.append(f"{mean:.0f} ± {error:.0f}")
        print(f"{environment:24} {cells[0]:>16} {cells[1]:>16} {f'≤ {limit}':>16}", flush=True)


if __name__ == "__main__":
    main()
