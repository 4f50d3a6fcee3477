"""Passes of the planner: best responses backward, occupancies of policies forward, and sums over entries.

A *response* answers an entry cost of the form

    cost[h,s,a] = weight[h,s,a] · root[h',s,a] + fixed[h,s,a] + λ · reward[h,s,a],

where `h' = h` if radii are counted per step and `h' = 0` if they are pooled. Terms that do not apply are arrays of
size zero. Only states that can be reached at their step are visited: they are listed once, by `reachable_states`. An
unknown row earns its entry, and nothing after it.

The algorithm (`play`) is written once, over a *model* that is one of three: a `Graph`, on one core, for which the whole
algorithm is one compiled call; a `ThreadPool`; a `DeviceModel`, on a GPU. The passes here are those over a graph. The
two others have methods of the same names for the passes that they do in their own way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray

Actions = NDArray[np.int32]

Model = Any
"""A `Graph`, a `ThreadPool` or a `DeviceModel`."""

F = TypeVar("F", bound=Callable[..., Any])

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
    n_actions: int
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


class SaddleProblem(NamedTuple):
    """What stays the same: `counts [H', S, A]`, `H' = 1` if pooled; `floor` is minus infinity without a policy set.

    `slack` and `cost_slack` are the `feasibility_slack` of reward and cost.
    """

    counts: FloatArray
    weight: FloatArray
    fixed: FloatArray
    reward: FloatArray
    floor: float
    slack: float
    cost_slack: float
    number: float
    samples: bool


class SaddleState(NamedTuple):
    """What the iterations change, in place. Sums are over answers; an average is a sum over its total weight.

    `explored [H', S, A]` and `weighted [H', S, A]` sum `x/number` and `ŵ`; `explorer [H, S, A]` (the same array as
    `explored` if counts are per step) and `adversary [H, S, A]` sum the occupancies; `root` and `price [H', S, A]` are
    `1/√z` and `p`; `policy [H, S, A]` and `mass [H, S]` are the last answer. `pair [3, H, S]` and `rewards [2]` belong
    to the adversary's policy set, see `search_multiplier`. `none` has no entries, and is given for actions where the
    answer is the `policy`. `totals` is indexed by the names below.
    """

    explored: FloatArray
    weighted: FloatArray
    explorer: FloatArray
    adversary: FloatArray
    root: FloatArray
    price: FloatArray
    policy: FloatArray
    mass: FloatArray
    pair: Actions
    none: Actions
    rewards: FloatArray
    totals: FloatArray


EXPLORER, ADVERSARY, CONSTANT, LOWER, UPPER, MULTIPLIER, STEP, CHECKED, SOFTNESS, TOTALS = range(10)
"""Places in `totals`: weights of both sums, `Σ⟨μ̂, fixed⟩`, bounds, multiplier, iterations, gap checked, softness."""


def empty_state(
    problem: SaddleProblem,
    shape: tuple[int, int, int],
    zeros: Callable[..., Any] = np.zeros,
    *,
    whole: bool = True,
    stored: bool = True,
) -> SaddleState:
    """Sums of nothing, for `shape` `(H, S, A)`, in arrays that `zeros` makes.

    Occupancies `[H, S, A]` are summed only as a `whole`, and answers need room only where they are `stored`.
    """
    part = problem.counts.shape
    explored, absent = zeros(part), np.zeros((0, 0, 0))
    explorer = absent
    if whole and not (problem.samples and part[0] < shape[0]):
        explorer = explored if part[0] == shape[0] else zeros(shape)
    totals = np.zeros(TOTALS)
    totals[UPPER] = totals[CHECKED] = totals[SOFTNESS] = 1.0
    return SaddleState(
        explored=explored,
        weighted=zeros(part),
        explorer=explorer,
        adversary=zeros(shape) if whole else absent,
        root=zeros(part),
        price=zeros(part),
        policy=zeros(shape) if stored else absent,
        mass=zeros(shape[:2]) if stored else np.zeros((0, 0)),
        pair=zeros((3, *shape[:2]), np.int32) if problem.reward.size else np.zeros((3, 0, 0), np.int32),
        none=np.zeros((0, 0), np.int32),
        rewards=np.full(2, np.nan),
        totals=totals,
    )


def _over_models(function: F, other: Callable[..., Any]) -> F:
    """`function` over a graph, compiled as a whole, in Python and in compiled code; for another model, `other`."""
    over_graph = compiled(function)

    @wraps(function)
    def run(model: Model, *arguments: Any) -> Any:
        return (over_graph if isinstance(model, Graph) else other)(model, *arguments)

    overload(run, strict=False)(lambda *arguments: function)
    return cast(F, run)


def compiled_rule(function: F) -> F:
    """A step of the algorithm, the same for every model: one compiled call over a graph, and plain Python otherwise."""
    return _over_models(function, function)


def compiled_pass(function: F) -> F:
    """A pass over a graph. Another model has a method of that name, or leaves the pass to its `graph`."""
    name = function.__name__

    def of_model(model: Model, *arguments: Any) -> Any:
        return getattr(model, name)(*arguments) if hasattr(model, name) else run(model.graph, *arguments)

    run = _over_models(function, of_model)
    return run


def graph_of(mdp: MDP) -> Graph:
    """The discounted transitions of an MDP, with the states that can be reached at each step."""
    rows = mdp.backup
    first, states = reachable_states(rows.indptr, rows.successors, rows.stride, mdp.initial, mdp.horizon, mdp.n_actions)
    return Graph(*rows.rows, mdp.n_actions, mdp.initial, first, states)


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


@compiled_pass
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
    horizon, n_states, n_actions = graph.first.shape[0] - 1, graph.initial.shape[0], graph.n_actions
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
        share_of_value = temperature / (horizon - h)
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
            heat = share_of_value * abs(best_soft)
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


@compiled_pass
def push(graph: Graph, actions: Actions, policy: FloatArray, mass: FloatArray, step: Step | None = None) -> None:
    """The state distribution `mass [H, S]` under `actions [H, S]`, or, if of size zero, under `policy [H, S, A]`.

    Only entries that can be reached are written. With a `step`, the mass of that step alone moves on.
    """
    indptr, successors, probabilities, states = graph.indptr, graph.successors, graph.probabilities, graph.states
    with_actions, shares, n_actions = actions.size > 0, policy.ravel(), graph.n_actions
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


@compiled_pass
def values_of(graph: Graph, cost: Cost, actions: Actions, policy: FloatArray, mass: FloatArray) -> tuple[float, float]:
    """`(⟨μ, c⟩, ⟨μ, r⟩)` of the actions or policy whose state distribution `push` has just written to `mass [H, S]`."""
    states, weight, root, fixed, reward = graph.states, cost.weight, cost.root, cost.fixed, cost.reward
    value, earned = 0.0, 0.0
    for h in range(mass.shape[0]):
        step = h if root.shape[0] > 1 else 0
        for i in range(graph.first[h], graph.first[h + 1]):
            s = states[i]
            if mass[h, s] == 0.0:
                continue
            low, high = (actions[h, s], actions[h, s] + 1) if actions.size else (0, graph.n_actions)
            for a in range(low, high):
                flow = mass[h, s] if actions.size else mass[h, s] * policy[h, s, a]
                entry = root[step, s, a]
                if weight.size:
                    entry *= weight[h, s, a]
                if fixed.size:
                    entry += fixed[h, s, a]
                value += flow * entry
                if reward.size:
                    earned += flow * reward[h, s, a]
    return value, earned


@compiled_pass
def set_root(graph: Graph, problem: SaddleProblem, state: SaddleState) -> None:
    """`1/√(n + x)` for the averaged explorer."""
    counts, explored, root = problem.counts.ravel(), state.explored.ravel(), state.root.ravel()
    scale = problem.number / state.totals[EXPLORER]
    for i in range(counts.size):
        root[i] = 1.0 / np.sqrt(counts[i] + scale * explored[i])


@compiled_pass
def set_price(graph: Graph, problem: SaddleProblem, state: SaddleState) -> tuple[float, float]:
    """`p = ŵ·z^{-3/2}/2` for the averaged adversary; returns `(⟨ŵ, 1/√z⟩, ⟨p, n⟩)`."""
    counts, weighted = problem.counts.ravel(), state.weighted.ravel()
    root, price = state.root.ravel(), state.price.ravel()
    scale = 1.0 / state.totals[ADVERSARY]
    value, held = 0.0, 0.0
    for i in range(counts.size):
        here = scale * weighted[i] * root[i]
        p = 0.5 * here * root[i] * root[i]
        price[i] = p
        value += here
        held += p * counts[i]
    return value, held


@compiled_pass
def add_answer(
    graph: Graph, problem: SaddleProblem, state: SaddleState, actions: Actions, share: float, adversary: bool
) -> None:
    """Add `share` of an answer, `actions` or else `policy`, to the sums of a player; `mass` holds its distribution."""
    steps, n_states, n_actions = problem.counts.shape
    states, distribution, with_actions = graph.states, state.mass, actions.size > 0
    policy, weight, fixed = state.policy.ravel(), problem.weight.ravel(), problem.fixed.ravel()
    pooled, whole = (state.weighted, state.adversary) if adversary else (state.explored, state.explorer)
    separate, pooled, whole = whole.shape[0] > steps or adversary, pooled.ravel(), whole.ravel()
    constant = 0.0
    for h in range(distribution.shape[0]):
        layer = h * n_states * n_actions
        pool = layer if steps > 1 else 0
        for i in range(graph.first[h], graph.first[h + 1]):
            s = states[i]
            mass = share * distribution[h, s]
            if mass == 0.0:
                continue
            low, high = (actions[h, s], actions[h, s] + 1) if with_actions else (0, n_actions)
            for entry in range(s * n_actions + low, s * n_actions + high):
                flow = mass if with_actions else mass * policy[layer + entry]
                if flow == 0.0:
                    continue
                if separate:
                    whole[layer + entry] += flow
                pooled[pool + entry] += flow * weight[layer + entry] if adversary else flow
                if adversary and fixed.size:
                    constant += flow * fixed[layer + entry]
    state.totals[ADVERSARY if adversary else EXPLORER] += share
    state.totals[CONSTANT] += constant


@compiled_pass
def largest_price(graph: Graph, state: SaddleState) -> float:
    """`max p`, what the next sample is worth."""
    return float(state.price.max())


@compiled_pass
def allocate(graph: Graph, problem: SaddleProblem, state: SaddleState) -> None:
    """The best allocation against the averaged adversary; before there is one, the same to each entry."""
    held, weight = state.totals[ADVERSARY], state.weighted.ravel()
    state.totals[EXPLORER] = 1.0
    scale = 1.0 / held if held > 0.0 else 0.0
    fill(problem.counts.ravel(), weight, scale, problem.number, state.price.ravel(), state.explored.ravel())


@compiled
def fill(
    counts: FloatArray, weighted: FloatArray, scale: float, number: float, level: FloatArray, explored: FloatArray
) -> None:
    """`n + x = max(n, κ·ŵ^{2/3})`, `κ` such that `Σ x = number`; `explored` are shares of that. Flat arrays.

    `Σ max(0, κ·ŵ^{2/3} - n)` is convex and piecewise linear in `κ`, so Newton's method from above is finite. Where all
    counts are so large that the samples are lost in rounding, the differences are: what is left of them is stretched.
    `level` is room.
    """
    for i in range(counts.size):
        level[i] = np.cbrt(scale * weighted[i]) ** 2
    if level.max() == 0.0:
        explored[:] = 1.0 / counts.size
        return
    kappa = np.inf
    while True:
        held, slope = 0.0, 0.0
        for i in range(counts.size):
            if level[i] > 0.0 and kappa * level[i] > counts[i]:
                held += counts[i]
                slope += level[i]
        if slope == 0.0 or not (number + held) / slope < kappa:
            break
        kappa = (number + held) / slope
    total = 0.0
    for i in range(counts.size):
        explored[i] = max(0.0, kappa * level[i] - counts[i])
        total += explored[i]
    for i in range(counts.size):
        explored[i] = explored[i] / total if total > 0.0 else level[i] / level.sum()


@compiled_pass
def set_uniform(graph: Graph, state: SaddleState) -> None:
    """Let the last answer be uniform actions."""
    state.policy[:] = 1.0 / graph.n_actions


@compiled_pass
def set_answer(graph: Graph, state: SaddleState, policy: FloatArray) -> None:
    """Let the last answer be this `policy [H, S, A]`."""
    state.policy[:] = policy


@compiled_pass
def scale_sums(graph: Graph, problem: SaddleProblem, state: SaddleState, factor: float) -> None:
    """Let the sums of both players count this many times; an allocation is no sum."""
    totals = state.totals
    state.adversary[:] *= factor
    state.weighted[:] *= factor
    totals[ADVERSARY], totals[CONSTANT] = factor * totals[ADVERSARY], factor * totals[CONSTANT]
    if not problem.samples:
        state.explored[:] *= factor
        totals[EXPLORER] *= factor
        if state.explorer.shape[0] > state.explored.shape[0]:
            state.explorer[:] *= factor
