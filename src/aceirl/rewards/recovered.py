"""What an IRL algorithm is asked and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards.explanation import Explanation
from aceirl.rewards.spaces import SPACES, RewardSpace

Parameters = Mapping[str, FloatArray]
"""Named arrays from which an algorithm may start next time; nobody else looks at them."""


@dataclass(frozen=True, eq=False)
class Recovered:
    """A reward `[H, S, A]` in `[0, Rmax]`, and what it is worth.

    `unknown_step_reward` is what a step of unknown consequence is taken to earn: nothing is known to happen after a row
    that was never visited, so each of the `H-h-1` steps after it earns that. `infeasibility` is the most that a known
    answer loses in the estimated process under the reward as the algorithm found it; zero means feasible. `parameters`
    are what the algorithm may start from next time. `residual` is how far it was from converging, by its own measure.
    `blend` is the share of the plain feasible point that was mixed in to make known answers greedy, where that was
    chosen. `explanation` is what the reward says of the expert, if it is one that says something.
    """

    reward: FloatArray
    unknown_step_reward: float
    infeasibility: float
    parameters: Parameters = field(default_factory=dict)
    iterations: int = 0
    residual: float = 0.0
    blend: float = 0.0
    explanation: Explanation | None = None

    @classmethod
    def nothing(cls, shape: tuple[int, int, int]) -> Recovered:
        """Before anything was observed."""
        return cls(np.zeros(shape), 0.0, 0.0)

    def in_units(self, rmax: float) -> Recovered:
        """A reward that was computed in units of Rmax, as all are, in those of the problem."""
        return replace(
            self,
            reward=rmax * self.reward,
            unknown_step_reward=rmax * self.unknown_step_reward,
            infeasibility=rmax * self.infeasibility,
        )

    def grown(self, n_states: int) -> Recovered:
        """The same reward where more states are known; of the new ones nothing is."""
        horizon, before, n_actions = self.reward.shape
        if n_states == before:
            return self
        unknown = np.full((horizon, n_states - before, n_actions), self.unknown_step_reward)
        return replace(self, reward=np.concatenate((self.reward, unknown), axis=1))


class InverseReinforcement(Protocol):
    """An IRL algorithm: from what is known to a reward in a space; without a space, in whichever it thinks fit.

    `warm` are the `parameters` of its last answer, if any. In a growing environment the problem may have more states
    than when they were made; to use them then is its own affair.
    """

    def __call__(self, estimate: Estimate, rmax: float, warm: Parameters, space: RewardSpace | None) -> Recovered: ...


def recovered_from(
    estimate: Estimate,
    table: FloatArray,
    parameters: Parameters,
    iterations: int,
    residual: float = 0.0,
    explanation: Explanation | None = None,
) -> Recovered:
    """What was found as a table `[H, S, A]` of any numbers, moved and stretched to `[0, 1]`."""
    reward, unknown = scaled(table)
    lost = infeasibility(estimate, reward, unknown)
    return Recovered(reward, unknown, lost, parameters, iterations, residual, explanation=explanation)


def expanded(found: Recovered, estimate: Estimate, numbers: IntArray) -> Recovered:
    """A reward of fewer states in those of the estimate, each of which is one of the `numbers [S]` there."""
    reward, said = np.ascontiguousarray(found.reward[:, numbers]), found.explanation
    if said is not None:
        design = SPACES[said.space]().design_matrix(estimate.mdp, estimate.terminal_states)
        said = said.elsewhere(design, numbers)
    lost = infeasibility(estimate, reward, found.unknown_step_reward)
    return replace(found, reward=reward, infeasibility=lost, explanation=said)


def action_values(estimate: Estimate, reward: FloatArray, unknown_step_reward: float) -> FloatArray:
    """`Q [H, S, A]` of the best policy for a recovered reward in the estimated process."""
    return optimal_values(estimate.mdp, reward, unknown_step_reward * estimate.mdp.steps_after)[0]


def infeasibility(estimate: Estimate, reward: FloatArray, unknown_step_reward: float) -> float:
    """The most that an action the expert is known to take loses against the best one.

    Paper, Lemma "Feasible Reward Set Implicit": zero exactly if the expert, as far as it is known, is optimal.
    """
    q = action_values(estimate, reward, unknown_step_reward)
    return _largest_loss(q, estimate.expert_uses)


@compiled
def _largest_loss(q: FloatArray, uses: BoolArray) -> float:
    """The most by which a used action lags behind the best one, zero if none is used; both are `[H, S, A]`."""
    loss = 0.0
    for h in range(q.shape[0]):
        for s in range(q.shape[1]):
            for a in range(q.shape[2]):
                if uses[h, s, a]:
                    loss = max(loss, q[h, s].max() - q[h, s, a])
    return loss


def scaled(parameters: FloatArray) -> tuple[FloatArray, float]:
    """`(reward, unknown_step_reward)`: parameters moved and stretched to `[0, 1]`, and where their zero went."""
    low, high = min(0.0, float(parameters.min())), max(0.0, float(parameters.max()))
    if high == low:
        return np.zeros_like(parameters), 0.0
    # A difference may round up past the other.
    return np.minimum((parameters - low) / (high - low), 1.0), min(-low / (high - low), 1.0)
