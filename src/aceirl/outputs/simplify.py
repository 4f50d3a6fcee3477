"""Rewards that a person can read, for which the same policies are best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from aceirl.dynamic_programming import optimal_values
from aceirl.errors import InputError
from aceirl.mdp import MDP, BoolArray, FloatArray, IntArray, check_reward

# A difference in value below this share of the largest value is rounding.
TOLERANCE = 1e-7


def shaped(mdp: MDP, reward: FloatArray, potential: FloatArray) -> FloatArray:
    """`r - φ_h(s) + Σ P(s'|s,a)·φ_{h+1}(s')`, with `φ [H, S]` and nothing after the last step.

    Every action value falls by `φ_h(s)`, so in each state the actions keep their order and the distances between them:
    the same policies are best, by the same margin (Ng, Harada & Russell 1999, for a finite horizon).
    """
    mdp.require_complete()
    later = np.concatenate((potential[1:], np.zeros((1, mdp.n_states))))
    return check_reward(reward, mdp.shape) - potential[:, :, None] + mdp.transitions.expect(later)


def price_of_actions(mdp: MDP, reward: FloatArray) -> FloatArray:
    """The reward shaped by its own values: 0 for whatever is best, and else minus what the action costs in the end.

    `[H, S, A]` in, `[H, S, A]` out.
    """
    return shaped(mdp, reward, optimal_values(mdp, check_reward(reward, mdp.shape))[1])


@dataclass(frozen=True, eq=False)
class StateReward:
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
) -> StateReward | None:
    """The sparsest reward `[S]` that spans at most 1 and makes `policy [H, S]` best; None if only constants do.

    A linear programme: `g` and its values `V`, with `Σ (P_π - P_a)·V_{h+1} ≥ 0` for every other action (as Ng & Russell
    2000, for a finite horizon), maximising the sum of those margins less `price·‖g‖₁` for each of the `H` steps.
    `where [H, S]` restricts what is demanded, say to the states that were met. The answer is checked by backward
    induction, not believed.
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
    return StateReward(reward, policy, np.where(chosen > others + rounding, chosen - others, 0.0))


def _sparsest(mdp: MDP, policy: IntArray, demanded: BoolArray, price: float) -> FloatArray:
    """`g [S]` of the linear programme; its variables are `g⁺ [S]`, `g⁻ [S]`, `V [H, S]` and the largest `g⁻`."""
    from scipy.optimize import linprog  # slow to import

    horizon, n_states, _ = mdp.shape
    size = horizon * n_states
    followed, worse = _constraints(mdp, policy, demanded)
    one, none = sparse.eye_array(n_states), sparse.csr_array((n_states, n_states))
    all_steps, column = sparse.kron(np.ones((horizon, 1)), one), np.ones((n_states, 1))
    values = sparse.hstack([-all_steps, all_steps, sparse.eye_array(size) - followed, sparse.csr_array((size, 1))])
    margins = sparse.hstack(
        [sparse.csr_array((worse.shape[0], 2 * n_states)), worse, sparse.csr_array((worse.shape[0], 1))]
    )
    nothing = sparse.csr_array((n_states, size))
    # The largest and the smallest reward lie at most one apart, or all others would be pushed away from the common one.
    span = sparse.vstack(
        [sparse.hstack([one, none, nothing, column]), sparse.hstack([none, one, nothing, -column])], format="csr"
    )
    cost = np.asarray(margins.sum(axis=0)).ravel()
    cost[: 2 * n_states] += price * horizon
    answer = linprog(
        cost,
        A_ub=sparse.vstack([margins, span], format="csr"),
        b_ub=np.repeat([0.0, 1.0, 0.0], [worse.shape[0], n_states, n_states]),
        A_eq=sparse.csr_array(values),
        b_eq=np.zeros(size),
        bounds=[(0.0, 1.0)] * (2 * n_states) + [(None, None)] * size + [(0.0, 1.0)],
        method="highs",
    )
    if answer.x is None:
        raise InputError(f"the linear programme for a simple reward failed: {answer.message}")
    return np.asarray(answer.x[:n_states] - answer.x[n_states : 2 * n_states])


def _constraints(mdp: MDP, policy: IntArray, demanded: BoolArray) -> tuple[sparse.csr_array, sparse.csr_array]:
    """`P_π` and the rows of `P_a - P_π` for every other action, both from `V [H, S]` of the next step."""
    horizon, n_states, n_actions = mdp.shape
    transitions, states = mdp.transitions.matrix, np.arange(n_states)
    followed = [transitions[states * n_actions + policy[h]] for h in range(horizon - 1)]
    worse = []
    for h, taken in enumerate(followed):
        chosen = [states[demanded[h] & (policy[h] != a)] for a in range(n_actions)]
        rows = [transitions[some * n_actions + a] - taken[some] for a, some in enumerate(chosen)]
        worse.append(sparse.vstack(rows))
    size, later = horizon * n_states, (horizon - 1) * n_states
    shift = sparse.eye_array(later, size, k=n_states, format="csr")
    pad = sparse.csr_array((n_states, size))
    if horizon == 1:
        return pad, sparse.csr_array((0, size))
    return (
        sparse.vstack([sparse.block_diag(followed) @ shift, pad], format="csr"),
        sparse.csr_array(sparse.block_diag(worse) @ shift),
    )
