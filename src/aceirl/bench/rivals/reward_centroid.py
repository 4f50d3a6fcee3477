"""Reward centroids: the mean of all rewards that explain the expert, in closed form.

Lazzati and Metelli, "Generalizing Behavior via Inverse Reinforcement Learning with Closed-Form Reward Centroids"
(2025).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards.recovered import Parameters, Recovered, infeasibility, scaled
from aceirl.rewards.spaces import RewardSpace, require_any


@dataclass(frozen=True)
class RewardCentroid:
    """The centroid of the feasible set, up to what no policy notices: a scale and a potential.

    A feasible reward is `V - P·V'` less an advantage, zero for the best action. Over all `V` within a bound and all
    advantages up to a bound, means of the first cancel to a potential, and what is left of the second is

        r(h, s, a) = 1 if the expert takes `a`, else 0;   1/A for all actions where it is not known.

    A stochastic expert is taken for a Boltzmann one, whose advantages are logarithms of probabilities: `log(π/max π)`,
    with probabilities of at least `least_probability`, and that least one where it is not known. Differs from the
    paper: there is a horizon and no discount, and the expert is known where it was asked instead of where it goes.

    Checked in `benchmarks/rivals_bayesian.py`: the mean of feasible rewards, drawn as in the authors' released code, is
    the closed form within two standard errors in as many entries as chance lets expect; and in their 10 x 10 grid the
    policy that is best for it repeats the expert.
    """

    least_probability: float = 1e-4

    def __call__(
        self, estimate: Estimate, rmax: float, warm: Parameters | None = None, space: RewardSpace | None = None
    ) -> Recovered:
        """The centroid for what is known now."""
        require_any("reward-centroid", space)
        if estimate.kind.deterministic:
            reward = optimal_centroid(estimate)
            unknown = 1.0 / reward.shape[2]
        else:
            reward, unknown = scaled(boltzmann_centroid(estimate, self.least_probability))
            unknown = float(reward.min())
        return Recovered(reward, unknown, infeasibility(estimate, reward, unknown)).in_units(rmax)


def optimal_centroid(estimate: Estimate) -> FloatArray:
    """`[H, S, A]`: that of the rewards for which a deterministic expert is optimal."""
    uses = estimate.expert_uses
    return np.where(uses.any(axis=2, keepdims=True), uses.astype(np.float64), 1.0 / uses.shape[2])


def boltzmann_centroid(estimate: Estimate, least_probability: float) -> FloatArray:
    """`[H, S, A]`: that of the rewards for which a Boltzmann expert of rationality one does what it does."""
    policy = np.maximum(estimate.expert_policy, least_probability)
    advantage = np.log(policy / policy.max(axis=2, keepdims=True))
    return np.asarray(np.where(estimate.answered[:, :, None], advantage, np.log(least_probability)))
