"""`reward`: the recovered reward judges good policies as the reward behind the expert would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from aceirl.certificates.base import Certificate, CertificateKind, radii_certificate, same_to_expert
from aceirl.certificates.budget import promised
from aceirl.irl.belief import Belief
from aceirl.models.tabular.bounds import plausible_policies
from aceirl.models.tabular.dynamic_programming import occupancy
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.models.tabular.planner import solve_constrained
from aceirl.rewards import action_values

PROMISE = (
    "the value of a good policy by the recovered reward differs from that by a reward that explains the expert by at "
    "most"
)

EVALUATIONS = 20
"""How long the worst good policy is searched for; what the search has then is a bound already."""


@dataclass(frozen=True)
class Reward(CertificateKind):
    """Paper, (SP2), for the recovered reward and its matched one."""

    name: ClassVar = "reward"
    summary: ClassVar = "the recovered reward judges good policies as the reward behind the expert would"

    def value(self, belief: Belief) -> float:
        """(EB2) over the policies that the recovered reward calls at most `epsilon` below the best.

        The matched reward need not lie in `[0, Rmax]`, so its errors are followed through the true process: what that
        may do beyond the estimate is added up with what a policy can lose at most where it may be. The worst good
        policy is searched for only if the best one promises anything.
        """
        belief = promised(belief)
        estimate, radii, recovered = belief.estimate, belief.radii, belief.recovered
        mdp = estimate.mdp
        if estimate.counts.contradicted.any():
            return float(radii.ceiling.sum())
        q = action_values(estimate, recovered.reward, recovered.unknown_step_reward)
        ceiling = np.cumsum(radii.ceiling[::-1])[::-1]
        cost, worst = _costs(belief, q, ceiling)
        value = float(mdp.initial @ worst[0])
        best = q.argmax(axis=2)
        promising = (occupancy(mdp, np.eye(mdp.n_actions)[best]) * cost).sum() < radii.ceiling[0]
        policies = plausible_policies(
            estimate, recovered.reward, recovered.unknown_step_reward, belief.target.epsilon / 10
        )
        if promising and policies is not None:
            answer = solve_constrained(mdp, cost, policies.reward, policies.floor, max_evaluations=EVALUATIONS)
            value = min(value, answer.bound)
        # A start off by `start/(H·Rmax)` meets what the estimate loses, at most H·Rmax, and how far off that is.
        start = radii.start * (1 + ceiling[0] / radii.ceiling[0])
        total = value + start if mdp.initial.any() else np.inf
        return (1 if radii.guaranteed else 4) * min(total, float(ceiling[0]))

    def explain(self, belief: Belief) -> Certificate:
        """Where the radii are largest along the worst policy."""
        belief = promised(belief)
        return radii_certificate("reward", PROMISE, belief, self.value(belief), belief.bound, belief.radii)


def _costs(belief: Belief, q: FloatArray, ceiling: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`(cost [H, S, A], worst [H+1, S])` of `_follow_truth`, for the recovered reward's `q [H, S, A]`."""
    estimate, radii, recovered = belief.estimate, belief.radii, belief.recovered
    horizon, n_states, _ = belief.shape
    cost, worst, lost = np.empty(belief.shape), *np.zeros((2, horizon + 1, n_states))
    lowest = -action_values(estimate, -recovered.reward, -recovered.unknown_step_reward).max(axis=2)
    lost[:-1] = q.max(axis=2) - lowest
    # The match prefers none of the actions the expert uses, nor any after the end; a reward that does is that far
    # from it there.
    preferred = np.where(same_to_expert(estimate), q.max(axis=2, keepdims=True) - q, 0.0)
    _follow_truth(
        *estimate.mdp.backup.rows,
        radii.expert[:, :, None] + preferred,
        np.ascontiguousarray(estimate.mdp.discount * radii.tv_radius),
        np.ascontiguousarray(estimate.mdp.discount * radii.unseen_mass),
        lost,
        np.append(radii.ceiling, 0.0),
        np.append(ceiling, 0.0),
        estimate.possible_states <= n_states,
        cost,
        worst,
    )
    return cost, worst


@compiled
def _follow_truth(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    error: FloatArray,
    tv_radius: FloatArray,
    unseen_mass: FloatArray,
    lost: FloatArray,
    most_lost: FloatArray,
    ceiling: FloatArray,
    all_met: bool,
    cost: FloatArray,
    worst: FloatArray,
) -> None:
    """`worst[h] = max_a cost[h] + γ·P̂·worst[h+1]` where `cost` is the error and what the true row may add to `P̂`.

    The true row may move `tv_radius` of its mass among the successors seen, and take `unseen_mass` of it anywhere: to
    the worst state, or, unless all states were met, to one of which nothing is known. It adds to what a policy loses,
    at most `lost [H+1, S]` and `most_lost [H+1]` in a state of which nothing is known, and to the error that is made of
    it. Advantages are at most `(H-h)·Rmax` at every step to come, which add up to the `ceiling [H+1]`.
    """
    horizon, n_states, n_actions = error.shape
    for h in range(horizon - 1, -1, -1):
        later, losses = worst[h + 1], lost[h + 1]
        any_later = later.max() if all_met else ceiling[h + 1]
        any_loss = losses.max() if all_met else most_lost[h + 1]
        for s in range(n_states):
            worst[h, s] = 0.0
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                first, last = indptr[row], indptr[row + 1]
                total, added = 0.0, error[h, s, a] + any_later + any_loss
                if first < last:
                    highest, lowest, most = later[successors[first]], later[successors[first]], 0.0
                    for k in range(first, last):
                        after = later[successors[k]]
                        total += probabilities[k] * after
                        highest, lowest = max(highest, after), min(lowest, after)
                        most = max(most, losses[successors[k]])
                    moved, new = tv_radius[h, s, a], unseen_mass[h, s, a]
                    added = error[h, s, a] + moved * (highest - lowest + most)
                    added += new * (max(any_later - highest, 0.0) + max(any_loss - most, 0.0))
                cost[h, s, a] = min(added, ceiling[h])
                worst[h, s] = max(worst[h, s], min(added + total, ceiling[h]))
