"""Passes over sparse transitions on an NVIDIA GPU: a launch a step, a thread a state.

All numbers are double precision, as on the processor. Probability mass is counted in integers, in units of `2⁻⁶²`:
they add up to the same sum in whatever order threads come, so a pass gives the same result each time. The kernels are
Python, and numba's simulator runs the same source where there is no GPU.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from aceirl.models.tabular.mdp import MDP, FloatArray

cuda: Any = import_module("numba.cuda")  # it has no types; the simulator wants a module of this name


BLOCK = 128
"""Threads that start together."""

UNIT = 2.0**62
"""Probability mass is counted in so many parts of one."""

DeviceArray = Any


class DeviceRows(NamedTuple):
    """Transitions on the GPU, as `Transitions.rows` has them."""

    indptr: DeviceArray
    successors: DeviceArray
    probabilities: DeviceArray
    stride: int


def to_device(array: Any, dtype: Any = np.float64) -> DeviceArray:
    """A copy on the GPU."""
    return cuda.to_device(np.ascontiguousarray(array, dtype=dtype))


def on_device(shape: tuple[int, ...], dtype: Any = np.float64) -> DeviceArray:
    """Zeros on the GPU."""
    array = cuda.device_array(shape, dtype=dtype)
    clear(array)
    return array


def grid(threads: int) -> tuple[int, int]:
    """Blocks and threads a block, for at least so many threads."""
    block = max(1, min(BLOCK, threads))
    return -(-threads // block), block


def clear(array: DeviceArray) -> None:
    """Set every entry to zero."""
    if array.size:
        _clear[grid(array.size)](array.reshape(array.size))


@cuda.jit
def _clear(array):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < array.size:
        array[i] = 0


def rows_of(mdp: MDP) -> DeviceRows:
    """The discounted transitions of an MDP, on the GPU."""
    rows = mdp.backup
    return DeviceRows(
        to_device(rows.indptr, np.int64),
        to_device(rows.successors, np.int32),
        to_device(rows.probabilities),
        rows.stride,
    )


def mass_of(initial: FloatArray) -> DeviceArray:
    """A distribution over states `[S]`, in units."""
    return to_device(np.round(initial * UNIT), np.int64)


@cuda.jit(device=True)
def _fill_q(  # type: ignore[no-untyped-def]
    indptr, successors, probabilities, stride, h, s, reward, unknown, later, q
):
    best = -math.inf
    for a in range(q.shape[1]):
        row = h * stride + s * q.shape[1] + a
        total = 0.0 if indptr[row] < indptr[row + 1] else unknown[h]
        for k in range(indptr[row], indptr[row + 1]):
            total += probabilities[k] * later[successors[k]]
        total += reward[s, a]
        q[s, a] = total
        best = max(best, total)
    return best


@cuda.jit
def _best_step(  # type: ignore[no-untyped-def]
    indptr, successors, probabilities, stride, h, reward, unknown, later, q, here
):
    s = cuda.grid(1)
    if s < here.size:
        here[s] = _fill_q(indptr, successors, probabilities, stride, h, s, reward, unknown, later, q)


@cuda.jit
def _soft_step(  # type: ignore[no-untyped-def]
    indptr, successors, probabilities, stride, h, reward, unknown, later, q, here
):
    s = cuda.grid(1)
    if s < here.size:
        best = _fill_q(indptr, successors, probabilities, stride, h, s, reward, unknown, later, q)
        mass = 0.0
        for a in range(q.shape[1]):
            q[s, a] = math.exp(q[s, a] - best)
            mass += q[s, a]
        for a in range(q.shape[1]):
            q[s, a] /= mass
        here[s] = best + math.log(mass)


@cuda.jit
def _push_step(  # type: ignore[no-untyped-def]
    indptr, successors, probabilities, stride, h, policy, here, after
):
    """`policy [S, A]` becomes the occupancy; `here [S]` is emptied, for the step after the next."""
    s = cuda.grid(1)
    if s < here.size:
        mass = here[s] / UNIT
        here[s] = 0
        for a in range(policy.shape[1]):
            flow = mass * policy[s, a]
            policy[s, a] = flow
            row = h * stride + s * policy.shape[1] + a
            if flow > 0.0:
                for k in range(indptr[row], indptr[row + 1]):
                    cuda.atomic.add(after, successors[k], np.int64(flow * probabilities[k] * UNIT + 0.5))


def sweep(
    mdp: MDP, reward: FloatArray, unknown: FloatArray | None = None, *, soft: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Backward induction `(Q [H, S, A], V [H, S])` for `reward [H, S, A]`, or the soft one `(policy, V)`."""
    horizon, n_states, n_actions = mdp.shape
    kernel = _soft_step if soft else _best_step
    rows, later, here = rows_of(mdp), on_device((n_states,)), on_device((n_states,))
    after = to_device(np.zeros(horizon) if unknown is None else unknown)
    table = on_device((n_states, n_actions))
    q, v = np.empty(mdp.shape), np.empty(mdp.shape[:2])
    for h in range(horizon - 1, -1, -1):
        kernel[grid(n_states)](*rows, h, to_device(reward[h]), after, later, table, here)
        table.copy_to_host(q[h])
        here.copy_to_host(v[h])
        here, later = later, here
    return q, v


def occupancy(mdp: MDP, policy: FloatArray) -> FloatArray:
    """`[H, S, A]`: how likely an episode of `policy [H, S, A]` is at `(s, a)` at step `h`, times `discount^h`."""
    rows, here, after = rows_of(mdp), mass_of(mdp.initial), on_device((mdp.n_states,), np.int64)
    mu = np.empty(mdp.shape)
    for h in range(mdp.horizon):
        flow = to_device(policy[h])
        _push_step[grid(mdp.n_states)](*rows, h, flow, here, after)
        flow.copy_to_host(mu[h])
        here, after = after, here
    return mu
