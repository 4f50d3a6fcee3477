"""Rewards that a person can read, for which the same policies are best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from aceirl.errors import InputError
from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray, check_reward
from aceirl.rewards import FeasibleRewardSet, StateReward
from aceirl.rewards.polytope import compared, linear
from aceirl.rewards.programme import Programme

# A difference in value below this share of the largest value is rounding.
TOLERANCE = 1e-7


def shaped(mdp: MDP, reward: FloatArray, potential: FloatArray) -> FloatArray:
    """`r - φ_h(s) + γ·Σ P(s'|s,a)·φ_{h+1}(s')`, with `φ [H, S]` and nothing after the last step.

    Every action value falls by `φ_h(s)`, so in each state the actions keep their order and the distances between them:
    the same policies are best, by the same margin (Ng, Harada & Russell 1999, for a finite horizon).
    """
    mdp.require_complete()
    later = np.concatenate((potential[1:], np.zeros((1, mdp.n_states))))
    return check_reward(reward, mdp.shape) - potential[:, :, None] + mdp.backup.expect(later)


def price_of_actions(mdp: MDP, reward: FloatArray) -> FloatArray:
    """The reward shaped by its own values: 0 for whatever is best, and else minus what the action costs in the end.

    `[H, S, A]` in, `[H, S, A]` out.
    """
    return shaped(mdp, reward, optimal_values(mdp, check_reward(reward, mdp.shape))[1])


@dataclass(frozen=True, eq=False)
class SimpleReward:
    """A reward `[S]` for being in a state, and the proof that it will do.

    `policy [H, S]` is best under it. `margin [H, S]` is by how much it is better than any other action, 0 where another
    is as good: there the simple reward leaves the choice open, and it always does in the last step.
    """

    reward: FloatArray
    policy: IntArray
    margin: FloatArray

    @property
    def decided(self) -> BoolArray:
        """`[H, S]`: where the policy is the only best one."""
        return np.asarray(self.margin > 0)


def state_only(
    mdp: MDP, policy: IntArray, *, price: float = 0.01, where: BoolArray | None = None
) -> SimpleReward | None:
    """The sparsest reward `[S]` that spans at most 1 and makes `policy [H, S]` best; None if only constants do.

    A linear programme: no other action may be better (as Ng & Russell 2000, for a finite horizon), and the margins in
    all, less `price·‖g‖₁` for each of the `H` steps, are as large as can be. `where [H, S]` restricts what is demanded,
    say to the states that were met. The answer is checked by backward induction, not believed.
    """
    mdp.require_complete()
    if not mdp.stationary:
        raise InputError("state_only needs dynamics that are the same at every step")
    demanded = np.ones(mdp.shape[:2], dtype=np.bool_) if where is None else where
    solution = _sparsest(mdp, policy, demanded, price)
    largest = np.abs(solution).max()
    if largest < TOLERANCE:
        return None
    reward = np.where(np.abs(solution) < TOLERANCE * largest, 0.0, solution)
    q, v = optimal_values(mdp, np.broadcast_to(reward[None, :, None], mdp.shape))
    chosen = np.take_along_axis(q, policy[:, :, None], axis=2)[:, :, 0]
    others = np.where(np.arange(mdp.n_actions) == policy[:, :, None], -np.inf, q).max(axis=2)
    rounding = TOLERANCE * max(1.0, float(np.abs(v).max()))
    if (demanded & (chosen < others - rounding)).any():
        return None
    return SimpleReward(reward, policy, np.where(chosen > others + rounding, chosen - others, 0.0))


def _sparsest(mdp: MDP, policy: IntArray, demanded: BoolArray, price: float) -> FloatArray:
    """`g [S]` of the linear programme; its unknowns are `g⁺ [S]`, `g⁻ [S]` and the largest `g⁻`."""
    feasible, n = FeasibleRewardSet.of_problem(mdp, policy, space=StateReward()), mdp.n_states
    _, behind = linear(feasible, feasible.policy)
    others = demanded[:, :, None] & (np.arange(mdp.n_actions) != policy[:, :, None])
    margins = behind[(others & compared(feasible, behind)).ravel()]
    one, none, column = scipy.sparse.eye_array(n), scipy.sparse.csr_array((n, n)), np.ones((n, 1))
    # The largest and the smallest reward lie at most one apart, or all others would be pushed away from the common one.
    rows = [
        [margins, -margins, scipy.sparse.csr_array((margins.shape[0], 1))],
        [one, none, column],
        [none, one, -column],
    ]
    gained = np.asarray(margins.sum(axis=0)).ravel()
    answer = Programme(
        cost=np.append(price * mdp.horizon + np.concatenate([-gained, gained]), 0.0),
        rows=scipy.sparse.vstack([scipy.sparse.hstack(row) for row in rows]),
        low=np.repeat([0.0, -np.inf], [margins.shape[0], 2 * n]),
        high=np.repeat([np.inf, 1.0, 0.0], [margins.shape[0], n, n]),
        lower=np.zeros(2 * n + 1),
        upper=np.ones(2 * n + 1),
    ).solve()
    return np.asarray(answer.x[:n] - answer.x[n : 2 * n])
