"""Compiled sweeps over sparse transitions: values backward in time, occupancies forward.

These functions know arrays only; `mdp.Transitions` is the operator in front of them. Transitions are four leading
arguments, `Transitions.rows`: the successors of row `k` are `successors[indptr[k]:indptr[k+1]]` with the same slice of
`probabilities`, and row `(h, s, a)` is `h·stride + s·A + a`; the stride of a stationary process is zero. An empty row
is unknown: nothing is read from it, its continuation at step `h` is worth `unknown[h]`, and mass that enters it is not
followed further.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import event
from numpy.typing import NDArray

from aceirl.data.arrays import BoolArray, FloatArray, IntArray

Successors = NDArray[np.int32]

F = TypeVar("F", bound=Callable[..., Any])

config: Any = numba.config


class _Announcement(event.Listener):
    """Says once that code is being compiled; what lies on disk already is not."""

    said = False

    def on_start(self, event: Any) -> None:
        """A function is compiled."""
        if not self.said and event.data["dispatcher"].py_func.__module__.startswith("aceirl."):
            self.said = True
            logging.getLogger("aceirl").warning(
                "Compiling for this machine; the first run takes up to a minute longer."
            )

    def on_end(self, event: Any) -> None:
        """It has been compiled."""


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]


def compiled(function: F) -> F:
    """Compile on first use, keep the result on disk, and release the interpreter lock while running."""
    with _own_cache():
        return cast(F, numba.njit(cache=True, nogil=True)(function))


def inlined(function: F) -> F:
    """A part of compiled functions that is handed a function, written into each of them before they are compiled.

    Others need no more than `compiled`: the compiler itself writes the small ones into those that call them. In what is
    written in here, references to arrays are counted at each call.
    """
    return cast(F, numba.njit(inline="always")(function))


@contextmanager
def _own_cache() -> Iterator[None]:
    """Functions made in here keep their compiled form in a folder that is named by the sources of all of them.

    A compiled function holds those that it calls, but numba looks only at its own file to see whether what lies on disk
    is out of date. In a folder of their own, all compiled functions of the package grow old together.
    """
    before = config.CACHE_DIR
    config.CACHE_DIR = str(_cache_folder())
    try:
        yield
    finally:
        config.CACHE_DIR = before


@cache
def _cache_folder() -> Path:
    package = Path(__file__).parents[2]
    sources = [path.read_bytes() for path in sorted(package.rglob("*.py"))]
    digest = hashlib.sha256(b"".join(text for text in sources if b"\n@compiled" in text or b"\n@inlined\n" in text))
    name = f"aceirl-{digest.hexdigest()[:16]}"
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR) / name
    beside = package / "__pycache__"
    if os.access(beside if beside.exists() else package, os.W_OK):
        return beside / name
    return Path.home() / ".cache" / "aceirl" / name


@inlined
def sweep(
    indptr: IntArray,
    successors: Successors,
    probabilities: FloatArray,
    stride: int,
    reward: FloatArray,
    unknown: FloatArray,
    backup: Callable[[float, FloatArray, Any, int, int], float],
    parameter: Any,
    q: FloatArray,
    v: FloatArray,
) -> None:
    """Backward over the horizon: `q[h] = reward[h] + P·v[h+1]` and `v[h, s] = backup(max_a q[h, s], q, …, h, s)`.

    `v [H+1, S]` has `v[H]` given. A backup may rewrite the row `q[h, s]`; `parameter` is handed on to it.
    """
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
            v[h, s] = backup(best, q, parameter, h, s)


@compiled
def best_action(best: float, q: FloatArray, parameter: Any, h: int, s: int) -> float:
    """`max_a q`."""
    return best


@compiled
def soft_maximum(best: float, q: FloatArray, parameter: Any, h: int, s: int) -> float:
    """`log Σ_a exp q`; the row becomes the policy `exp(q - v)`."""
    mass = 0.0
    for a in range(q.shape[2]):
        lag = q[h, s, a] - best
        weight = 1.0 if lag == 0.0 else np.exp(lag)  # the best action, and many that tie, need no exponential
        q[h, s, a] = weight
        mass += weight
    for a in range(q.shape[2]):
        q[h, s, a] /= mass
    return float(best + np.log(mass))


@compiled
def policy_mean(best: float, q: FloatArray, policy: FloatArray, h: int, s: int) -> float:
    """`Σ_a policy·q`."""
    mean = 0.0
    for a in range(q.shape[2]):
        mean += float(policy[h, s, a] * q[h, s, a])
    return mean


@compiled
def clipped_best(best: float, q: FloatArray, ceiling: FloatArray, h: int, s: int) -> float:
    """`min(ceiling[h], max_a q)`; the row is clipped too."""
    for a in range(q.shape[2]):
        q[h, s, a] = min(q[h, s, a], ceiling[h])
    return float(min(best, ceiling[h]))


@compiled
def worst_allowed(best: float, q: FloatArray, allowed: BoolArray, h: int, s: int) -> float:
    """`min_a q` over the actions that are `allowed [H, S, A]`."""
    worst = np.inf
    for a in range(q.shape[2]):
        if allowed[h, s, a]:
            worst = min(worst, q[h, s, a])
    return worst


@compiled
def backward(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    reward: FloatArray, unknown: FloatArray, q: FloatArray, v: FloatArray,
) -> None:  # fmt: skip
    """Optimal values."""
    sweep(indptr, successors, probabilities, stride, reward, unknown, best_action, unknown, q, v)


@compiled
def soft_backward(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    reward: FloatArray, unknown: FloatArray, policy: FloatArray, v: FloatArray,
) -> None:  # fmt: skip
    """Soft values, and the soft policy."""
    sweep(indptr, successors, probabilities, stride, reward, unknown, soft_maximum, unknown, policy, v)


@compiled
def evaluate_backward(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    reward: FloatArray, unknown: FloatArray, policy: FloatArray, q: FloatArray, v: FloatArray,
) -> None:  # fmt: skip
    """Values of a policy."""
    sweep(indptr, successors, probabilities, stride, reward, unknown, policy_mean, policy, q, v)


@compiled
def follow_backward(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    reward: FloatArray, actions: IntArray, v: FloatArray,
) -> None:  # fmt: skip
    """Values `v [H+1, S]` of the `actions [H, S]`, -1 where each is as likely as any other; no other row is read."""
    horizon, n_states, n_actions = reward.shape
    for h in range(horizon - 1, -1, -1):
        later = v[h + 1]
        for s in range(n_states):
            action, mean = actions[h, s], 0.0
            first, last = (0, n_actions) if action < 0 else (action, action + 1)
            for a in range(first, last):
                row, total = h * stride + s * n_actions + a, 0.0
                for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                    total += probabilities[k] * later[np.uint32(successors[k])]
                total += reward[h, s, a]
                mean += total if action >= 0 else (1.0 / n_actions) * total
            v[h, s] = mean


@compiled
def clipped_backward(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    cost: FloatArray, unknown: FloatArray, ceiling: FloatArray, q: FloatArray, v: FloatArray,
) -> None:  # fmt: skip
    """Optimal values of a cost that no step lets rise above the ceiling `[H]`."""
    sweep(indptr, successors, probabilities, stride, cost, unknown, clipped_best, ceiling, q, v)


@compiled
def worst_backward(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    reward: FloatArray, unknown: FloatArray, allowed: BoolArray, q: FloatArray, v: FloatArray,
) -> None:  # fmt: skip
    """Values of the worst policy that takes allowed actions only."""
    sweep(indptr, successors, probabilities, stride, reward, unknown, worst_allowed, allowed, q, v)


@compiled
def expectations(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    values: FloatArray, unknown: FloatArray, mean: FloatArray,
) -> None:  # fmt: skip
    """`mean[h, s, a] = Σ P(s'|h,s,a)·values[h, s']`, and `unknown[h]` where the row is unknown."""
    horizon, n_states, n_actions = mean.shape
    for h in range(horizon):
        for s in range(n_states):
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                first, last = indptr[row], indptr[row + 1]
                total = unknown[h] if first == last else 0.0
                for k in range(first, last):
                    total += probabilities[k] * values[h, successors[k]]
                mean[h, s, a] = total


@compiled
def push_forward(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    initial: FloatArray, policy: FloatArray, mu: FloatArray,
) -> None:  # fmt: skip
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
def are_distributions(indptr: IntArray, probabilities: FloatArray, tolerance: float) -> bool:
    """Whether each row `probabilities[indptr[k]:indptr[k+1]]` that is not empty is a distribution."""
    for k in range(indptr.size - 1):
        total = 0.0
        for i in range(indptr[k], indptr[k + 1]):
            if not 0.0 <= probabilities[i] < np.inf:
                return False
            total += probabilities[i]
        if indptr[k + 1] > indptr[k] and abs(total - 1.0) > tolerance:
            return False
    return True


@compiled
def frequencies(indptr: IntArray, places: IntArray, counts: IntArray, also: IntArray, found: FloatArray) -> None:
    """`found [nnz]`: the counts at their `places`, and one more at each of `also`, as shares of their row."""
    found[:] = 0.0
    for i in range(places.size):
        found[places[i]] = counts[i]
    for i in range(also.size):
        found[also[i]] += 1.0
    for k in range(indptr.size - 1):
        total = 0.0
        for i in range(indptr[k], indptr[k + 1]):
            total += found[i]
        for i in range(indptr[k], indptr[k + 1]):
            found[i] /= total


@compiled
def argmax_with_ties(q: FloatArray, allowed: BoolArray, draws: FloatArray, rounding: float, actions: IntArray) -> None:
    """The best of the `allowed [H, S, A]` actions of each `(h, s)`, of all if that is empty.

    Among those that are as good up to rounding, a share of the largest size of a value that is finite, it is the one
    that `draws [H, S]` selects.
    """
    horizon, n_states, n_actions = q.shape
    every, largest = allowed.size == 0, 0.0
    for h in range(horizon):
        for s in range(n_states):
            for a in range(n_actions):
                size = abs(q[h, s, a]) if every or allowed[h, s, a] else 0.0
                largest = size if largest < size < np.inf else largest
    tolerance = rounding * largest
    for h in range(horizon):
        for s in range(n_states):
            best, ties, passed = -np.inf, 0, 0
            for a in range(n_actions):
                value = q[h, s, a] if every or allowed[h, s, a] else -np.inf
                best = value if value > best else best
            for a in range(n_actions):
                ties += (every or allowed[h, s, a]) and q[h, s, a] >= best - tolerance
            chosen = min(int(draws[h, s] * ties), ties - 1)
            for a in range(n_actions):
                tied = (every or allowed[h, s, a]) and q[h, s, a] >= best - tolerance
                actions[h, s] = a if tied and passed == chosen else actions[h, s]
                passed += tied


@compiled
def look_ahead(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int, reward: FloatArray, steps: int,
    discount: float,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """`(Q [S, A], V [S])` of the best policy over so many steps of a process that pays `reward [S, A]`, discounted.

    The plain backward induction without the tables of all steps; after an unknown row nothing is paid.
    """
    n_states, n_actions = reward.shape
    q, v, after = np.zeros(reward.shape), np.zeros(n_states), np.zeros(n_states)
    for h in range(steps - 1, -1, -1):
        for s in range(n_states):
            for a in range(n_actions):
                row, total = h * stride + s * n_actions + a, 0.0
                for k in range(indptr[row], indptr[row + 1]):
                    total += probabilities[k] * after[successors[k]]
                q[s, a] = reward[s, a] + discount * total
            v[s] = q[s].max()
        v, after = after, v
    return q, after


@compiled
def best_mixture(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int, reward: FloatArray, share: float,
    policy: FloatArray,
) -> None:  # fmt: skip
    """Fill `policy [H, S, A]` with the best actions for `reward`, `[H, S, A]` or `[1, S, A]`, equally likely.

    Actions are equally good that differ by at most this share of the largest value. There is a sweep to find that, and
    one to plan; no other table of all steps is made.
    """
    horizon, n_states, n_actions = policy.shape
    q, largest = np.empty(n_actions), 0.0
    for planning in range(2):
        v, later = np.zeros(n_states), np.zeros(n_states)
        for h in range(horizon - 1, -1, -1):
            paid = reward[h if len(reward) > 1 else 0]
            for s in range(n_states):
                best, ties = -np.inf, 0
                for a in range(n_actions):
                    row, total = h * stride + s * n_actions + a, 0.0
                    for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                        total += probabilities[k] * later[np.uint32(successors[k])]
                    q[a] = total + paid[s, a]
                    best = max(best, q[a])
                    largest = max(largest, abs(q[a]))
                v[s] = best
                if planning:
                    for a in range(n_actions):
                        ties += q[a] >= best - share * largest
                    for a in range(n_actions):
                        policy[h, s, a] = 1.0 / ties if q[a] >= best - share * largest else 0.0
            v, later = later, v


@compiled
def returns_backward(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int, reward: FloatArray,
    policy: FloatArray,
) -> FloatArray:  # fmt: skip
    """`[3, S]`: the best return from each state, the worst, and that of `policy [H, S, A]`, in one sweep.

    The `reward` is `[H, S, A]`, or `[1, S, A]` if it is the same at every step.
    """
    horizon, n_states, n_actions = policy.shape
    v, later = np.zeros((n_states, 3)), np.zeros((n_states, 3))
    for h in range(horizon - 1, -1, -1):
        paid = reward[h if len(reward) > 1 else 0]
        for s in range(n_states):
            best, worst, own = -np.inf, np.inf, 0.0
            for a in range(n_actions):
                row, high, low, followed = h * stride + s * n_actions + a, 0.0, 0.0, 0.0
                for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                    chance, there = probabilities[k], np.uint32(successors[k])
                    high += chance * later[there, 0]
                    low += chance * later[there, 1]
                    followed += chance * later[there, 2]
                best, worst = max(best, high + paid[s, a]), min(worst, low + paid[s, a])
                own += policy[h, s, a] * (followed + paid[s, a])
            v[s, 0], v[s, 1], v[s, 2] = best, worst, own
        v, later = later, v
    return later.T.copy()
