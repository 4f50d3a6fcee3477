"""Twins of the compiled passes: dense numpy and scipy, written to be read, not to be fast.

All take `P [H, S, A, S]` (stationary dynamics repeated) and `known [H, S, A]`; an unknown row of `P` is zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog
from scipy.special import logsumexp

from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray

Backup = Callable[[int, FloatArray], FloatArray]


def unrolled(mdp: MDP) -> tuple[FloatArray, BoolArray]:
    """`(P [H, S, A, S], known [H, S, A])`, whatever the kind of the process."""
    P = np.zeros((mdp.horizon, mdp.n_states, mdp.n_actions, mdp.n_states))
    known = np.zeros(mdp.shape, dtype=np.bool_)
    rows = mdp.transitions
    for h, s, a in np.ndindex(mdp.shape):
        row = (0 if mdp.stationary else h * mdp.n_states * mdp.n_actions) + s * mdp.n_actions + a
        for k in range(rows.indptr[row], rows.indptr[row + 1]):
            P[h, s, a, rows.successors[k]] += rows.probabilities[k]
            known[h, s, a] = True
    return P, known


def backward_induction(
    P: FloatArray, known: BoolArray, reward: FloatArray, unknown: FloatArray, last: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """`(Q [H, S, A], V [H, S])` of the best policy; `last [S]` is the value after the last step."""
    return _induction(P, known, reward, unknown, last, lambda h, q: q.max(axis=1))


def soft_backward_induction(
    P: FloatArray, known: BoolArray, reward: FloatArray, unknown: FloatArray, last: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """`(policy [H, S, A], V [H, S])` with `V = log Σ_a exp Q`."""
    q, v = _induction(P, known, reward, unknown, last, lambda h, q: logsumexp(q, axis=1))
    return np.exp(q - v[:, :, None]), v


def policy_values(
    P: FloatArray,
    known: BoolArray,
    reward: FloatArray,
    policy: FloatArray,
    unknown: FloatArray,
    last: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """`(Q [H, S, A], V [H, S])` of a policy."""
    return _induction(P, known, reward, unknown, last, lambda h, q: (policy[h] * q).sum(axis=1))


def _induction(
    P: FloatArray, known: BoolArray, reward: FloatArray, unknown: FloatArray, last: FloatArray | None, backup: Backup
) -> tuple[FloatArray, FloatArray]:
    horizon, n_states, _ = reward.shape
    q = np.zeros(reward.shape)
    v = np.zeros((horizon + 1, n_states))
    v[horizon] = 0.0 if last is None else last
    for h in reversed(range(horizon)):
        q[h] = reward[h] + np.where(known[h], P[h] @ v[h + 1], unknown[h])
        v[h] = backup(h, q[h])
    return q, v[:-1]


def occupancy(P: FloatArray, initial: FloatArray, policy: FloatArray) -> FloatArray:
    """`[H, S, A]`: where a policy is; mass that enters an unknown row is lost."""
    mu = np.zeros(policy.shape)
    here = initial
    for h in range(len(policy)):
        mu[h] = here[:, None] * policy[h]
        here = np.einsum("sa,sat->t", mu[h], P[h])
    return mu


def error_bound(P: FloatArray, known: BoolArray, cost: FloatArray, ceiling: FloatArray) -> FloatArray:
    """(EB1), `E [H, S, A]`: at the last step an unknown row is worth its cost, before it the ceiling."""
    horizon = len(cost)
    error = np.zeros(cost.shape)
    for h in reversed(range(horizon)):
        later = error[h + 1].max(axis=1) if h + 1 < horizon else np.zeros(P.shape[-1])
        error[h] = np.minimum(ceiling[h], cost[h] + P[h] @ later)
        if h + 1 < horizon:
            error[h][~known[h]] = ceiling[h]
    return error


def best_by_enumeration(
    P: FloatArray, known: BoolArray, initial: FloatArray, reward: FloatArray, unknown: FloatArray
) -> float:
    """The largest value over all `A^(H·S)` deterministic policies."""
    horizon, n_states, n_actions = reward.shape
    identity = np.eye(n_actions)
    return max(
        float(
            initial @ policy_values(P, known, reward, identity[np.reshape(actions, (horizon, n_states))], unknown)[1][0]
        )
        for actions in itertools.product(range(n_actions), repeat=horizon * n_states)
    )


def best_by_lp(P: FloatArray, known: BoolArray, initial: FloatArray, reward: FloatArray, unknown: FloatArray) -> float:
    """The largest `⟨μ, reward⟩` over occupancy measures, with what follows an unknown row counted on entering it."""
    horizon, n_states, n_actions = reward.shape
    earned = reward + np.where(known, 0.0, unknown[:, None, None])
    out = np.zeros((horizon, n_states, horizon, n_states, n_actions))
    for h, s in np.ndindex(horizon, n_states):
        out[h, s, h, s] = 1.0
        if h > 0:
            out[h, s, h - 1] -= P[h - 1, :, :, s]
    inflow = np.zeros((horizon, n_states))
    inflow[0] = initial
    answer = linprog(
        -earned.ravel(), A_eq=out.reshape(horizon * n_states, -1), b_eq=inflow.ravel(), bounds=(0, None), method="highs"
    )
    assert answer.status == 0, answer.message
    return -float(answer.fun)


def ending(mdp: MDP) -> MDP:
    """A discounted process as one without a discount: a step goes on with that probability, else to a last state.

    A reward that pays 0 in that state is worth the same in both.
    """
    rows = np.zeros((mdp.n_states + 1, mdp.n_actions, mdp.n_states + 1))
    rows[:-1, :, :-1] = mdp.discount * mdp.transitions.dense()
    rows[:-1, :, -1] = 1 - mdp.discount
    rows[-1, :, -1] = 1.0
    return MDP.from_dense(rows, initial=np.append(mdp.initial, 0.0), horizon=mdp.horizon)
