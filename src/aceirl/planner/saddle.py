"""The exploration problem of AceIRL as a saddle point, solved by fictitious play with a certified gap.

    min over x of  max over μ̂ of   Σ μ̂[h,s,a] · ( weight[h,s,a] / sqrt(n + x)[h,s,a] + fixed[h,s,a] )

Specification, §5; paper, appendix "Computing the exploration policy". The adversary `μ̂` is an occupancy measure of the model, or of
the policy set `⟨r, μ̂⟩ ≥ v`. The explorer adds visits `x` to the counts `n`: `N_E` episodes of an occupancy measure, or a
budget of samples spread at will (TRAVEL). Counts are per step, or pooled over steps: then `x` is summed over `h`.

**Method.** Both players answer the average of what the other has played (fictitious play; each answer is one backward
and one forward pass) and the averages converge.

**Certificate.** Let `z = n + x` and let `ŵ = μ̄·weight` (summed over `h` if pooled) for the averaged adversary `μ̄`.
* `upper = max_μ̂ ⟨μ̂, weight/√z + fixed⟩`, the value of the adversary's own answer (with a policy set, its Lagrangian dual).
* For every price `p ≥ 0` and `z > 0`, `ŵ/√z ≥ (3/2^{2/3})·ŵ^{2/3}·p^{1/3} - p·z` (the conjugate of `ŵ/√z`). Minimise over
  the explorer: `L(p) = Σ (3/2^{2/3})·ŵ^{2/3}·p^{1/3} - ⟨p, n⟩ - max_x ⟨p, x⟩ + ⟨μ̄, fixed⟩` is a lower bound, and the last
  maximum is the explorer's own answer. With `p = ŵ·z^{-3/2}/2`, minus the gradient at `z`, this is the specification's
  linear bound; the best multiple `α·p` of it is `φ·sqrt(φ/2B)` for `φ = ⟨ŵ, 1/√z⟩` and `B = ⟨p, n⟩ + max_x ⟨p, x⟩`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from aceirl.errors import InputError
from aceirl.kernels import compiled, occupancy
from aceirl.mdp import MDP, FloatArray, check_reward, frozen
from aceirl.planner.constrained import (
    add_occupancy,
    feasibility_slack,
    reward_ceiling,
    search_multiplier,
    values_of,
)
from aceirl.planner.passes import Actions, Cost, Graph, graph_of, push, respond

CHUNK = 2_000_000
"""How many entries the compiled loop handles before it lets Python look for an interrupt."""

SEARCH_LIMIT = 3
"""How many multipliers the adversary tries per iteration; its pair of policies carries over to the next."""


class SaddleStatus(Enum):
    """How a plan ended."""

    OPTIMAL = "optimal"
    """The relative gap is at most the tolerance."""
    LIMIT = "limit"
    """The iterations ran out; the bounds hold, the gap is larger than asked for."""


@dataclass(frozen=True)
class Episodes:
    """The explorer plays one policy for this many episodes: `x = number · μ` with `μ` an occupancy measure."""

    number: float


@dataclass(frozen=True)
class Samples:
    """The explorer spreads this many samples over the entries at will: `x ≥ 0`, `Σ x = number` (a generative model)."""

    number: float


@dataclass(frozen=True, eq=False)
class PolicySet:
    """The adversary's policies: those with `⟨reward, μ̂⟩ ≥ floor`; `reward [H, S, A]`."""

    reward: FloatArray
    floor: float


@dataclass(frozen=True, eq=False)
class SaddleStart:
    """What the next plan starts from: both players' policies `[H, S, A]` (zero where they never are) and their weight.

    Only these arrays matter, so a plan made from a saved and reloaded start is the same bit for bit. `explorer` is the
    allocation, in the shape of the counts, if the explorer draws samples.
    """

    explorer: FloatArray
    adversary: FloatArray
    weight: float


@dataclass(frozen=True, eq=False)
class SaddlePlan:
    """The explorer's side of the saddle point, with its certificate `lower ≤ optimum ≤ upper`.

    `upper` is what this very plan guarantees. `policy [H, S, A]` is all zero in a row where the plan never is, and `reached [H, S]`
    says where it is. `occupancy [H, S, A]`; for samples, `occupancy` is the allocation in the shape of the
    counts and `policy` is empty. `trace [iterations, 2]` holds the upper and lower bound of every iteration.
    """

    status: SaddleStatus
    policy: FloatArray
    occupancy: FloatArray
    upper: float
    lower: float
    iterations: int
    multiplier: float
    trace: FloatArray
    start: SaddleStart

    @property
    def gap(self) -> float:
        """Relative gap `(upper - lower) / upper`; zero if nothing is uncertain."""
        return (self.upper - self.lower) / self.upper if self.upper > 0.0 else 0.0

    @property
    def reached(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """`[H, S]`: where the plan has an opinion."""
        return np.asarray(self.policy.any(axis=-1), dtype=np.bool_)


class _Problem(NamedTuple):
    """What stays the same: `counts [H', S, A]`, `H' = 1` if pooled; `floor` is minus infinity without a policy set."""

    graph: Graph
    counts: FloatArray
    weight: FloatArray
    fixed: FloatArray
    reward: FloatArray
    floor: float
    slack: float
    number: float
    samples: bool


class _State(NamedTuple):
    """What the iterations change, in place. Sums are over answers; an average is a sum over its total weight.

    `explored [H', S, A]` and `weighted [H', S, A]` sum `x/number` and `ŵ`; `explorer [H, S, A]` (a view of `explored` if
    counts are per step) and `adversary [H, S, A]` sum the occupancies; `root`, `price [H', S, A]` are `1/√z` and `p`.
    `totals` = explorer's weight, adversary's weight, sum of `⟨μ̂, fixed⟩`, lower bound, last upper bound, last multiplier.
    """

    explored: FloatArray
    weighted: FloatArray
    explorer: FloatArray
    adversary: FloatArray
    root: FloatArray
    price: FloatArray
    pair: Actions
    rewards: FloatArray
    mass: FloatArray
    totals: FloatArray


@compiled
def _set_root(problem: _Problem, state: _State) -> None:
    """`1/√(n + x)` for the averaged explorer."""
    counts, explored, root = problem.counts.ravel(), state.explored.ravel(), state.root.ravel()
    scale = problem.number / state.totals[0]
    for i in range(counts.size):
        root[i] = 1.0 / np.sqrt(counts[i] + scale * explored[i])


@compiled
def _set_price(problem: _Problem, state: _State) -> tuple[float, float]:
    """`p = ŵ·z^{-3/2}/2` for the averaged adversary; returns `(⟨ŵ, 1/√z⟩, ⟨p, n⟩)`."""
    counts, weighted = problem.counts.ravel(), state.weighted.ravel()
    root, price = state.root.ravel(), state.price.ravel()
    scale = 1.0 / state.totals[1]
    value, held = 0.0, 0.0
    for i in range(counts.size):
        here = scale * weighted[i] * root[i]
        p = 0.5 * here * root[i] * root[i]
        price[i] = p
        value += here
        held += p * counts[i]
    return value, held


@compiled
def _add_answer(problem: _Problem, state: _State, actions: Actions, share: float) -> None:
    """Add a deterministic policy to the adversary's sums; `mass` holds its state distribution."""
    graph, weight, fixed = problem.graph, problem.weight, problem.fixed
    pooled = problem.counts.shape[0] == 1
    constant = 0.0
    for h in range(weight.shape[0]):
        for i in range(graph.first[h], graph.first[h + 1]):
            s = graph.states[i]
            m = share * state.mass[h, s]
            if m > 0.0:
                a = actions[h, s]
                state.adversary[h, s, a] += m
                state.weighted[0 if pooled else h, s, a] += m * weight[h, s, a]
                if fixed.size:
                    constant += m * fixed[h, s, a]
    state.totals[1] += share
    state.totals[2] += constant


@compiled
def _answer_explorer(problem: _Problem, state: _State) -> float:
    """The adversary's best answer to the averaged explorer, added to its sums; returns the upper bound."""
    graph = problem.graph
    n_actions = problem.counts.shape[2]
    cost = Cost(problem.weight, state.root, problem.fixed, problem.reward)
    if not np.isfinite(problem.floor):
        upper = respond(graph, cost, 0.0, state.pair[0])
        push(graph, state.pair[0], n_actions, state.mass)
        _add_answer(problem, state, state.pair[0], 1.0)
        return upper
    share, _, upper, multiplier, _ = search_multiplier(
        graph, cost, problem.floor, problem.slack, state.pair, state.rewards, state.mass, 1e-3, SEARCH_LIMIT
    )
    state.totals[5] = multiplier
    push(graph, state.pair[0], n_actions, state.mass)
    _add_answer(problem, state, state.pair[0], share)
    if share < 1.0:
        push(graph, state.pair[1], n_actions, state.mass)
        _add_answer(problem, state, state.pair[1], 1.0 - share)
    return upper


@compiled
def _add_policy(problem: _Problem, state: _State) -> None:
    """Push the explorer's answer forward and add it to its sums."""
    graph = problem.graph
    actions = state.pair[2]
    push(graph, actions, problem.counts.shape[2], state.mass)
    add_occupancy(graph, actions, state.mass, 1.0, state.explorer)
    if problem.counts.shape[0] == 1:
        for h in range(state.mass.shape[0]):
            for i in range(graph.first[h], graph.first[h + 1]):
                s = graph.states[i]
                state.explored[0, s, actions[h, s]] += state.mass[h, s]
    state.totals[0] += 1.0


@compiled
def _fill(problem: _Problem, state: _State) -> None:
    """The best allocation against the averaged adversary: `n + x = max(n, κ·ŵ^{2/3})` with `κ` such that `Σ x = number`.

    `Σ max(0, κ·e - n)` is convex and piecewise linear in `κ`, so Newton's method from above ends after finitely many steps.
    """
    counts, weighted = problem.counts.ravel(), state.weighted.ravel()
    explored, level = state.explored.ravel(), state.price.ravel()
    scale = 1.0 / state.totals[1]
    low = np.inf
    for i in range(counts.size):
        level[i] = np.cbrt(scale * weighted[i]) ** 2
        if level[i] > 0.0:
            low = min(low, counts[i] / level[i])
    if not np.isfinite(low):
        explored[:] = 1.0 / counts.size
        return
    kappa = np.inf
    while True:
        held, slope = 0.0, 0.0
        for i in range(counts.size):
            if level[i] > 0.0 and (kappa == np.inf or kappa * level[i] > counts[i]):
                held += counts[i]
                slope += level[i]
        better = (problem.number + held) / slope
        if not better < kappa:
            break
        kappa = better
    for i in range(counts.size):
        explored[i] = max(0.0, kappa * level[i] - counts[i]) / problem.number


@compiled
def _lower_bound(problem: _Problem, state: _State, value: float, held: float) -> float:
    """The certificate's lower bound; the explorer's answer to the price goes to `pair[2]`."""
    if problem.samples:
        gain = state.price.max()
    else:
        nothing = np.empty((0, 0, 0))
        gain = respond(problem.graph, Cost(nothing, state.price, nothing, nothing), 0.0, state.pair[2])
    cost = held + problem.number * gain
    constant = state.totals[2] / state.totals[1]
    return constant if cost <= 0.0 else constant + value * np.sqrt(value / (2.0 * cost))


@compiled
def _iterate(problem: _Problem, state: _State, tolerance: float, trace: FloatArray) -> tuple[int, bool]:
    """Fictitious play for as many iterations as `trace` has rows, or until the gap is small; `(iterations, done)`."""
    for t in range(trace.shape[0]):
        _set_root(problem, state)
        upper = _answer_explorer(problem, state)
        value, held = _set_price(problem, state)
        lower = max(state.totals[3], _lower_bound(problem, state, value, held))
        state.totals[3], state.totals[4] = lower, upper
        trace[t, 0], trace[t, 1] = upper, lower
        if upper - lower <= tolerance * upper:
            return t + 1, True
        if problem.samples:
            _fill(problem, state)
        else:
            _add_policy(problem, state)
    return trace.shape[0], False
