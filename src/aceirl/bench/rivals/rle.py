"""RLE: explore for any reward at all, then learn one with pessimism.

Zhao, Wang and Bai, "Is Inverse Reinforcement Learning Harder than Standard Reinforcement Learning?" (ICML 2024). The
exploration is that of Li, Yan, Chen and Fan, "Minimax-optimal reward-agnostic exploration in reinforcement learning"
(COLT 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.irl.belief import Belief, Plan, uniform_policy
from aceirl.models.tabular.dynamic_programming import occupancy, optimal_values
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray, steps_after


@dataclass(frozen=True)
class Rle:
    """Algorithm 2 (Reward Learning with Exploration), its exploring half; `rlp.Rlp` is the other.

    The behaviour policy maximises `Σ log(expected visits)` over mixtures of policies, by Frank-Wolfe; each step of that
    is one dynamic programme. So no policy goes much more often than this one to where it has hardly been.

    Differs: the paper explores step by step with `N·H` episodes, then plays one policy `K` times and subsamples. Here
    the policy is found anew before every batch, visits made so far are counted in, pooled over steps where the dynamics
    are stationary, and all data are kept. The expert is asked along the way. Where the plan never is, actions are
    uniform; all that follows a row never tried is taken to be never tried either.
    """

    tolerance: float = 0.01
    iterations: int = 60

    access: ClassVar = "episodes"
    summary: ClassVar = "visit everything that can be reached about equally often (paper: RLE)"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The policy whose visits, added to those made, have the largest sum of logarithms."""
        mdp, counts = belief.estimate.mdp, belief.estimate.counts
        uniform = uniform_policy(belief.shape)
        if not mdp.initial.any():
            return Plan(policy=uniform)
        visits = counts.visits.sum(axis=0, keepdims=True) if counts.stationary else counts.visits
        mu, gap = spread(mdp, visits, belief.episodes, self.tolerance, self.iterations)
        here = mu.sum(axis=2, keepdims=True)
        return Plan(policy=np.where(here > 0, mu / np.where(here > 0, here, 1.0), uniform), evidence={"gap": gap})


def spread(mdp: MDP, visits: IntArray, episodes: int, tolerance: float, iterations: int) -> tuple[FloatArray, float]:
    """`(μ [H, S, A], gap)`: the occupancy with the largest sum of logarithms, and how far off it is.

    `f = Σ log(1 + visits + episodes·μ) + Σ episodes·(H-h-1)·μ`, the second sum over unknown rows: each step behind one
    is worth as much as the first visit of a row. `visits` is `[H, S, A]`, or `[1, S, A]` for a sum over rows that all
    steps share. `f` is at most `gap` below the best there is: the duality gap of Frank-Wolfe, at most `tolerance` for
    each row unless the `iterations` run out.
    """
    pooled = len(visits) == 1 < mdp.horizon
    behind = episodes * steps_after(mdp.horizon)
    lost = np.where(mdp.known, 0.0, behind[:, None, None])
    mu, gap = np.zeros(mdp.shape), np.inf
    for t in range(iterations):
        made = mu.sum(axis=0, keepdims=True) if pooled else mu
        gradient = np.broadcast_to(episodes / (1 + visits + episodes * made), mdp.shape)
        q, _ = optimal_values(mdp, np.ascontiguousarray(gradient), behind)
        best = occupancy(mdp, np.eye(mdp.n_actions)[q.argmax(axis=2)])
        gap = float(((best - mu) * (gradient + lost)).sum())
        if t and gap <= tolerance * visits.size:
            break
        mu = mu + 2 / (t + 2) * (best - mu)
    return mu, gap
