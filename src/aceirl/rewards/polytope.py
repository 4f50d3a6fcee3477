"""The feasible set as a polytope in `(θ, V)`, for linear programmes over it.

The unknowns are the parameters `θ [n]`, then the values `V` of each step and state that do not follow the expert, then
`unknown_step_reward` if the set has one. In the space `any` these are `r [H·S·A]`, `V [H·S]` and one more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray
from aceirl.rewards.feasible import FeasibleRewardSet
from aceirl.rewards.programme import Programme


def programme(feasible: FeasibleRewardSet, cost: FloatArray | None = None, only: BoolArray | None = None) -> Programme:
    """Minimise `⟨cost, θ⟩` over the set; with a mask `only [H, S, A]` no other comparisons count.

    The rows are `V - Q` of the entries that are `compared`: zero where the expert uses the action, else at least zero,
    up to the tolerance; with a slack at least zero everywhere, and one more row is what the expert loses from the
    start. Where the expert is not known, a member has `V = max_a Q`, which no linear programme can say: it is left at
    `V ≥ Q`. Rewards are in units of `unit_reward`.
    """
    mdp, n, unit = feasible.mdp, feasible.design.n_parameters, unit_reward(feasible)
    policy = feasible.policy if feasible.follows else np.zeros(mdp.shape)
    _, behind = linear(feasible, policy)
    entries = compared(feasible, behind) if only is None else compared(feasible, behind) & only
    rows, allowed = behind[entries.ravel()], (np.asarray(feasible.tolerance) / unit)[:, :, None]
    low = np.broadcast_to(-allowed, entries.shape)[entries]
    high = np.where(feasible.uses, allowed, np.inf)[entries]
    if feasible.slack is not None:
        rows = scipy.sparse.vstack(
            [rows, scipy.sparse.csr_array((feasible.expert_occupancy.ravel() @ behind)[None, :])], format="csr"
        )
        low, high = np.append(low, -np.inf), np.append(np.full(len(low), np.inf), feasible.slack / unit)
    remaining = np.broadcast_to(mdp.steps_left[:, None], mdp.shape[:2])[~policy.any(axis=2)]
    most = feasible.largest_reward / unit * remaining
    least = np.zeros_like(most) if feasible.design.free else -most  # tables have no negative entries
    after = np.array([] if feasible.unknown_step_reward is None else [feasible.unknown_step_reward])
    return Programme(
        cost=np.concatenate([np.zeros(n) if cost is None else cost.ravel(), np.zeros(rows.shape[1] - n)]),
        rows=rows,
        low=low,
        high=high,
        lower=np.concatenate([feasible.lower.ravel(), least, after]),
        upper=np.concatenate([feasible.upper.ravel(), most, after]),
        unit=feasible.scale,
    )


def unit_reward(feasible: FeasibleRewardSet) -> float:
    """The largest reward that one parameter of size one can give: programmes have rewards in units of it."""
    return float(np.abs(feasible.design.matrix).max()) or 1.0


def linear(feasible: FeasibleRewardSet, policy: FloatArray) -> tuple[Any, Any]:
    """`V [H·S, m]` and `V - Q [H·S·A, m]`, sparse, as functions of the `m` unknowns, in units of `unit_reward`.

    Values of states where the policy `[H, S, A]` acts follow it: mixtures of the unknowns, put together from the last
    step on. The others are unknowns of their own.
    """
    mdp, n, unit = feasible.mdp, feasible.design.n_parameters, unit_reward(feasible)
    horizon, n_states, n_actions = mdp.shape
    place = np.flatnonzero(~policy.any(axis=2).ravel())
    m, per_step = n + len(place) + (feasible.unknown_step_reward is not None), n_states * n_actions
    matrix = feasible.design.matrix / unit
    paid = scipy.sparse.hstack([matrix, scipy.sparse.csr_array((matrix.shape[0], m - n))], format="csr")
    own = (np.ones(len(place)), (place, n + np.arange(len(place))))
    unknown = scipy.sparse.csr_array(own, shape=(horizon * n_states, m))
    later = scipy.sparse.csr_array((n_states, m))
    values, behind = [later] * horizon, [later] * horizon
    for h in range(horizon - 1, -1, -1):
        at = slice(h * per_step, (h + 1) * per_step)
        q = paid[slice(0, per_step) if paid.shape[0] == per_step else at]
        q = q + mdp.backup.matrix[slice(0, per_step) if mdp.stationary else at] @ later
        if feasible.unknown_step_reward is not None:
            row = np.flatnonzero(~mdp.known[h])
            stands_in = (np.full(len(row), mdp.steps_after[h] / unit), (row, np.full(len(row), m - 1)))
            q = q + scipy.sparse.csr_array(stands_in, shape=q.shape)
        ends = np.arange(n_states + 1) * n_actions
        follow = scipy.sparse.csr_array((policy[h].ravel(), np.arange(per_step), ends), shape=(n_states, per_step))
        later = follow @ q + unknown[h * n_states : (h + 1) * n_states]
        values[h], behind[h] = later, later[np.repeat(np.arange(n_states), n_actions)] - q
    return scipy.sparse.vstack(values, format="csr"), _rounded(scipy.sparse.vstack(behind, format="csr"))


def _rounded(rows: Any) -> Any:
    """Without what is left of sums that cancel: it would tell actions apart that are the same."""
    rows.data[np.abs(rows.data) < 1e-12] = 0.0
    rows.eliminate_zeros()
    return rows


def compared(feasible: FeasibleRewardSet, behind: Any) -> BoolArray:
    """`[H, S, A]`: the actions that count and that some reward of the space tells apart from what is done."""
    apart = np.diff(behind.indptr).reshape(feasible.mdp.shape) > 0
    return np.asarray(feasible.counted & apart)


def expectation(mdp: MDP) -> Any:
    """Sparse `[H·S·A, H·S]`: what values of all steps come to, one step after each `(h, s, a)`, discounted."""
    horizon, n_states, n_actions = mdp.shape
    rows = mdp.backup
    if rows.stationary:
        return scipy.sparse.kron(scipy.sparse.eye_array(horizon, k=1), rows.matrix, format="csr")
    step = np.repeat(np.arange(horizon), np.diff(rows.indptr[:: n_states * n_actions]))
    later = (rows.probabilities, rows.successors + (step + 1) * n_states, rows.indptr)
    return scipy.sparse.csr_array(later, shape=(rows.n_rows, (horizon + 1) * n_states))[:, : horizon * n_states]


def unpacked(mdp: MDP, unknowns: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """`(r [H, S, A], V [H, S], unknown_step_reward)` from a solver's answer; what comes after them is left out."""
    horizon, n_states, n_actions = mdp.shape
    n_rewards, n_values = horizon * n_states * n_actions, horizon * n_states
    reward, values, after = np.split(unknowns[: n_rewards + n_values + 1], [n_rewards, n_rewards + n_values])
    return reward.reshape(mdp.shape), values.reshape(horizon, n_states), float(after[0])


def polished(feasible: FeasibleRewardSet, unknowns: FloatArray) -> FloatArray:
    """The parameters in a solver's answer, within their bounds.

    In a table the rows that it satisfied up to its tolerance are made exact: what is left over is moved into the
    bounds, where it cannot add up over the steps.
    """
    if not feasible.design.free:
        return np.clip(unknowns[: feasible.lower.size], feasible.lower, feasible.upper)
    reward, values, _ = unpacked(feasible.mdp, unknowns)
    if feasible.slack is None:
        room = values[:, :, None] - feasible.continuation(values)
        reward = np.where(feasible.uses, room, np.minimum(reward, room))
    return np.clip(reward, feasible.lower, feasible.upper)
