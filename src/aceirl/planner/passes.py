"""Compiled passes of the planner: best responses backward, occupancies of deterministic policies forward.

A *response* is the best policy for an entry cost of the form

    cost[h,s,a] = weight[h,s,a] · root[h',s,a] + fixed[h,s,a] + λ · reward[h,s,a],

where `h' = h` if radii are counted per step and `h' = 0` if they are pooled. Terms that do not apply are arrays of
size zero. Only states that can be reached at their step are visited: they are listed once, by `reachable_states`.

Large instances are cut into a fixed number of blocks that may run on several cores. The number of blocks depends on
the size of the instance alone and partial sums are added in the order of the blocks, so the result is the same bit for
bit whatever the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from aceirl.kernels import F, compiled
from aceirl.mdp import MDP, FloatArray, IntArray

Actions = NDArray[np.int32]

PARALLEL_SIZE = 200_000
"""From how many `(h, s, a)` on the passes run in blocks, on all cores."""

BLOCKS = 8
"""How many blocks a layer is cut into when it is; each has its own buffer of `[S]` in the forward pass."""


def threaded(function: F) -> F:
    """Compile like `compiled`, with `prange` loops over several cores."""
    return cast(F, numba.njit(cache=True, nogil=True, parallel=True)(function))


class Graph(NamedTuple):
    """Sparse transitions, and the states `states[first[h]:first[h+1]]` that can be reached at step `h`.

    Shapes: `indptr [rows+1]`, `successors [nnz]`, `probabilities [nnz]`, `initial [S]`, `first [H+1]`, `states [·]`.
    `blocks` is one for an instance that is too small for several cores.
    """

    indptr: IntArray
    successors: NDArray[np.int32]
    probabilities: FloatArray
    stride: int
    initial: FloatArray
    first: IntArray
    states: NDArray[np.int32]
    blocks: int


class Cost(NamedTuple):
    """The parts of an entry cost; `weight`, `fixed`, `reward` are `[H, S, A]` or of size zero, `root` is `[1 or H, S, A]`."""

    weight: FloatArray
    root: FloatArray
    fixed: FloatArray
    reward: FloatArray


def graph_of(mdp: MDP) -> Graph:
    """The transitions of an MDP, with the states that can be reached at each step."""
    size = mdp.horizon * mdp.n_states * mdp.n_actions
    rows = (mdp.indptr, mdp.successors, mdp.probabilities, mdp.stride)
    first, states = reachable_states(*rows, mdp.initial, mdp.horizon, mdp.n_actions)
    return Graph(*rows, mdp.initial, first, states, BLOCKS if size >= PARALLEL_SIZE else 1)


@compiled
def reachable_states(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    initial: FloatArray,
    horizon: int,
    n_actions: int,
) -> tuple[IntArray, NDArray[np.int32]]:
    """`(first [H+1], states)`: the states that some policy visits at step `h` are `states[first[h]:first[h+1]]`."""
    n_states = initial.shape[0]
    first = np.zeros(horizon + 1, np.int64)
    states = np.empty(horizon * n_states, np.int32)
    here = initial > 0.0
    count = 0
    for h in range(horizon):
        after = np.zeros(n_states, np.bool_)
        for s in range(n_states):
            if not here[s]:
                continue
            states[count] = s
            count += 1
            start = h * stride + s * n_actions
            for k in range(indptr[start], indptr[start + n_actions]):
                after[successors[k]] = True
        first[h + 1] = count
        here = after
    return first, states[:count].copy()


@compiled
def _best_actions(
    graph: Graph,
    cost: Cost,
    multiplier: float,
    h: int,
    start: int,
    stop: int,
    later: FloatArray,
    here: FloatArray,
    actions: Actions,
) -> None:
    """One layer of `respond` for the reachable states numbered `start` to `stop`."""
    n_actions = cost.root.shape[2]
    weight, fixed, reward = cost.weight, cost.fixed, cost.reward
    indptr, successors, probabilities = graph.indptr, graph.successors, graph.probabilities
    root = cost.root[h if cost.root.shape[0] > 1 else 0]
    for i in range(start, stop):
        s = graph.states[i]
        best, chosen = -np.inf, 0
        for a in range(n_actions):
            row = h * graph.stride + s * n_actions + a
            total = root[s, a]
            if weight.size:
                total *= weight[h, s, a]
            if fixed.size:
                total += fixed[h, s, a]
            if multiplier != 0.0:
                total += multiplier * reward[h, s, a]
            for k in range(indptr[row], indptr[row + 1]):
                total += probabilities[k] * later[successors[k]]
            if total > best:
                best, chosen = total, a
        here[s] = best
        actions[h, s] = chosen


@threaded
def respond(graph: Graph, cost: Cost, multiplier: float, actions: Actions) -> float:
    """Write the best policy `actions [H, S]` for a cost, return its value `max_μ ⟨μ, cost⟩`.

    `v[h,s] = max_a cost[h,s,a] + Σ P(s'|s,a)·v[h+1,s']`; after an unknown row nothing more is earned.
    """
    n_states = graph.initial.shape[0]
    horizon = graph.first.shape[0] - 1
    later, here = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        start, stop = graph.first[h], graph.first[h + 1]
        if graph.blocks == 1:
            _best_actions(graph, cost, multiplier, h, start, stop, later, here, actions)
        else:
            for b in numba.prange(graph.blocks):
                low = start + (stop - start) * b // graph.blocks
                high = start + (stop - start) * (b + 1) // graph.blocks
                _best_actions(graph, cost, multiplier, h, low, high, later, here, actions)
        later, here = here, later
    value = 0.0
    for i in range(graph.first[1]):
        s = graph.states[i]
        value += graph.initial[s] * later[s]
    return value


@compiled
def _push_block(
    graph: Graph,
    actions: Actions,
    h: int,
    start: int,
    stop: int,
    here: FloatArray,
    after: FloatArray,
    n_actions: int,
) -> None:
    """Move the mass of the reachable states numbered `start` to `stop` one step on, adding to `after [S]`."""
    for i in range(start, stop):
        s = graph.states[i]
        mass = here[s]
        if mass > 0.0:
            row = h * graph.stride + s * n_actions + actions[h, s]
            for k in range(graph.indptr[row], graph.indptr[row + 1]):
                after[graph.successors[k]] += mass * graph.probabilities[k]


@threaded
def push(graph: Graph, actions: Actions, n_actions: int, mass: FloatArray) -> None:
    """The state distribution `mass [H, S]` under a deterministic policy; only reachable entries are written."""
    horizon = graph.first.shape[0] - 1
    n_states = graph.initial.shape[0]
    parts = np.zeros((graph.blocks, n_states))
    for i in range(graph.first[1]):
        s = graph.states[i]
        mass[0, s] = graph.initial[s]
    for h in range(horizon - 1):
        start, stop = graph.first[h], graph.first[h + 1]
        start_next, stop_next = graph.first[h + 1], graph.first[h + 2]
        if graph.blocks == 1:
            _push_block(graph, actions, h, start, stop, mass[h], parts[0], n_actions)
            _collect(graph, start_next, stop_next, parts, mass[h + 1])
        else:
            for b in numba.prange(graph.blocks):
                low = start + (stop - start) * b // graph.blocks
                high = start + (stop - start) * (b + 1) // graph.blocks
                _push_block(graph, actions, h, low, high, mass[h], parts[b], n_actions)
            for b in numba.prange(graph.blocks):
                low = start_next + (stop_next - start_next) * b // graph.blocks
                high = start_next + (stop_next - start_next) * (b + 1) // graph.blocks
                _collect(graph, low, high, parts, mass[h + 1])


@compiled
def _collect(graph: Graph, start: int, stop: int, parts: FloatArray, into: FloatArray) -> None:
    """Add up the blocks' buffers in their order and clear them."""
    for i in range(start, stop):
        s = graph.states[i]
        total = 0.0
        for b in range(parts.shape[0]):
            total += parts[b, s]
            parts[b, s] = 0.0
        into[s] = total
