"""The plain feasible point: what the expert does is worth everything, what it does not do is worth nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aceirl.counts import Estimate
from aceirl.irl.base import Recovered, action_values, expert_uses, infeasibility
from aceirl.mdp import FloatArray


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

    `(1-w)·r + w·r_point` with the smallest `w` of `0, 2⁻¹², …, ½, 1` that does it; at `w = 1` it always holds. What a
    promise about the greedy policy rests on is thus true by construction, and `blend` says what it took.
    """
    point = feasible_point(estimate, rmax)
    uses = expert_uses(estimate)
    for blend in (0.0, *(2.0**-k for k in range(12, -1, -1))):
        reward = (1 - blend) * recovered.reward + blend * point.reward
        neutral = (1 - blend) * recovered.neutral + blend * point.neutral
        q = action_values(estimate, reward, neutral)
        ahead = np.where(uses, q, np.inf).min(axis=2) - np.where(uses, -np.inf, q).max(axis=2)
        if (ahead >= MARGIN * rmax).all():
            break
    return replace(recovered, reward=reward, neutral=neutral, blend=blend)
