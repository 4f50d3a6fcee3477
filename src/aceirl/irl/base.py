"""What an IRL algorithm is asked and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from aceirl.counts import Estimate
from aceirl.kernels import optimal_values
from aceirl.mdp import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Recovered:
    """A reward `[H, S, A]` in `[0, Rmax]`, and what it is worth.

    `neutral` is the reward a step of unknown consequence is taken to earn: nothing is known to happen after a row that
    was never visited, so the `H-h-1` steps after it are worth `neutral` each. `infeasibility` is the most that a
    known answer loses in the estimated process under the reward as the algorithm found it; zero means feasible.
    `parameters [H, S, A]` is where the algorithm starts next time. `residual` is how far it was from converging,
    by its own measure. `blend` is the share of the plain feasible point mixed in since, to make known answers greedy.
    """

    reward: FloatArray
    neutral: float
    infeasibility: float
    parameters: FloatArray
    iterations: int
    residual: float
    blend: float = 0.0


class InverseReinforcement(Protocol):
    """An IRL algorithm: from what is known to a reward. `warm` is the last answer's `parameters`, if there was one."""

    def __call__(self, estimate: Estimate, rmax: float, warm: FloatArray | None) -> Recovered: ...


def action_values(estimate: Estimate, reward: FloatArray, neutral: float) -> FloatArray:
    """`Q [H, S, A]` of the best policy for a recovered reward in the estimated process."""
    horizon = estimate.mdp.horizon
    return optimal_values(estimate.mdp, reward, neutral * np.arange(horizon - 1, -1, -1.0))[0]


def infeasibility(estimate: Estimate, reward: FloatArray, neutral: float) -> float:
    """The most that an action the expert is known to take loses against the best one.

    Paper, Lemma "Feasible Reward Set Implicit": zero exactly if the expert, as far as it is known, is optimal.
    """
    q = action_values(estimate, reward, neutral)
    loss = (q.max(axis=2, keepdims=True) - q)[expert_uses(estimate)]
    return float(loss.max(initial=0.0))


def expert_uses(estimate: Estimate) -> BoolArray:
    """`[H, S, A]`: the actions the expert is known to take."""
    asked = estimate.kind.pooled(estimate.counts.answers).sum(axis=2, keepdims=True) > 0
    return np.asarray((estimate.expert_policy > 0) & asked)


def scaled(parameters: FloatArray, rmax: float) -> tuple[FloatArray, float]:
    """`(reward, neutral)`: parameters moved and stretched to `[0, Rmax]`, and where their zero went."""
    low, high = min(0.0, float(parameters.min())), max(0.0, float(parameters.max()))
    if high == low:
        return np.zeros_like(parameters), 0.0
    factor = rmax / (high - low)
    # A product may round up past Rmax.
    return np.minimum((parameters - low) * factor, rmax), min(-low * factor, rmax)
