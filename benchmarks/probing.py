"""Where to look for a reward: rules for trying what the expert declined, side by side.

    python benchmarks/probing.py [--seeds N] [--first N]

After 300 samples (200 on Gridworld) of each rule: what planning with the recovered reward loses from a uniform start,
as a share of what lies between the best and the worst policy; and in how many runs the goal is right. "Half of the
time" is `probe` without a limit on deviations. "By disagreement" probes the same states as `probe`, as often in all,
but each the more often the more the plausible rewards disagree about what it is worth to be there.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import ClassVar

import _frame as frame
import numpy as np
from goals import regret, right
from joblib import Parallel, delayed

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.explore import STRATEGIES, Strategy
from aceirl.explore.probe import Probe
from aceirl.irl.belief import Belief, Plan
from aceirl.irl.likelihood import Likelihood
from aceirl.irl.sparse_likelihood import PENALTY, SparseFit
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards import StateReward

BUDGETS = {"four-paths": 300, "double-chain": 300, "chain": 300, "gridworld": 200}


@dataclass(frozen=True)
class ByDisagreement:
    """Probe, the more often the more plausible rewards disagree about what a state is worth."""

    access: ClassVar = "episodes"
    summary: ClassVar = "probe where plausible rewards disagree"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """As `probe`, with other chances of deviating."""
        plan, found = Probe().plan(belief, rng), belief.recovered.explanation
        assert plan.follow is not None
        if found is None or found.space != "state" or not found.map_estimate.any():
            return plan
        weight = self._disagreement(belief, found.map_estimate)
        met = belief.estimate.counts.visits.sum(axis=2) * (plan.follow < 1)
        mean = float((weight * met).sum() / max(1, met.sum()))
        if mean == 0:
            return plan
        chance = np.clip((1 - plan.follow) * weight / mean, 0.0, 0.5)
        return replace(plan, follow=1 - chance)

    def _disagreement(self, belief: Belief, theta: FloatArray) -> FloatArray:
        """`[H, S]`: the standard deviation of values, from 0 to 1 under each reward, by the rewards' likelihood."""
        estimate = belief.estimate
        fit = SparseFit(
            Likelihood(estimate), StateReward().design_matrix(estimate.mdp, estimate.terminal_states), PENALTY
        )
        thetas, costs = fit.moved(theta)
        rewards = np.ascontiguousarray(np.broadcast_to(fit.design.steps(thetas), (len(thetas), *belief.shape)))
        worth = [optimal_values(estimate.mdp, reward)[1][: belief.shape[0]] for reward in rewards]
        values = np.array([one / max(1e-9, float(np.ptp(one))) for one in worth])
        share = np.exp(costs.min() - costs)
        share /= share.sum()
        mean = np.tensordot(share, values, 1)
        return np.asarray(np.sqrt(np.tensordot(share, (values - mean) ** 2, 1)))


RULES: dict[str, Strategy] = {
    "`probe`": Probe(),
    "`guided`": STRATEGIES["guided"](),
    "half of the time": Probe(deviations=1e9),
    "by disagreement": ByDisagreement(),
    "`advice`": STRATEGIES["advice"](),
    "`ace`": STRATEGIES["ace"](),
    "`random`": STRATEGIES["random"](),
}


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """All rules in all environments."""
    table = report.table(
        "probing",
        frame.Column("rule"),
        *(frame.Column(f"{name}, {samples}") for name, samples in BUDGETS.items()),
        page="strategies.md",
    )
    seeds = range(options.first, options.first + options.seeds)
    for rule, strategy in RULES.items():
        cells = []
        for name, samples in BUDGETS.items():
            runs = Parallel(n_jobs=-1)(delayed(_run)(name, seed, samples, strategy) for seed in seeds)
            cells.append(f"{np.mean([lost for lost, _ in runs]):.3f}, {sum(goal for _, goal in runs)} right")
        table.add(rule, *cells)


def _run(name: str, seed: int, samples: int, strategy: Strategy) -> tuple[float, bool]:
    problem = make(name, seed)
    settings = Settings(seed=seed, strategy=strategy, max_samples=samples, certify=None)
    turn = [*learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), settings)][-1]
    everywhere = np.full(problem.mdp.n_states, 1 / problem.mdp.n_states)
    return regret(problem, turn, everywhere), right(problem, turn)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=50),
        frame.argument("--first", type=int, default=0, help="the first of them"),
    )
