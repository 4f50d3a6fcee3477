"""What follows from one sweep over an MDP: optimal, soft and policy values, occupancies, greedy actions."""

from __future__ import annotations

import numpy as np

from aceirl.models.tabular.backends import Backend, uses_gpu
from aceirl.models.tabular.kernels import (
    argmax_with_ties,
    backward,
    best_mixture,
    evaluate_backward,
    follow_backward,
    returns_backward,
    soft_backward,
    worst_backward,
)
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray

TIE_TOLERANCE = 1e-10
"""Values that differ by less, relative to the largest, are equal."""

ALL: BoolArray = np.zeros((0, 0, 0), dtype=np.bool_)
"""No action is ruled out."""


def optimal_values(
    mdp: MDP, reward: FloatArray, unknown: FloatArray | None = None, backend: Backend = "auto"
) -> tuple[FloatArray, FloatArray]:
    """Backward induction: `(Q [H, S, A], V [H, S])` of the best policy for `reward [H, S, A]`.

    `unknown [H]` is the value of what follows an unknown row; zero by default, here and below. With the `backend`
    "auto" a large problem goes to the GPU, if there is one.
    """
    if uses_gpu(backend, reward.size):
        from aceirl.models.tabular import gpu

        return gpu.sweep(mdp, reward, unknown)
    return mdp.sweep(backward, reward, unknown=unknown)


def soft_values(
    mdp: MDP, reward: FloatArray, unknown: FloatArray | None = None, backend: Backend = "auto"
) -> tuple[FloatArray, FloatArray]:
    """Soft backward induction: `(policy [H, S, A], V [H, S])` where `V = log Σ_a exp Q`."""
    if uses_gpu(backend, reward.size):
        from aceirl.models.tabular import gpu

        return gpu.sweep(mdp, reward, unknown, soft=True)
    return mdp.sweep(soft_backward, reward, unknown=unknown)


def boltzmann_policy(mdp: MDP, reward: FloatArray, beta: float) -> FloatArray:
    """`[H, S, A]`: who takes actions in proportion to `exp(β·Q)`, with the optimal values of `reward [H, S, A]`."""
    q, v = optimal_values(mdp, reward)
    weights = np.exp(beta * (q - v[:, :, None]))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def evaluate(
    mdp: MDP, reward: FloatArray, policy: FloatArray, unknown: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Policy evaluation: `(Q [H, S, A], V [H, S])` of `policy [H, S, A]`."""
    return mdp.sweep(evaluate_backward, reward, policy, unknown=unknown)


def follow(mdp: MDP, reward: FloatArray, actions: IntArray) -> FloatArray:
    """Policy evaluation: `V [H, S]` of `actions [H, S]`, -1 where each is as likely as any other."""
    v = np.zeros((mdp.horizon + 1, mdp.n_states))
    follow_backward(*mdp.backup.rows, reward, actions, v)
    return v[:-1]


def best_policy(mdp: MDP, reward: FloatArray, ties: float) -> FloatArray:
    """`[H, S, A]`: the best actions for `reward [H, S, A]`, each of several that tie as likely as another.

    Action values that differ by at most the share `ties` of the largest are equal.
    """
    policy = np.empty(mdp.shape)
    best_mixture(*mdp.backup.rows, _by_step(reward), ties, policy)
    return policy


def returns(mdp: MDP, reward: FloatArray, policy: FloatArray) -> tuple[float, float, float]:
    """What the best policy is worth for `reward [H, S, A]`, the worst one, and `policy [H, S, A]`."""
    best, worst, own = returns_backward(*mdp.backup.rows, _by_step(reward), policy) @ mdp.initial
    return float(best), float(worst), float(own)


def _by_step(reward: FloatArray) -> FloatArray:
    """`[1, S, A]` of a reward that is a view of one step, else `[H, S, A]`: one that never changes is read once."""
    return np.ascontiguousarray(reward[:1] if reward.strides[0] == 0 else reward)


def worst_values(
    mdp: MDP, reward: FloatArray, allowed: BoolArray, unknown: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """`(Q [H, S, A], V [H, S])` of the worst policy among those that take `allowed [H, S, A]` actions only."""
    return mdp.sweep(worst_backward, reward, allowed, unknown=unknown)


def occupancy(mdp: MDP, policy: FloatArray, backend: Backend = "auto") -> FloatArray:
    """`[H, S, A]`: how likely an episode of `policy [H, S, A]` is at `(s, a)` at step `h`, times `discount^h`.

    So its product with a reward is what the policy is worth.
    """
    if uses_gpu(backend, policy.size):
        from aceirl.models.tabular import gpu

        return gpu.occupancy(mdp, policy)
    return mdp.backup.push(mdp.initial, policy)


def greedy_actions(q: FloatArray, rng: np.random.Generator, allowed: BoolArray = ALL) -> IntArray:
    """`[H, S]`: the best action of each state for `q [H, S, A]`, of those that are `allowed [H, S, A]`.

    Ties are broken at random, by the given generator. Values tie that differ by no more than rounding, in whatever
    units they are. Actions may be ruled out by -inf too.
    """
    actions = np.zeros(q.shape[:2], dtype=np.int64)
    argmax_with_ties(q, allowed, rng.random(q.shape[:2]), TIE_TOLERANCE, actions)
    return actions
