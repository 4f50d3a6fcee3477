"""RLP: a reward that is never higher than it should be, from a fixed set of data.

Zhao, Wang and Bai, "Is Inverse Reinforcement Learning Harder than Standard Reinforcement Learning?" (ICML 2024).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aceirl.bench.rivals.rebased import Rebased, judged
from aceirl.models.tabular.bounds import highest_means
from aceirl.models.tabular.confidence import adaptive
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards import Recovered, action_values
from aceirl.rewards.recovered import scaled


@dataclass(frozen=True)
class Rlp(Rebased):
    """Algorithm 1 (Reward Learning with Pessimism), of the parameters `(V, A)` that another algorithm's reward has.

    The paper recovers the whole map from parameters to rewards. Here one reward is wanted, so `base` names the
    algorithm whose reward says which: `V` is its optimal value in the estimated process, and `A` how far each action is
    behind. Moved and stretched to `[0, Rmax]`, which changes no preference where every episode has `H` steps.
    """

    delta: float = 0.1

    def changed(self, estimate: Estimate, first: Recovered) -> Recovered:
        """The base's reward, made pessimistic."""
        q = action_values(estimate, first.reward, first.unknown_step_reward)
        values = q.max(axis=2)
        reward = pessimistic(estimate, values, values[:, :, None] - q, self.delta)
        found, unknown = scaled(reward)
        return judged(estimate, replace(first, reward=found, unknown_step_reward=unknown, explanation=None))


def pessimistic(estimate: Estimate, values: FloatArray, advantage: FloatArray, delta: float) -> FloatArray:
    """`R̂(V, A) [H, S, A]`, equation (4.4): `-A·1{a ∉ supp π̂ᴱ} + V - P̂·V - b`, for `V [H, S]` and `A [H, S, A] ≥ 0`.

    With probability `1 - delta` it is at most `R(V, A)` of the true process everywhere (monotonicity, Theorem 4.3), for
    all `(V, A)` and at all times at once. Where the expert was never asked every action may be one that it declines.
    """
    declined = np.where(estimate.expert_uses, 0.0, advantage)
    mean = estimate.mdp.transitions.expect(next_values(values))
    return values[:, :, None] - mean - declined - penalty(estimate, values, delta)


def next_values(values: FloatArray) -> FloatArray:
    """`[H, S]`: those of the next step; nothing follows the last."""
    return np.concatenate([values[1:], np.zeros((1, values.shape[1]))])


def penalty(estimate: Estimate, values: FloatArray, delta: float) -> FloatArray:
    """`b [H, S, A]`, equation (4.3): how far the true mean of `values [H, S]` may lie above the estimated one.

    Differs: the paper's bonus is Bernstein's, with a constant that it leaves open and a covering number of the
    parameters. This is the largest mean within the divergence that holds for all values and at all times at once
    (`mixture_divergence`); like the other it shrinks with the variance. After an unknown row it is the largest value.
    States that were not met yet are left out.
    """
    mdp, later = estimate.mdp, next_values(values)
    divergence = adaptive(estimate, 1.0, delta).divergence
    best = later.max(axis=1)[:, None, None]
    return np.where(mdp.known, highest_means(mdp, divergence, later), best)
