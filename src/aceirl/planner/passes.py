"""Compiled passes of the planner: best responses backward, occupancies of policies forward.

A *response* answers an entry cost of the form

    cost[h,s,a] = weight[h,s,a] · root[h',s,a] + fixed[h,s,a] + λ · reward[h,s,a],

where `h' = h` if radii are counted per step and `h' = 0` if they are pooled. Terms that do not apply are arrays of
size zero. Only states that can be reached at their step are visited: they are listed once, by `reachable_states`. An
unknown row earns its entry, and nothing after it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aceirl.kernels import compiled
from aceirl.mdp import MDP, FloatArray, IntArray

Actions = NDArray[np.int32]

NOTHING: FloatArray = np.empty((0, 0, 0))
"""In place of a term that does not apply; read-only like the others, so that the passes are compiled once."""
NOTHING.flags.writeable = False


TIE = 1e-14
"""Of actions whose values differ by no more than this share, the first is taken: rounding decides nothing."""


class Graph(NamedTuple):
    """Sparse transitions, and the states `states[first[h]:first[h+1]]` that can be reached at step `h`.

    Shapes: `indptr [rows+1]`, `successors [nnz]`, `probabilities [nnz]`, `initial [S]`, `first [H+1]`, `states [·]`.
    """

    indptr: IntArray
    successors: NDArray[np.int32]
    probabilities: FloatArray
    stride: int
    initial: FloatArray
    first: IntArray
    states: NDArray[np.int32]


class Step(NamedTuple):
    """One step `h` of a pass, for whoever goes from step to step; `room` is what the pass carries along.

    Backward, `room [2, S, 2]` holds the values of even and odd steps, best and softened. Forward, the mass that moves
    on is added to `room [S]`.
    """

    h: int
    room: FloatArray


class Cost(NamedTuple):
    """The parts of an entry cost: `root [1 or H, S, A]`, `weight`, `fixed`, `reward [H, S, A]` or of size zero."""

    weight: FloatArray
    root: FloatArray
    fixed: FloatArray
    reward: FloatArray


def graph_of(mdp: MDP) -> Graph:
    """The transitions of an MDP, with the states that can be reached at each step."""
    rows = mdp.transitions
    first, states = reachable_states(rows.indptr, rows.successors, rows.stride, mdp.initial, mdp.horizon, mdp.n_actions)
    return Graph(*rows.rows, mdp.initial, first, states)


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
def respond(
    graph: Graph,
    cost: Cost,
    multiplier: float,
    temperature: float,
    actions: Actions,
    policy: FloatArray,
    step: Step | None = None,
) -> float:
    """Answer a cost; returns the best value `max_μ ⟨μ, cost⟩`, exact whatever the temperature.

    `v[h,s] = max_a cost[h,s,a] + Σ P(s'|s,a)·v[h+1,s']`. `actions [H, S]` (unless of size zero) is a policy that
    attains it, `policy [H, S, A]` (unless of size zero) the softened one that maximises `⟨π, q⟩ - T/2·‖π‖²` at every
    `(h, s)`, the projection of `q/T` onto the simplex: actions that lag by `T` or more are not used at all. `T` is the
    temperature times the value per step that is left to earn at `(h, s)`, so it does not depend on units or step.
    With a `step`, that step alone is answered, and nothing is returned but zero.

    One loop without calls, because the compiler counts references to every array that is passed on, which would cost
    small instances more than the work itself.
    """
    horizon, n_states, n_actions = graph.first.shape[0] - 1, graph.initial.shape[0], cost.root.shape[2]
    indptr, successors, probabilities, states = graph.indptr, graph.successors, graph.probabilities, graph.states
    root, weight, fixed, reward = cost.root.ravel(), cost.weight.ravel(), cost.fixed.ravel(), cost.reward.ravel()
    weighted, offset, rewarded = weight.size > 0, fixed.size > 0, multiplier != 0.0
    with_actions, with_policy = actions.size > 0, policy.size > 0
    shares = policy.ravel()
    values = np.zeros((2, n_states, 2)) if step is None else step.room  # of even and odd steps; best and softened
    q = np.empty(n_actions)
    for h in range(horizon - 1, -1, -1):
        if step is not None and h != step.h:
            continue
        layer = h * n_states * n_actions
        rows, roots = h * graph.stride, layer if cost.root.shape[0] > 1 else 0
        here, later = values[h % 2], values[(h + 1) % 2]
        lag = temperature / (horizon - h)
        for i in range(graph.first[h], graph.first[h + 1]):
            s = states[i]
            best, best_soft, chosen = -np.inf, -np.inf, 0
            for a in range(n_actions):
                entry = s * n_actions + a
                hard = root[roots + entry]
                if weighted:
                    hard *= weight[layer + entry]
                if offset:
                    hard += fixed[layer + entry]
                if rewarded:
                    hard += multiplier * reward[layer + entry]
                soft = hard
                # Unsigned indices need no test for negative ones: an eighth of the time saved.
                for k in range(np.uint64(indptr[rows + entry]), np.uint64(indptr[rows + entry + 1])):
                    hard += probabilities[k] * later[np.uint32(successors[k]), 0]
                    soft += probabilities[k] * later[np.uint32(successors[k]), 1]
                if with_actions and (a == 0 or hard > best + TIE * abs(best)):
                    actions[h, s] = a
                best = max(best, hard)
                q[a] = soft
                if a == 0 or soft > best_soft + TIE * abs(best_soft):
                    chosen = a
                best_soft = max(best_soft, soft)
            here[s, 0], here[s, 1] = best, best_soft
            if not with_policy:
                continue
            # The policy is max(0, q - θ)/T; θ by Newton's method from below, in at most A steps.
            # Where no action lags by T the first step is the last, and the answer softer than the projection.
            heat = lag * abs(best_soft)
            threshold, count, active = best_soft - heat, n_actions + 1, n_actions
            while 1 < active < count:
                count, active, total = active, 0, -heat
                for a in range(n_actions):
                    if q[a] > threshold:
                        active += 1
                        total += q[a]
                if active > 1:
                    threshold = total / active
            first = layer + s * n_actions
            total, mean = 0.0, 0.0
            for a in range(n_actions):
                share = max(0.0, q[a] - threshold) if active > 1 else 0.0
                shares[first + a] = share
                total += share
                mean += share * q[a]
            if total == 0.0:  # one action, or a threshold that rounding puts above them all
                shares[first + chosen] = 1.0
                continue
            scale = 1.0 / total
            here[s, 1] = scale * mean
            for a in range(n_actions):
                shares[first + a] *= scale
    value = 0.0
    if step is not None:
        return value
    for i in range(graph.first[1]):
        s = states[i]
        value += graph.initial[s] * values[0, s, 0]
    return value


@compiled
def push(
    graph: Graph, actions: Actions, policy: FloatArray, n_actions: int, mass: FloatArray, step: Step | None = None
) -> None:
    """The state distribution `mass [H, S]` under `actions [H, S]`, or, if of size zero, under `policy [H, S, A]`.

    Only entries that can be reached are written. With a `step`, the mass of that step alone moves on.
    """
    indptr, successors, probabilities, states = graph.indptr, graph.successors, graph.probabilities, graph.states
    with_actions, shares = actions.size > 0, policy.ravel()
    if step is None:
        for i in range(graph.first[1]):
            mass[0, states[i]] = graph.initial[states[i]]
    for h in range(mass.shape[0] - 1):
        if step is not None and h != step.h:
            continue
        here, after = mass[h], mass[h + 1] if step is None else step.room
        layer, rows = h * mass.shape[1] * n_actions, h * graph.stride
        if step is None:
            for i in range(graph.first[h + 1], graph.first[h + 2]):
                after[states[i]] = 0.0
        for i in range(graph.first[h], graph.first[h + 1]):
            s = states[i]
            if here[s] == 0.0:
                continue
            low, high = (actions[h, s], actions[h, s] + 1) if with_actions else (0, n_actions)
            for entry in range(s * n_actions + low, s * n_actions + high):
                flow = here[s] if with_actions else here[s] * shares[layer + entry]
                if flow > 0.0:
                    for k in range(np.uint64(indptr[rows + entry]), np.uint64(indptr[rows + entry + 1])):
                        after[np.uint32(successors[k])] += flow * probabilities[k]
