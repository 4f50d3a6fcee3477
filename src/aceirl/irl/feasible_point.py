"""The plain feasible point: what the expert does is worth everything, what it does not do is worth nothing."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import numpy as np

from aceirl.counts import Estimate
from aceirl.irl.base import Recovered, action_values, expert_uses, infeasibility
from aceirl.kernels import compiled
from aceirl.mdp import BoolArray, FloatArray


def feasible_point(estimate: Estimate, rmax: float, warm: FloatArray | None = None) -> Recovered:
    """`r = Rmax` on the expert's actions and wherever the expert is unknown, else `0`.

    In the explicit description of the feasible set this is `V_h = (H-h)·Rmax`, `A = Rmax`: whatever the dynamics, the
    expert collects all there is, so the reward is feasible in the estimated and in the true process alike.
    """
    uses = expert_uses(estimate)
    reward = np.where(uses | ~uses.any(axis=2, keepdims=True), rmax, 0.0)
    return Recovered(reward, rmax, infeasibility(estimate, reward, rmax), reward, iterations=0, residual=0.0)


# How far a known answer must be ahead of every other action, in units of Rmax, to count as greedy.
MARGIN = 1e-6


def made_feasible(estimate: Estimate, recovered: Recovered, rmax: float) -> Recovered:
    """The reward moved towards the plain feasible point until every known answer of the expert is uniquely greedy.

    `(1-w)·r + w·r_point` with the smallest `w` of `0, 2⁻¹², …, ½, 1` found by bisection that does it; at `w = 1` it
    always holds. What a promise about the greedy policy rests on is thus true by construction, and `blend` says what it
    took.
    """
    uses = expert_uses(estimate)
    point = np.where(uses | ~uses.any(axis=2, keepdims=True), rmax, 0.0)
    blends = (0.0, *(2.0**-k for k in range(12, -1, -1)))

    def mixed(blend: float) -> Recovered:
        reward = (1 - blend) * recovered.reward + blend * point
        return replace(recovered, reward=reward, neutral=(1 - blend) * recovered.neutral + blend * rmax, blend=blend)

    def suffices(blend: float) -> bool:
        candidate = mixed(blend)
        return _least_lead(action_values(estimate, candidate.reward, candidate.neutral), uses) >= MARGIN * rmax

    return mixed(blends[bisect_left(blends, True, hi=len(blends) - 1, key=suffices)])


@compiled
def _least_lead(q: FloatArray, uses: BoolArray) -> float:
    """How far the worst used action is ahead of the best unused one, in the state where that is least."""
    lead = np.inf
    for h in range(q.shape[0]):
        for s in range(q.shape[1]):
            used, unused = np.inf, -np.inf
            for a in range(q.shape[2]):
                if uses[h, s, a]:
                    used = min(used, q[h, s, a])
                else:
                    unused = max(unused, q[h, s, a])
            lead = min(lead, used - unused)
    return lead
