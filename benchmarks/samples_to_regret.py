"""Samples until the regret is below 0.4, beside the paper's Table 1: what its own setting gives, and what advice gives.

The paper's code keeps a transition model per step, so `random`, `greedy` and `uniform` run that way here (with the
paper's radii). `greedy-released` is greedy as the released code has it: the bound is not clipped at `(H-h)·Rmax`, and
it is planned in a process whose counts start at one for every successor. `advice` and `guided` run with the
defaults of this software and one episode an iteration.

    python benchmarks/samples_to_regret.py [--seeds N] [--jobs N] [--strategies NAME ...]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import _frame as frame
import numpy as np
from joblib import Parallel, delayed

from aceirl.bench.paper import TABLE1
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.irl.belief import Belief, Plan
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.confidence import trivial_bound
from aceirl.models.tabular.dynamic_programming import greedy_actions, optimal_values
from aceirl.models.tabular.mdp import MDP
from aceirl.models.tabular.metrics import Truth

BUDGETS = {
    "four-paths-released-50": 100_000,
    "double-chain-50": 100_000,
    "chain-1": 10_000,
    "gridworld-released-1": 3_000,
    "random-mdp-released-1": 3_000,
}
NAMES = {
    "four-paths-released": "Four Paths",
    "double-chain": "Double Chain",
    "chain": "Chain",
    "gridworld-released": "Gridworld",
    "random-mdp-released": "Random MDP",
}
STRATEGIES = {"uniform": "uniform", "random": "random", "greedy": "greedy", "greedy-released": "greedy, as released"}
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
    rows = (known.transitions.dense() * visits + 1) / (visits + belief.shape[1])
    return MDP.from_dense(rows, initial=known.initial)


def samples(environment: str, strategy: str, episodes: int, budget: int, seed: int) -> tuple[int, bool]:
    """Samples of one run until its regret is below 0.4, and whether it ever was."""
    problem = make(environment, seed)
    as_released = strategy not in ("advice", "guided")
    settings = Settings(
        strategy=GreedyReleased() if strategy == "greedy-released" else strategy,
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
    )
    *_, last = turns
    return last.record.samples, last.record.stopped == "regret"


@dataclass(frozen=True)
class Measured(frame.Mean):
    """Samples, mean and standard error, and how many runs never got there; those count with their budget."""

    censored: int

    def __str__(self) -> str:
        return f"{self.mean:.0f} ± {self.error:.0f}"


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """The paper's strategies in the paper's setting, and ours in ours."""
    pool = Parallel(n_jobs=options.jobs)

    def measured(environment: str, strategy: str, episodes: int, budget: int) -> Measured:
        cells = (delayed(samples)(environment, strategy, episodes, budget, seed) for seed in range(options.seeds))
        spent, reached = np.array(pool(cells)).T
        mean = frame.Mean.of(spent.tolist())
        return Measured(mean.mean, mean.error, int((reached == 0).sum()))

    table = report.table(
        "samples-to-regret",
        frame.Column("scenario"),
        frame.Column("strategy"),
        frame.Column("ours"),
        frame.Column("published", lambda printed: f"{printed.mean} ± {printed.error}"),
        frame.Column("", "{:+.1f}"),
        page="differences.md",
    )
    for name, budget in BUDGETS.items():
        environment, _, episodes = name.rpartition("-")
        head: str | None = f"{NAMES[environment]}, N_E={episodes}"
        for strategy in options.strategies or STRATEGIES:
            if strategy == "greedy-released" and episodes == "1" and not options.strategies:
                continue  # there `greedy` is close to the published figure as it is
            found = measured(environment, strategy, int(episodes), budget)
            printed = TABLE1[name]["greedy" if strategy == "greedy-released" else strategy]
            distance = (found.mean - printed.mean) / np.hypot(found.error, printed.error)
            table.add(head, STRATEGIES[strategy], found, printed, distance)
            head = None
    ours = report.table(
        "advice",
        frame.Column("N_E=1"),
        frame.Column("advice"),
        frame.Column("guided"),
        frame.Column("asked for", "≤ {}"),
    )
    for environment, limit in ADVICE_LIMITS.items():
        found_ours = (measured(environment, strategy, 1, 10_000) for strategy in ("advice", "guided"))
        ours.add(NAMES[environment], *found_ours, limit)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=50),
        frame.argument("--jobs", type=int, default=2, help="processes"),
        frame.argument("--strategies", nargs="+", choices=STRATEGIES, part=True, help="by default all"),
    )
