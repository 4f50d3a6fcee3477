"""Four ways to infer a reward of the space `state` from the same answers: what planning with it loses, and how long.

    python benchmarks/inference.py [--seeds N] [--first SEED] [--erring SHARE] [--only WORD ...]

For each seed the strategy `probe` collects 300 samples (200 on Gridworld) with unknown dynamics; each rival infers a
reward from them, without a start from an earlier answer. "Regret" is what planning with it in the true process from a
uniform start loses under the true reward, as a share of what lies between the best and the worst policy; actions that
are equally good are taken as often. With `--erring`, that share of the expert's answers is drawn at random.

* sparse likelihood: the default of this software.
* soft margin: the linear programme that minimises the mean of `max(0, margin - (V - Q))` over all actions that the
  answers can be compared with, and `penalty` times the mean of `θ ∈ [0, 1]ⁿ`; margin and penalty were chosen on the
  seeds 100 to 105. Convex.
* maximum causal entropy in the space. Convex too.
* soft likelihood: the mean of `-log π(answer)`, where `π ∝ exp(10·Q)` over the actions that were tried and soft values,
  and `0.1·Σθ` for `θ ∈ [0, 1]ⁿ`; L-BFGS-B with exact gradients. Not convex.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import _frame as frame
import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from aceirl.envs import Problem, make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.irl import MaxCausalEntropy, SparseLikelihood
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.transfer import best_actions
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import MDP, FloatArray
from aceirl.models.tabular.metrics import Truth
from aceirl.rewards import DesignMatrix, FeasibleRewardSet, StateReward, polytope

SAMPLES = {"four-paths": 300, "double-chain": 300, "chain": 300, "gridworld": 200}
TITLES = {"four-paths": "Four Paths", "double-chain": "Double Chain", "chain": "Chain", "gridworld": "Gridworld"}

Inference = Callable[[Estimate], FloatArray]
"""From what is known to a reward `[H, S, A]`."""


def everywhere(design: DesignMatrix, theta: FloatArray) -> FloatArray:
    """`[H, S, A]`: the reward of parameters `[n]`."""
    return np.ascontiguousarray(np.broadcast_to(design.steps(theta), design.shape))


def soft_margin(estimate: Estimate, margin: float = 0.3, penalty: float = 0.01) -> FloatArray:
    """`[H, S, A]`: the reward of the linear programme, up to its scale."""
    feasible = FeasibleRewardSet.of_estimate(estimate, space=StateReward()).restricted(0.0, 1.0)
    n = feasible.design.n_parameters
    base = polytope.programme(feasible, np.full(n, penalty / n))
    entries = polytope.compared(feasible, polytope.linear(feasible, feasible.policy)[1])
    answered = np.broadcast_to(feasible.known[:, :, None], entries.shape)[entries]
    k = int(answered.sum())
    if k == 0:
        return np.zeros(estimate.mdp.shape)
    lack = sparse.csr_array((np.ones(k), (np.flatnonzero(answered), np.arange(k))), shape=(len(answered), k))
    solution = replace(
        base,
        cost=np.append(base.cost, np.full(k, 1 / k)),
        rows=sparse.hstack([base.rows, lack], format="csr"),
        low=np.where(answered, margin, base.low),
        lower=np.append(base.lower, np.zeros(k)),
        upper=np.append(base.upper, np.full(k, np.inf)),
    ).solve()
    return everywhere(feasible.design, solution.x[:n])


@dataclass(frozen=True, eq=False)
class SoftLikelihood:
    """The answers of an estimate under soft values of the actions that were tried."""

    estimate: Estimate
    design: DesignMatrix
    beta: float = 10.0
    penalty: float = 0.1

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The objective and its gradient: a sweep backward for the policy, one forward for what it leads to."""
        mdp, answers = self.estimate.mdp, self.estimate.expert_uses & self.estimate.mdp.known
        known, table = mdp.known | ~mdp.known.any(axis=2, keepdims=True), everywhere(self.design, theta)
        policy, value = np.empty(mdp.shape), np.zeros(mdp.n_states)
        for h in range(mdp.horizon - 1, -1, -1):
            q = np.where(known[h], table[h] + (self._rows(mdp, h) @ value).reshape(mdp.shape[1:]), -np.inf)
            best = q.max(axis=1, keepdims=True)
            weight = np.exp(self.beta * (q - best))
            policy[h] = weight / weight.sum(axis=1, keepdims=True)
            value = best[:, 0] + np.log(weight.sum(axis=1)) / self.beta
        n = max(1, int(answers.sum()))
        loss = -float(np.log(policy[answers]).sum()) / n
        flow = -self.beta / n * (answers - answers.sum(axis=2, keepdims=True) * policy)
        arrived = np.zeros(mdp.n_states)
        for h in range(mdp.horizon):
            flow[h] += arrived[:, None] * policy[h]
            arrived = np.asarray(flow[h].ravel() @ self._rows(mdp, h))
        return loss + self.penalty * float(theta.sum()), self.design.adjoint(flow) + self.penalty

    def _rows(self, mdp: MDP, h: int) -> Any:
        per_step = mdp.n_states * mdp.n_actions
        first = 0 if mdp.stationary else h * per_step
        return mdp.transitions.matrix[first : first + per_step]


def soft_likelihood(estimate: Estimate) -> FloatArray:
    """`[H, S, A]`: the reward of the sketch, from the middle of the box."""
    design = StateReward().design_matrix(estimate.mdp, estimate.terminal_states)
    start, bounds = np.full(design.n_parameters, 0.1), [(0.0, 1.0)] * design.n_parameters
    found = minimize(SoftLikelihood(estimate, design), start, jac=True, method="L-BFGS-B", bounds=bounds)
    return everywhere(design, found.x)


RIVALS: dict[str, Inference] = {
    "sparse likelihood": lambda estimate: SparseLikelihood()(estimate, 1.0, None, StateReward()).reward,
    "soft margin": soft_margin,
    "maximum causal entropy": lambda estimate: MaxCausalEntropy()(estimate, 1.0, None, StateReward()).reward,
    "soft likelihood": soft_likelihood,
}


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """The rivals side by side, on the same observations; a row for each."""
    chosen = [name for name in SAMPLES if not options.only or any(word in name for word in options.only)]
    found = {
        name: compared(name, range(options.first, options.first + options.seeds), options.erring) for name in chosen
    }
    table = report.table(
        "inference",
        frame.Column("inference"),
        *(frame.number(f"{TITLES[name]}, {SAMPLES[name]} samples", "{}") for name in chosen),
        *(frame.number(f"time, {TITLES[name]}", frame.seconds) for name in chosen),
        page="rewards.md",
    )
    for rival in RIVALS:
        regrets = [frame.Mean.of([regret for regret, _ in found[name][rival]]) for name in chosen]
        times = [float(np.median([seconds for _, seconds in found[name][rival]])) for name in chosen]
        table.add(rival, *regrets, *times)


def compared(name: str, seeds: range, erring: float) -> dict[str, list[tuple[float, float]]]:
    """The regret of each rival, and its seconds of processor time, for each seed."""
    found: dict[str, list[tuple[float, float]]] = {rival: [] for rival in RIVALS}
    for seed in seeds:
        problem = make(name, seed)
        estimate = observed(problem, SAMPLES[name], seed, erring)
        truth = Truth(
            replace(problem.mdp, initial=np.full(problem.mdp.n_states, 1 / problem.mdp.n_states)), problem.reward
        )
        for rival, infer in RIVALS.items():
            if not found[rival]:
                infer(estimate)  # it may have to compile
            began = time.process_time()
            reward = infer(estimate)
            seconds = time.process_time() - began
            found[rival].append((truth.regret(best_actions(truth.mdp, reward)[0]), seconds))
    return found


def observed(problem: Problem, samples: int, seed: int, erring: float) -> Estimate:
    """What `probe` knows after so many samples, from an expert who errs in a share of the entries."""
    rng, actions = np.random.default_rng([seed, 7]), problem.expert.argmax(axis=2)
    wrong = rng.random(actions.shape) < erring
    answers = np.where(wrong, rng.integers(problem.mdp.n_actions, size=actions.shape), actions)
    settings = Settings(
        # The strategy does not look at the reward.
        strategy="probe",
        irl="feasible-point",
        reward="any",
        infer_after_growth=10.0,
        certify=None,
        max_samples=samples,
        seed=seed,
    )
    *_, last = learn(Simulator(problem.mdp), PolicyExpert(answers, problem.mdp.shape), settings)
    return last.belief.estimate


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=10),
        frame.argument("--first", part=True, type=int, default=0, help="the first seed"),
        frame.argument("--erring", part=True, type=float, default=0.0, metavar="SHARE", help="answers drawn at random"),
        frame.argument("--only", part=True, nargs="+", metavar="WORD", help="problems"),
    )
