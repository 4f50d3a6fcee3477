"""The feasible set as a polytope in `(r, V)`, for linear programmes over it.

The unknowns are `r [H·S·A]`, then `V [H·S]`, then `unknown_step_reward`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from aceirl.mdp import MDP, FloatArray, steps_after, steps_left
from aceirl.rewards.feasible import FeasibleRewardSet
from aceirl.rewards.programme import Programme


def programme(feasible: FeasibleRewardSet, cost: FloatArray) -> Programme:
    """Minimise `⟨cost, r⟩`, `cost [H, S, A]`, over the set.

    The rows are those of `bellman`: zero where the expert uses the action, else at least zero, as everywhere with a
    slack; then one more row is what the expert loses from the start. Where the expert is not known, a member has
    `V = max_a Q`, which no linear programme can say: it is left at `V ≥ Q`.
    """
    horizon, n_states, _ = feasible.mdp.shape
    rows = bellman(feasible.mdp)
    low, high = np.zeros(cost.size), np.where(feasible.uses.ravel(), 0.0, np.inf)
    if feasible.slack is not None:
        lost = sparse.csr_array((feasible.expert_occupancy.ravel() @ rows)[None, :])
        rows = sparse.vstack([rows, lost], format="csr")
        low, high = np.append(low, -np.inf), np.append(np.full(cost.size, np.inf), feasible.slack)
    ceiling = np.repeat(feasible.rmax * steps_left(horizon), n_states)
    after = [feasible.unknown_step_reward]
    return Programme(
        cost=np.concatenate([cost.ravel(), np.zeros(horizon * n_states + 1)]),
        rows=rows,
        low=low,
        high=high,
        lower=np.concatenate([feasible.lower.ravel(), np.zeros(horizon * n_states), after]),
        upper=np.concatenate([feasible.upper.ravel(), ceiling, after]),
        unit=feasible.rmax,
    )


def bellman(mdp: MDP) -> Any:
    """One sparse row for each `(h, s, a)`: how far the action is behind, `V_h(s) - r_h(s,a) - Σ P(s'|s,a)·V_{h+1}(s')`.

    Where a row of transitions is unknown, `(H-h-1)·unknown_step_reward` stands in for the sum.
    """
    n_rewards, entry = int(np.prod(mdp.shape)), np.arange(np.prod(mdp.shape))
    own = sparse.csr_array((np.ones(n_rewards), (entry, entry // mdp.n_actions)))
    remaining = np.where(mdp.known, 0.0, steps_after(mdp.horizon)[:, None, None])
    return sparse.hstack(
        [-sparse.eye_array(n_rewards), own - expectation(mdp), sparse.csr_array(-remaining.reshape(-1, 1))],
        format="csr",
    )


def expectation(mdp: MDP) -> Any:
    """Sparse `[H·S·A, H·S]`: what values of all steps come to, one step after each `(h, s, a)`."""
    horizon, n_states, n_actions = mdp.shape
    rows = mdp.transitions
    if rows.stationary:
        return sparse.kron(sparse.eye_array(horizon, k=1), rows.matrix, format="csr")
    step = np.repeat(np.arange(horizon), np.diff(rows.indptr[:: n_states * n_actions]))
    later = (rows.probabilities, rows.successors + (step + 1) * n_states, rows.indptr)
    return sparse.csr_array(later, shape=(rows.n_rows, (horizon + 1) * n_states))[:, : horizon * n_states]


def unpacked(mdp: MDP, unknowns: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """`(r [H, S, A], V [H, S], unknown_step_reward)` from a solver's answer; what comes after them is left out."""
    horizon, n_states, n_actions = mdp.shape
    n_rewards, n_values = horizon * n_states * n_actions, horizon * n_states
    reward, values, after = np.split(unknowns[: n_rewards + n_values + 1], [n_rewards, n_rewards + n_values])
    return reward.reshape(mdp.shape), values.reshape(horizon, n_states), float(after[0])


def polished(feasible: FeasibleRewardSet, unknowns: FloatArray) -> FloatArray:
    """The reward `[H, S, A]` in a solver's answer, with the rows it satisfied up to its tolerance made exact.

    What is left over is moved into the bounds, where it cannot add up over the steps.
    """
    reward, values, _ = unpacked(feasible.mdp, unknowns)
    if feasible.slack is None:
        room = values[:, :, None] - feasible.continuation(values)
        reward = np.where(feasible.uses, room, np.minimum(reward, room))
    return np.clip(reward, feasible.lower, feasible.upper)
