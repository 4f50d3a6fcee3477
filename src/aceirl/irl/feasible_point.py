"""The plain feasible point: what the expert does is worth everything, what it does not do is worth nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from aceirl.counts import Estimate
from aceirl.kernels import compiled
from aceirl.mdp import BoolArray, FloatArray
from aceirl.rewards.recovered import Recovered, action_values, infeasibility
from aceirl.rewards.spaces import RewardSpace, require_any


@dataclass(frozen=True)
class FeasiblePoint:
    """`r = Rmax` on the expert's actions and wherever the expert is unknown, else `0`.

    In the explicit description of the feasible set this is `V_h = (H-h)·Rmax`, `A = Rmax`: whatever the dynamics, the
    expert collects all there is, so the reward is feasible in the estimated and in the true process alike.
    """

    def __call__(
        self,
        estimate: Estimate,
        rmax: float,
        warm: Mapping[str, FloatArray] | None = None,
        space: RewardSpace | None = None,
    ) -> Recovered:
        """The point for what is known now."""
        require_any("feasible-point", space)
        reward = plain_reward(estimate, 1.0)
        return Recovered(reward, 1.0, infeasibility(estimate, reward, 1.0)).in_units(rmax)


def plain_reward(estimate: Estimate, rmax: float) -> FloatArray:
    """`[H, S, A]`: all for the known answers and wherever there is none, nothing for the rest."""
    uses = estimate.expert_uses
    return np.where(uses | ~uses.any(axis=2, keepdims=True), rmax, 0.0)


# How far a known answer must be ahead of every other action, in units of Rmax, to count as greedy.
MARGIN = 1e-6


def reproducing_answers(estimate: Estimate, recovered: Recovered, rmax: float) -> Recovered:
    """The reward moved towards the plain feasible point until every known answer of the expert is uniquely greedy.

    `(1-w)·r + w·r_point` with the smallest `w` of `0, 2⁻¹², …, ½, 1` found by bisection that does it; at `w = 1` it
    always holds, and `blend` says what it took. A step of its own after any algorithm, for whoever wants a reward whose
    greedy policy repeats the answers.
    """
    uses, point = estimate.expert_uses, plain_reward(estimate, rmax)
    blends = (0.0, *(2.0**-k for k in range(12, -1, -1)))

    def mixed(blend: float) -> tuple[FloatArray, float]:
        reward = (1 - blend) * recovered.reward + blend * point
        return reward, (1 - blend) * recovered.unknown_step_reward + blend * rmax

    def suffices(blend: float) -> bool:
        return _least_lead(action_values(estimate, *mixed(blend)), uses) >= MARGIN * rmax

    blend = blends[bisect_left(blends, True, hi=len(blends) - 1, key=suffices)]
    reward, unknown = mixed(blend)
    return replace(recovered, reward=reward, unknown_step_reward=unknown, blend=blend)


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
