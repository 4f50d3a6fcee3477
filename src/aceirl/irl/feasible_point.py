"""The plain feasible point: what the expert does is worth everything, what it does not do is worth nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import Successors, compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards.recovered import Parameters, Recovered, infeasibility
from aceirl.rewards.spaces import RewardSpace, require_any


@dataclass(frozen=True)
class FeasiblePoint:
    """`r = Rmax` on the expert's actions and wherever the expert is unknown, else `0`.

    In the explicit description of the feasible set this is `V_h = (H-h)·Rmax`, `A = Rmax`: whatever the dynamics, the
    expert collects all there is, so the reward is feasible in the estimated and in the true process alike.
    """

    def __call__(
        self, estimate: Estimate, rmax: float, warm: Parameters | None = None, space: RewardSpace | None = None
    ) -> Recovered:
        """The point for what is known now."""
        require_any("feasible-point", space)
        reward = plain_reward(estimate, 1.0)
        return Recovered(reward, 1.0, infeasibility(estimate, reward, 1.0)).in_units(rmax)


def plain_reward(estimate: Estimate, rmax: float) -> FloatArray:
    """`[H, S, A]`: all for the known answers and wherever there is none, nothing for the rest."""
    return np.where(estimate.allowed, rmax, 0.0)


# How far a known answer must be ahead of every other action, in units of Rmax, to count as greedy.
MARGIN = 1e-6

BLENDS = np.array((0.0, *(2.0**-k for k in range(12, -1, -1))))
"""The shares of the plain feasible point that are tried."""


def reproducing_answers(estimate: Estimate, recovered: Recovered, rmax: float) -> Recovered:
    """The reward moved towards the plain feasible point until every known answer of the expert is uniquely greedy.

    `(1-w)·r + w·r_point` with the smallest `w` of `0, 2⁻¹², …, ½, 1` found by bisection that does it; at `w = 1` it
    always holds, and `blend` says what it took. A step of its own after any algorithm, for whoever wants a reward whose
    greedy policy repeats the answers.
    """
    point, before, mdp = plain_reward(estimate, rmax), recovered.unknown_step_reward, estimate.mdp
    blend = _least_blend(
        mdp.backup.rows, mdp.steps_after, recovered.reward, point, before, rmax, estimate.expert_uses, MARGIN * rmax
    )
    reward = (1 - blend) * recovered.reward + blend * point
    return replace(
        recovered, reward=reward, unknown_step_reward=(1 - blend) * before + blend * rmax, blend=float(blend)
    )


@compiled
def _least_blend(
    rows: tuple[IntArray, Successors, FloatArray, int],
    steps_after: FloatArray,
    reward: FloatArray,
    point: FloatArray,
    unknown: float,
    unknown_point: float,
    uses: BoolArray,
    margin: float,
) -> float:
    """The first of the `BLENDS`, by bisection, with which used actions are ahead of all others by the margin."""
    low, high = 0, BLENDS.size - 1
    while low < high:
        middle = (low + high) // 2
        blend = BLENDS[middle]
        step_reward = (1 - blend) * unknown + blend * unknown_point
        if _least_lead(rows, steps_after, reward, point, blend, step_reward, uses) >= margin:
            high = middle
        else:
            low = middle + 1
    return float(BLENDS[low])


@compiled
def _least_lead(
    rows: tuple[IntArray, Successors, FloatArray, int],
    steps_after: FloatArray,
    reward: FloatArray,
    point: FloatArray,
    blend: float,
    step_reward: float,
    uses: BoolArray,
) -> float:
    """How far the worst used action is ahead of the best unused one, in the state where that is least.

    By the values of the best policy for `(1 - blend)·reward + blend·point`, where a step after an unknown row earns
    `step_reward`.
    """
    indptr, successors, probabilities, stride = rows
    horizon, n_states, n_actions = reward.shape
    lead, v = np.inf, np.zeros((2, n_states))
    for h in range(horizon - 1, -1, -1):
        here, later = v[h % 2], v[(h + 1) % 2]
        last = np.uint64(indptr[h * stride])
        for s in range(n_states):
            best, used, unused = -np.inf, np.inf, -np.inf
            for a in range(n_actions):
                first, last = last, np.uint64(indptr[h * stride + s * n_actions + a + 1])
                q = step_reward * steps_after[h] if first == last else 0.0
                for k in range(first, last):
                    q += probabilities[k] * later[np.uint32(successors[k])]
                q += (1 - blend) * reward[h, s, a] + blend * point[h, s, a]
                best = max(best, q)
                if uses[h, s, a]:
                    used = min(used, q)
                else:
                    unused = max(unused, q)
            here[s] = best
            lead = min(lead, used - unused)
    return lead
