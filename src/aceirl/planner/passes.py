"""Compiled passes of the planner: best responses backward, occupancies of policies forward.

A *response* answers an entry cost of the form

    cost[h,s,a] = weight[h,s,a] · root[h',s,a] + fixed[h,s,a] + λ · reward[h,s,a],

where `h' = h` if radii are counted per step and `h' = 0` if they are pooled. Terms that do not apply are arrays of
size zero. Only states that can be reached at their step are visited: they are listed once, by `reachable_states`. An
unknown row earns its entry, and nothing after it.

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


NOTHING: FloatArray = np.empty((0, 0, 0))
"""In place of a term that does not apply; read-only like the others, so that the passes are compiled once."""
NOTHING.flags.writeable = False


def threaded(function: F) -> F:
    """Compile like `compiled`, with `prange` loops over several cores.

    For functions that hold such a loop and nothing else: waking the threads costs a small instance more than its pass,
    and Numba would wake them for every array expression too.
    """
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
    """The parts of an entry cost: `root [1 or H, S, A]`, and `weight`, `fixed`, `reward [H, S, A]` or of size zero, read-only."""

    weight: FloatArray
    root: FloatArray
    fixed: FloatArray
    reward: FloatArray


def graph_of(mdp: MDP) -> Graph:
    """The transitions of an MDP, with the states that can be reached at each step."""
    size = mdp.horizon * mdp.n_states * mdp.n_actions
    rows = (mdp.indptr, mdp.successors, mdp.probabilities, mdp.stride)
    first, states = reachable_states(mdp.indptr, mdp.successors, mdp.stride, mdp.initial, mdp.horizon, mdp.n_actions)
    return Graph(*rows, mdp.initial, first, states, BLOCKS if size >= PARALLEL_SIZE else 1)


@compiled
def reachable_states(
    indptr: IntArray, successors: NDArray[np.int32], stride: int, initial: FloatArray, horizon: int, n_actions: int
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
def block(start: int, stop: int, number: int, blocks: int) -> tuple[int, int]:
    """The limits of one of several blocks of a range."""
    return start + (stop - start) * number // blocks, start + (stop - start) * (number + 1) // blocks


@compiled
def _respond_block(
    graph: Graph,
    cost: Cost,
    multiplier: float,
    temperature: float,
    h: int,
    number: int,
    later: FloatArray,
    here: FloatArray,
    actions: Actions,
    policy: FloatArray,
) -> None:
    """One block of one layer of `respond`; `later` and `here` are `[S, 2]`, best and softened values.

    One long loop, because a call per state or entry would cost more than the work: the compiler counts references to
    every array that it passes on. The softened policy is the projection of `q/T` onto the simplex, `max(0, q - θ)/T`
    with `T` the temperature; its threshold `θ` is found by Newton's method from below, in at most `A` steps.
    """
    n_actions = cost.root.shape[2]
    indptr, successors, probabilities = graph.indptr, graph.successors, graph.probabilities
    states, weight, fixed, reward = graph.states, cost.weight, cost.fixed, cost.reward
    root = cost.root[h if cost.root.shape[0] > 1 else 0]
    weighted, offset, rewarded = weight.size > 0, fixed.size > 0, multiplier != 0.0
    with_actions, with_policy = actions.size > 0, policy.size > 0
    heat = temperature / (graph.first.shape[0] - 1 - h)
    q = np.empty(n_actions)
    start, stop = block(graph.first[h], graph.first[h + 1], number, graph.blocks)
    for i in range(start, stop):
        s = states[i]
        best, chosen, best_soft = -np.inf, 0, -np.inf
        for a in range(n_actions):
            row = h * graph.stride + s * n_actions + a
            hard = root[s, a]
            if weighted:
                hard *= weight[h, s, a]
            if offset:
                hard += fixed[h, s, a]
            if rewarded:
                hard += multiplier * reward[h, s, a]
            soft = hard
            for k in range(indptr[row], indptr[row + 1]):
                hard += probabilities[k] * later[successors[k], 0]
                soft += probabilities[k] * later[successors[k], 1]
            q[a] = soft
            if hard > best:
                best, chosen = hard, a
            best_soft = max(best_soft, soft)
        here[s, 0] = best
        if with_actions:
            actions[h, s] = chosen
        if not with_policy:
            continue
        threshold, count, active = best_soft - heat * abs(best_soft), n_actions + 1, n_actions
        while active > 1 and active < count:
            count, active, total = active, 0, -heat * abs(best_soft)
            for a in range(n_actions):
                if q[a] > threshold:
                    active += 1
                    total += q[a]
            if active > 1:
                threshold = total / active
        total = 0.0
        if active <= 1:
            threshold = best_soft
        for a in range(n_actions):
            if active <= 1:
                share = 1.0 if q[a] == best_soft and total == 0.0 else 0.0
            else:
                share = max(0.0, q[a] - threshold)
            policy[h, s, a] = share
            total += share
        mean = 0.0
        for a in range(n_actions):
            share = policy[h, s, a] / total
            policy[h, s, a] = share
            mean += share * q[a]
        here[s, 1] = mean


@threaded
def _respond_blocks(
    graph: Graph,
    cost: Cost,
    multiplier: float,
    temperature: float,
    h: int,
    later: FloatArray,
    here: FloatArray,
    actions: Actions,
    policy: FloatArray,
) -> None:
    for b in numba.prange(graph.blocks):
        _respond_block(graph, cost, multiplier, temperature, h, b, later, here, actions, policy)


@compiled
def respond(
    graph: Graph, cost: Cost, multiplier: float, temperature: float, actions: Actions, policy: FloatArray
) -> float:
    """Answer a cost; returns the best value `max_μ ⟨μ, cost⟩`, exact whatever the temperature.

    `v[h,s] = max_a cost[h,s,a] + Σ P(s'|s,a)·v[h+1,s']`. `actions [H, S]` (unless of size zero) is a policy that attains it,
    `policy [H, S, A]` (unless of size zero) the softened one that maximises `⟨π, q⟩ - T/2·‖π‖²` at every `(h, s)`: actions
    that lag by `T` or more are not used at all. `T` is the temperature times the value per step that is left to earn
    at `(h, s)`, so that it does not depend on units, step or state.
    """
    n_states = graph.initial.shape[0]
    horizon = graph.first.shape[0] - 1
    later, here = np.zeros((n_states, 2)), np.zeros((n_states, 2))
    for h in range(horizon - 1, -1, -1):
        if graph.blocks == 1:
            _respond_block(graph, cost, multiplier, temperature, h, 0, later, here, actions, policy)
        else:
            _respond_blocks(graph, cost, multiplier, temperature, h, later, here, actions, policy)
        later, here = here, later
    value = 0.0
    for i in range(graph.first[1]):
        s = graph.states[i]
        value += graph.initial[s] * later[s, 0]
    return value


@compiled
def _push_block(
    graph: Graph, actions: Actions, policy: FloatArray, n_actions: int, h: int, number: int, here: FloatArray, after: FloatArray
) -> None:
    """Move the mass `here [S]` of one block of a layer one step on, adding it to `after [S]`."""
    indptr, successors, probabilities = graph.indptr, graph.successors, graph.probabilities
    start, stop = block(graph.first[h], graph.first[h + 1], number, graph.blocks)
    for i in range(start, stop):
        s = graph.states[i]
        mass = here[s]
        if mass == 0.0:
            continue
        if actions.size:
            row = h * graph.stride + s * n_actions + actions[h, s]
            for k in range(indptr[row], indptr[row + 1]):
                after[successors[k]] += mass * probabilities[k]
        else:
            for a in range(n_actions):
                flow = mass * policy[h, s, a]
                if flow > 0.0:
                    row = h * graph.stride + s * n_actions + a
                    for k in range(indptr[row], indptr[row + 1]):
                        after[successors[k]] += flow * probabilities[k]


@compiled
def _collect_block(graph: Graph, h: int, number: int, parts: FloatArray, into: FloatArray) -> None:
    """Add up the blocks' buffers `parts [blocks, S]` in their order and clear them."""
    start, stop = block(graph.first[h], graph.first[h + 1], number, graph.blocks)
    for i in range(start, stop):
        s = graph.states[i]
        total = 0.0
        for b in range(parts.shape[0]):
            total += parts[b, s]
            parts[b, s] = 0.0
        into[s] = total


@threaded
def _push_blocks(
    graph: Graph, actions: Actions, policy: FloatArray, n_actions: int, h: int, here: FloatArray, parts: FloatArray, after: FloatArray
) -> None:
    for b in numba.prange(graph.blocks):
        _push_block(graph, actions, policy, n_actions, h, b, here, parts[b])
    for b in numba.prange(graph.blocks):
        _collect_block(graph, h + 1, b, parts, after)


@compiled
def push(graph: Graph, actions: Actions, policy: FloatArray, n_actions: int, mass: FloatArray) -> None:
    """The state distribution `mass [H, S]` under `actions [H, S]`, or, if these are of size zero, under `policy [H, S, A]`.

    Only entries that can be reached are written.
    """
    n_states = graph.initial.shape[0]
    parts = np.zeros((graph.blocks, n_states))
    for i in range(graph.first[1]):
        s = graph.states[i]
        mass[0, s] = graph.initial[s]
    for h in range(mass.shape[0] - 1):
        if graph.blocks == 1:
            _push_block(graph, actions, policy, n_actions, h, 0, mass[h], parts[0])
            _collect_block(graph, h + 1, 0, parts, mass[h + 1])
        else:
            _push_blocks(graph, actions, policy, n_actions, h, mass[h], parts, mass[h + 1])
