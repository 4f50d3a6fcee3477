"""Potential shaping in a known process, and what is left of a reward when all of it is taken out.

A potential `φ [H, S]`, zero after the last step, shapes a reward by `φ_h(s) - Σ P(s'|h,s,a)·φ_{h+1}(s')`: every policy
earns `φ_0` of its first state more, so no two policies change places.
"""

from __future__ import annotations

import numpy as np

from aceirl.models.tabular.kernels import Successors, compiled
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray

# How far `unshaped` may be from the exact answer, relative to the reward, in the norm that it makes least.
TOLERANCE = 1e-12
MAX_ITERATIONS = 10_000


def unshaped(mdp: MDP, reward: FloatArray, weights: FloatArray) -> FloatArray:
    """`[H, S, A]`: `reward` plus the shaping that makes `Σ weights·r²` least, for `weights [H, S, A] ≥ 0`.

    A state at a step is covered if it has any weight; what an entry with weight may lead to must be covered.

    A sparse least-squares problem over potentials, solved by conjugate gradients. Potentials are written as the values
    of the policy `π ∝ weights` for a reward of states, `u`. What `u` adds is `u + Σ_a π·(P·φ) - P·φ`, and under the
    weights the first term is orthogonal to the rest. So, with `u` scaled by the weight of its state, no eigenvalue of
    the problem is below one: few iterations are needed, and the norm of the gradient bounds the distance from the exact
    answer. Weights of neighbouring entries that are orders of magnitude apart take more iterations.
    """
    by_state = weights.sum(axis=2)
    covered = by_state > 0
    policy = np.full(mdp.shape, 1 / mdp.n_actions)
    np.divide(weights, by_state[:, :, None], out=policy, where=covered[:, :, None])
    scale = 1 / np.sqrt(np.where(covered, by_state, 1.0))
    image, gradient = np.empty(mdp.shape), np.empty(mdp.shape[:2])

    left = np.array(reward)
    enough = TOLERANCE**2 * float(np.vdot(weights * left, left))
    direction, before = np.zeros(mdp.shape[:2]), np.inf
    for _ in range(MAX_ITERATIONS):
        shape_adjoint(*mdp.backup.rows, policy, weights * left, gradient)
        gradient *= scale
        squared = float(np.vdot(gradient, gradient))
        if squared <= enough:
            return left
        direction = gradient + squared / before * direction
        shape_by_state_reward(*mdp.backup.rows, policy, scale * direction, image)
        left -= squared / float(np.vdot(weights * image, image)) * image
        before = squared
    raise RuntimeError(
        f"shaping was not removed in {MAX_ITERATIONS} iterations, the gradient is {squared**0.5:.1e}; "
        "weights that differ less between entries make it easier"
    )


@compiled
def shape_by_state_reward(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    policy: FloatArray, u: FloatArray, shaping: FloatArray,
) -> None:  # fmt: skip
    """The shaping `φ - P·φ` by the values `φ_h(s) = u_h(s) + Σ_a policy·(P·φ)` of a policy for a reward of states."""
    horizon, n_states, n_actions = policy.shape
    later = np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        potential = np.empty(n_states)
        last = np.uint64(indptr[h * stride])  # unsigned, as in `kernels.sweep`
        for s in range(n_states):
            mean = u[h, s]
            for a in range(n_actions):
                first, last = last, np.uint64(indptr[h * stride + s * n_actions + a + 1])
                expected = 0.0
                for k in range(first, last):
                    expected += probabilities[k] * later[np.uint32(successors[k])]
                shaping[h, s, a] = -expected
                mean += policy[h, s, a] * expected
            potential[s] = mean
            for a in range(n_actions):
                shaping[h, s, a] += mean
        later = potential


@compiled
def shape_adjoint(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    policy: FloatArray, reward: FloatArray, gradient: FloatArray,
) -> None:  # fmt: skip
    """The adjoint of `shape_by_state_reward`: `gradient [H, S]` from `reward [H, S, A]`, forward over the horizon."""
    horizon, n_states, n_actions = policy.shape
    arriving = np.zeros(n_states)
    for h in range(horizon):
        leaving = np.zeros(n_states)
        last = np.uint64(indptr[h * stride])
        for s in range(n_states):
            here = arriving[s]
            for a in range(n_actions):
                here += reward[h, s, a]
            gradient[h, s] = here
            for a in range(n_actions):
                flow = policy[h, s, a] * here - reward[h, s, a]
                first, last = last, np.uint64(indptr[h * stride + s * n_actions + a + 1])
                for k in range(first, last):
                    leaving[np.uint32(successors[k])] += flow * probabilities[k]
        arriving = leaving
