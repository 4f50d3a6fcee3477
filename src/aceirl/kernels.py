"""Compiled passes over sparse transitions: values backward in time, occupancies forward.

Every pass serves stationary and per-step transitions alike: row `(h, s, a)` is `h·stride + s·A + a`, and the stride of
a stationary process is zero. An empty row is unknown: nothing is read from it, its continuation at step `h` is worth
`unknown[h]`, and mass that enters it is not followed further.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from aceirl.mdp import MDP, FloatArray, IntArray

F = TypeVar("F", bound=Callable[..., Any])

TIE_TOLERANCE = 1e-10


def compiled(function: F) -> F:
    """Compile on first use, keep the result on disk, and release the interpreter lock while running."""
    dispatcher: Any = numba.njit(cache=True, nogil=True)(function)
    # A compiled function holds those that it calls, but numba looks only at its own file to see whether what lies on
    # disk is out of date. Here all compiled code of the package counts.
    dispatcher._cache._cache_file._source_stamp = _stamp()
    return cast(F, dispatcher)


@cache
def _stamp() -> str:
    """A digest of all sources of the package that hold compiled code."""
    sources = [path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py"))]
    return hashlib.sha256(b"".join(text for text in sources if b"\n@compiled\n" in text)).hexdigest()


@compiled
def backward(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    reward: FloatArray,
    unknown: FloatArray,
    q: FloatArray,
    v: FloatArray,
) -> None:
    """Optimal values: `q[h] = reward[h] + P·v[h+1]`, `v[h] = max_a q[h]`, with `v [H+1, S]` and `v[H]` given."""
    horizon, n_states, n_actions = reward.shape
    for h in range(horizon - 1, -1, -1):
        later = v[h + 1]
        # Rows lie end to end, and unsigned indices need no test for negative ones: a third of the time saved.
        last = np.uint64(indptr[h * stride])
        for s in range(n_states):
            best = -np.inf
            for a in range(n_actions):
                first, last = last, np.uint64(indptr[h * stride + s * n_actions + a + 1])
                total = unknown[h] if first == last else 0.0
                for k in range(first, last):
                    total += probabilities[k] * later[np.uint32(successors[k])]
                total += reward[h, s, a]
                q[h, s, a] = total
                if total > best:
                    best = total
            v[h, s] = best


@compiled
def soft_backward(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    reward: FloatArray,
    unknown: FloatArray,
    policy: FloatArray,
    v: FloatArray,
) -> None:
    """Soft values: `v[h] = log Σ_a exp q[h]` and the policy `exp(q[h] - v[h])`, with `v [H+1, S]` and `v[H]` given."""
    horizon, n_states, n_actions = reward.shape
    for h in range(horizon - 1, -1, -1):
        later = v[h + 1]
        for s in range(n_states):
            best = -np.inf
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                first, last = indptr[row], indptr[row + 1]
                total = unknown[h] if first == last else 0.0
                for k in range(first, last):
                    total += probabilities[k] * later[successors[k]]
                total += reward[h, s, a]
                policy[h, s, a] = total
                if total > best:
                    best = total
            mass = 0.0
            for a in range(n_actions):
                weight = np.exp(policy[h, s, a] - best)
                policy[h, s, a] = weight
                mass += weight
            for a in range(n_actions):
                policy[h, s, a] /= mass
            v[h, s] = best + np.log(mass)


@compiled
def evaluate_backward(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    reward: FloatArray,
    policy: FloatArray,
    unknown: FloatArray,
    q: FloatArray,
    v: FloatArray,
) -> None:
    """Values of a policy: `q[h] = reward[h] + P·v[h+1]`, `v[h] = Σ_a policy·q[h]`, with `v[H]` given."""
    horizon, n_states, n_actions = reward.shape
    for h in range(horizon - 1, -1, -1):
        later = v[h + 1]
        for s in range(n_states):
            mean = 0.0
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                first, last = indptr[row], indptr[row + 1]
                total = unknown[h] if first == last else 0.0
                for k in range(first, last):
                    total += probabilities[k] * later[successors[k]]
                total += reward[h, s, a]
                q[h, s, a] = total
                mean += policy[h, s, a] * total
            v[h, s] = mean


@compiled
def clipped_backward(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    cost: FloatArray,
    ceiling: FloatArray,
    q: FloatArray,
    v: FloatArray,
) -> None:
    """Largest accumulated cost, never above `ceiling [H]`; an unknown row is worth the ceiling. Else as `backward`.

    What follows the last step is nothing, so there even an unknown row is worth its cost alone.
    """
    horizon, n_states, n_actions = cost.shape
    for h in range(horizon - 1, -1, -1):
        later = v[h + 1]
        for s in range(n_states):
            worst = 0.0
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                total = ceiling[h]
                if indptr[row] < indptr[row + 1] or h == horizon - 1:
                    total = cost[h, s, a]
                    for k in range(indptr[row], indptr[row + 1]):
                        total += probabilities[k] * later[successors[k]]
                    total = min(total, ceiling[h])
                q[h, s, a] = total
                worst = max(worst, total)
            v[h, s] = worst


@compiled
def push_forward(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    initial: FloatArray,
    policy: FloatArray,
    mu: FloatArray,
) -> None:
    """Occupancy `mu[h, s, a]` of a policy: the probability of being in `s` at step `h` and taking `a`."""
    horizon, n_states, n_actions = policy.shape
    here = initial.copy()
    after = np.empty_like(here)
    for h in range(horizon):
        after[:] = 0.0
        for s in range(n_states):
            mass = here[s]
            if mass == 0.0:
                for a in range(n_actions):
                    mu[h, s, a] = 0.0
                continue
            for a in range(n_actions):
                flow = mass * policy[h, s, a]
                mu[h, s, a] = flow
                if flow > 0.0:
                    row = h * stride + s * n_actions + a
                    for k in range(indptr[row], indptr[row + 1]):
                        after[successors[k]] += flow * probabilities[k]
        here, after = after, here


@compiled
def argmax_with_ties(q: FloatArray, draws: FloatArray, tolerance: float, actions: IntArray) -> None:
    """The best action of each `(h, s)`; among those within the tolerance, the one that `draws [H, S]` selects."""
    horizon, n_states, n_actions = q.shape
    for h in range(horizon):
        for s in range(n_states):
            best = -np.inf
            for a in range(n_actions):
                best = max(best, q[h, s, a])
            ties = 0
            for a in range(n_actions):
                ties += q[h, s, a] >= best - tolerance
            chosen = min(int(draws[h, s] * ties), ties - 1)
            for a in range(n_actions):
                if q[h, s, a] >= best - tolerance:
                    if chosen == 0:
                        actions[h, s] = a
                        break
                    chosen -= 1


def optimal_values(mdp: MDP, reward: FloatArray, unknown: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Backward induction: `(Q [H, S, A], V [H, S])` of the best policy for `reward [H, S, A]`.

    `unknown [H]` is the worth of what follows an unknown row; zero by default.
    """
    q, v = np.empty(mdp.shape), np.zeros((mdp.horizon + 1, mdp.n_states))
    backward(*_rows(mdp), reward, _unknown(mdp, unknown), q, v)
    return q, v[:-1]


def soft_values(mdp: MDP, reward: FloatArray, unknown: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Soft backward induction: `(policy [H, S, A], V [H, S])` where `V = log Σ_a exp Q`."""
    policy, v = np.empty(mdp.shape), np.zeros((mdp.horizon + 1, mdp.n_states))
    soft_backward(*_rows(mdp), reward, _unknown(mdp, unknown), policy, v)
    return policy, v[:-1]


def evaluate(
    mdp: MDP, reward: FloatArray, policy: FloatArray, unknown: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Policy evaluation: `(Q [H, S, A], V [H, S])` of `policy [H, S, A]`."""
    q, v = np.empty(mdp.shape), np.zeros((mdp.horizon + 1, mdp.n_states))
    evaluate_backward(*_rows(mdp), reward, policy, _unknown(mdp, unknown), q, v)
    return q, v[:-1]


def occupancy(mdp: MDP, policy: FloatArray) -> FloatArray:
    """`[H, S, A]`: how likely an episode of `policy [H, S, A]` is at `(s, a)` at step `h`."""
    mu = np.empty(mdp.shape)
    push_forward(*_rows(mdp), mdp.initial, policy, mu)
    return mu


def greedy_actions(q: FloatArray, rng: np.random.Generator) -> IntArray:
    """`[H, S]`: the best action of each state for `q [H, S, A]`; ties are broken at random, by the given generator."""
    actions = np.empty(q.shape[:2], dtype=np.int64)
    tolerance = TIE_TOLERANCE * max(1.0, float(np.abs(q).max()))
    argmax_with_ties(q, rng.random(q.shape[:2]), tolerance, actions)
    return actions


def _rows(mdp: MDP) -> tuple[IntArray, NDArray[np.int32], FloatArray, int]:
    return mdp.indptr, mdp.successors, mdp.probabilities, mdp.stride


def _unknown(mdp: MDP, unknown: FloatArray | None) -> FloatArray:
    return np.zeros(mdp.horizon) if unknown is None else np.asarray(unknown, dtype=np.float64)
